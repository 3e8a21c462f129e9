package fuzzy

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// The rules of a user's state machine. The reference is one more state machine. It applies the committed commands one at a
// time, and is never restored.
//
//	A1  At each index every member gives the same answer as the reference. This holds after restarts, after restores, and in batches of any size.
//	A2  Members whose state machines have a method Hash() uint64 have the reference's hash at each index.
//	A3  An acknowledged command is committed after everything that was committed when its client called. With A1 this makes the history of all clients linearizable.
//	A4  The same seed gives the same commands and answers.
//	A5  No method of the state machine fails, panics or ends its goroutine.
//	A6  The state machine keeps the contract of raft.FSM about bytes, contexts, readers and writers.

// Application is a user's state machine with its commands. Run puts this state machine into the members of a simulated
// cluster. It replaces the simulator's own small machine.
type Application struct {
	New     func() raft.FSM           // returns an empty state machine
	Command func(r *rand.Rand) []byte // returns a command, which depends on nothing but r
	Watch   func()                    // called before and after each call of the application; nil: not called
	spared  hazard                    // hazards that runs do not inflict on the state machine
}

// ApplicationProfile is the profile of the seeds of applications.
const ApplicationProfile = "fsm"

// commandLimitBytes is the limit of a command of an application.
const commandLimitBytes = 1<<20 - commandBytesMin

// host runs an application in a cluster.
type host struct {
	c         *cluster
	app       *Application
	reference raft.FSM
	spare     raft.FSM   // restored from one snapshot after another
	applied   raft.Index // last index applied by the reference
	hash      uint64     // of its state, if it has one
	answered  []answer   // answers by index, from 1
	source    *rand.PCG
	random    *rand.Rand
	longest   int // bytes of its longest command so far
	did
}

// did records what an application did in a run.
type did struct{ done []done }

// done is a checksum of a command or of an answer of the reference, or the size of a snapshot.
type done struct {
	kind doneKind
	sum  uint64
}

type doneKind uint8

const (
	commandDone doneKind = iota
	answerDone
	snapshotDone
)

func (d *did) note(kind doneKind, b []byte) {
	d.done = append(d.done, done{kind, uint64(len(b))<<32 | uint64(crc32.Checksum(b, castagnoli))})
}

// answer is the reference's answer at an index.
type answer struct {
	data []byte
	raw  []byte // as Apply returned it
	hash uint64 // hash of the state, if the state machine has a method Hash
}

// hasher is a state machine that hashes its state.
type hasher interface{ Hash() uint64 }

// drawApplication returns the profile of a seed: short lives, and a snapshot every few entries.
func drawApplication(seed Seed) Profile {
	s, millisecond := sim.NewStream(seed.Number, sim.Profile), sim.In(time.Millisecond)
	p := drawSwarm(s)
	p.Name = ApplicationProfile
	only(Crash, PowerCut, CrashLoop, Partition, Usurp, Pause, Stall, Wipe)(s, &p)
	shapeSnapshots(s, &p)
	p.Voters, p.Learners = sim.Pick(s, 3, 3, 3, 4, 5), s.IntN(4)/3
	p.Length, p.FaultsFrom = s.LogTime(800*millisecond, 3000*millisecond), 300*millisecond
	for i := range p.Faults {
		f := &p.Faults[i]
		f.Every, f.For = s.LogTime(150*millisecond, 1500*millisecond), s.LogTime(10*millisecond, 400*millisecond)
		if f.Fault == Wipe {
			f.Every = 1000 * millisecond
		}
	}
	d := &p.Network.Delay
	d.Min, d.Mean, d.Max = min(d.Min, millisecond), min(d.Mean, 3*millisecond), min(d.Max, 100*millisecond)
	d = &p.Node.DiskDelay
	d.Min, d.Mean, d.Max = min(d.Min, millisecond), min(d.Mean, 3*millisecond), min(d.Max, 50*millisecond)
	p.Network.Bandwidth, p.Node.Durable, p.Node.Compact = 0, false, 0
	p.Node.Codec, p.Node.StepDelay.Mean = 20_000, min(p.Node.StepDelay.Mean, millisecond)
	p.Load = Load{
		Clients: 2 + s.IntN(5), Think: s.LogTime(2*millisecond, 20*millisecond), Patience: 300 * millisecond,
		Reads: 50_000, Hedged: 50_000 * s.IntN(2), Burst: sim.Pick(s, 1, 1, 4, 20), Keys: 1, BytesMax: 1,
	}
	return p
}

// twiceEvery: one seed in so many runs twice.
const twiceEvery = 16

// Run runs the seed with this number. If trace is not nil, it receives every record; trace does not influence the run.
func (a *Application) Run(number uint64, trace func(*Record)) Result {
	c := a.newCase(number)
	r := RunCase(&c, trace)
	if r.Failure == nil && number%twiceEvery == 0 {
		again := RunCase(&c, nil)
		r.Failure = r.differs(&again)
	}
	return r
}

// differs compares what an application did in two runs of a seed. It ignores the sizes of snapshots, and everything that
// depends on these sizes, because the sizes may differ.
func (r *Result) differs(again *Result) *Failure {
	if again.Failure != nil {
		return again.Failure
	}
	for i := range min(len(r.done), len(again.done)) {
		switch first := r.done[i]; {
		case first == again.done[i]:
			continue
		case first.kind == commandDone:
			return &Failure{Class: Safety, Rule: "A4", Text: "a second run of the seed gave other commands: workload must depend on nothing but r"}
		case first.kind == answerDone:
			return &Failure{Class: Safety, Rule: "A4", Text: "a second run of the seed gave other answers to the same commands: " +
				"the state machine depends on something besides the log, such as the time, a random number, or a variable that several of them share"}
		}
		return nil
	}
	return nil
}

func (a *Application) newCase(number uint64) Case {
	seed := Seed{ApplicationProfile, number}
	return Case{From: seed.String(), Number: number, Profile: drawApplication(seed), Requests: ordinals{all: true}, Changes: ordinals{all: true}, app: a}
}

// hostApplication makes the members of the cluster run an application.
func (c *cluster) hostApplication(a *Application) {
	if a == nil {
		return
	}
	h := &host{c: c, app: a, source: rand.NewPCG(0, 0)}
	h.random = rand.New(h.source)
	c.host = h
	h.reference = h.newFSM("the reference")
	h.hashReference()
	for _, n := range c.nodes {
		n.hosted = &hosted{host: h, node: n, random: sim.NewStream(c.seed.Number, sim.WorkloadConcern<<8+sim.Concern(n.index))}
	}
}

// contract fails the run because of a broken contract.
func (h *host) contract(who, format string, args ...any) {
	h.c.fail(Safety, "A6", who+": "+format, args...)
}

// call calls the application. It reports whether the call succeeded; if not, the run has failed.
func (h *host) call(who string, f func() error, format string, args ...any) (succeeded bool) {
	if h.c.failure != nil {
		return false
	}
	h.watch()
	defer h.watch()
	defer func() {
		if p := recover(); p != nil {
			h.c.fail(Safety, "A5", "%s: %s panicked: %v\n%s", who, fmt.Sprintf(format, args...), p, debug.Stack())
		}
	}()
	if err := f(); err != nil {
		h.c.fail(Safety, "A5", "%s: %s returned an error: %v", who, fmt.Sprintf(format, args...), err)
		return false
	}
	return true
}

func (h *host) watch() {
	if h.app.Watch != nil {
		h.app.Watch()
	}
}

// inflicts reports whether the run inflicts a hazard on its state machines.
func (h *host) inflicts(what hazard) bool { return h.app.spared&what == 0 }

func (h *host) newFSM(who string) (fsm raft.FSM) {
	h.call(who, func() error {
		if fsm = h.app.New(); fsm == nil {
			return errors.New("it returned nil")
		}
		return nil
	}, "newFSM")
	return fsm
}

// command returns the command of a write. The command depends only on three numbers: those of the seed, of the request, and
// of the write within the request. So a command stays the same if other commands are left out of the run.
func (h *host) command(request int64, write int) (command []byte) {
	h.source.Seed(h.c.seed.Number, uint64(request)<<8|uint64(write))
	h.call("a client", func() error { command = h.app.Command(h.random); return nil }, "workload")
	if len(command) > commandLimitBytes {
		h.c.fail(Safety, "A6", "workload returned a command of %d bytes; the limit is %d", len(command), commandLimitBytes)
	}
	h.longest = max(h.longest, len(command))
	h.note(commandDone, command)
	return command
}

// commandBytes returns the part of an entry that an application sees.
func commandBytes(e *raft.Entry) ([]byte, bool) {
	if e.Kind != raft.EntryCommand || len(e.Data) < commandBytesMin {
		return nil, false
	}
	return e.Data[commandBytesMin:], true
}

// at returns the reference's answer to the entry at a committed index.
func (h *host) at(i raft.Index) *answer {
	for ; h.applied < i; h.applied++ {
		h.answered = append(h.answered, h.refer(h.c.check.canonical[h.applied].slot.entry))
	}
	return &h.answered[i-1]
}

// refer applies one entry to the reference. Nothing overwrites the bytes of the reference's entries.
func (h *host) refer(e *raft.Entry) (a answer) {
	if _, is := commandBytes(e); !is {
		return answer{hash: h.hash}
	}
	a.raw = h.applyOne(h.reference, e)
	a.data = bytes.Clone(a.raw)
	h.note(answerDone, a.data)
	h.hashReference()
	a.hash = h.hash
	return a
}

func (h *host) hashReference() {
	if s, is := h.reference.(hasher); is {
		h.call("the reference", func() error { h.hash = s.Hash(); return nil }, "Hash")
	}
}

// shown is a byte slice that prints as text of limited length.
type shown []byte

func (b shown) String() string {
	const most = 80
	if len(b) > most {
		return fmt.Sprintf("%q and %d more bytes", []byte(b[:most]), len(b)-most)
	}
	return fmt.Sprintf("%q", []byte(b))
}

// acknowledged checks a write whose client gets an acknowledgement.
func (h *host) acknowledged(r *request, id raft.EntryID) {
	if h != nil && id.Index <= r.floor {
		h.c.fail(Safety, "A3", "a command is acknowledged at %v; %d was committed before its client called", id, r.floor)
	}
}

// end applies all committed entries to the state machines. One state machine takes a last snapshot. Another one takes a
// snapshot of an empty state.
func (h *host) end() {
	if h == nil {
		return
	}
	var up []*hosted
	for _, n := range h.c.nodes {
		n.hosted.abandon()
		if n.core != nil {
			up = append(up, n.hosted)
		}
	}
	if h.c.edits.over(h.c) || len(up) == 0 {
		return
	}
	for _, m := range up {
		m.apply(h.c.check.committed())
	}
	last := up[int(h.c.seed.Number)%len(up)]
	last.auditNow()
	last.start()
	last.auditNow()
}
