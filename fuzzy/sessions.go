package fuzzy

import (
	"encoding/binary"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sessions"
	"github.com/coxswain/raft/internal/sim"
)

// This file has the clients that write by sessions. Package session is not used: these clients send again what they need not,
// late, in any order and with any floor they ever had, and never believe an answer that the table did not give.

// Sessions sets the sessions of a run.
type Sessions struct {
	Chance int      // that a request is one of a session; 0: there are none
	Most   int      // sessions in the table
	Bytes  int      // of the table, see sessions.Limits
	Idle   sim.Time // after which a session expires
	Window int      // commands of a session without an answer
	Copies int      // chance that an attempt of a session is an exact copy of an earlier one, however old
	Forged int      // chance that it names a session that is not there
}

// shapeSessions draws a small table, sessions that expire, members that restart and are restored all the time, and both kinds
// of state machines.
func shapeSessions(s *sim.Stream, p *Profile) {
	millisecond := sim.In(time.Millisecond)
	only(Crash, PowerCut, CrashLoop, Partition, Usurp, Close, Pause, Drift, Jump, Wipe, Stall)(s, p)
	p.Voters, p.Learners, p.World, p.Limits = sim.Pick(s, 1, 3, 3, 3, 4, 5), s.IntN(4)/3, World{}, generousLimits()
	drawSnapshots(s, p)
	if p.Node.Durable = s.Coin(); p.Node.Durable {
		p.Node.Compact = sim.Pick(s, 0, 100_000, 500_000)
	}
	for _, kind := range []FaultKind{Crash, Usurp} {
		p.Faults = append(p.Faults, FaultRate{kind, s.LogTime(150*millisecond, 2000*millisecond), s.LogTime(10*millisecond, 300*millisecond)})
	}
	p.Faults = append(p.Faults, away(s))
	p.FaultsFrom, p.Length = 500*millisecond, s.LogTime(2000*millisecond, 8000*millisecond)
	p.Load.Clients, p.Load.Think, p.Load.Patience = 2+s.IntN(4), s.LogTime(2*millisecond, 40*millisecond), s.LogTime(20*millisecond, 500*millisecond)
	p.Load.Reads, p.Load.Transfers, p.Load.Burst, p.Load.BytesMax, p.Load.History = 150_000, s.IntN(2)*30_000, sim.Pick(s, 1, 4, 12), 32, true
	p.Sessions = drawnSessions(s)
}

// drawnSessions returns a small table, whose sessions expire.
func drawnSessions(s *sim.Stream) Sessions {
	millisecond := sim.In(time.Millisecond)
	return Sessions{
		Chance: 850_000, Most: 2, Bytes: sim.Pick(s, 360, 500, 800, 1<<20), Idle: s.LogTime(50*millisecond, 3000*millisecond), Window: 1 + s.IntN(5),
		Copies: s.LogUniform(20_000, 500_000), Forged: 20_000,
	}
}

// sessionClients are the clients of a run as far as they use sessions.
type sessionClients struct {
	random   *sim.Stream
	clients  []sessionClient
	commands map[uint64]*sessionCommand // by the serial that they write
}

// sessionClient is a client's present session, and some of what it has sent.
type sessionClient struct {
	id     sessions.ID // Index 0: it has none
	nonce  uint64      // of its last opening
	floor  uint64      // it has the answers to all lower numbers, or waits for them no longer
	next   uint64
	open   []*sessionCommand // without an answer, by number
	copies []copied          // of all its sessions, the last ones
}

// copied is an attempt that may be sent again.
type copied struct {
	request []byte
	command *sessionCommand
}

// copiesMax is the number of attempts that a client may repeat.
const copiesMax = 16

// sessionCommand is one command of a session, and what its client knows of it.
type sessionCommand struct {
	id      sessions.ID
	number  uint64
	serial  uint64 // of its first attempt, which it writes
	key     uint8
	client  int
	called  int64
	doubt   int    // attempts whose fate the client does not know
	answer  []byte // the first one
	ended   bool   // the client sends it no more, except for copies of a command with an answer
	never   bool   // the client was told that it has no effect
	effects int    // by the global history
}

// sessionAttempt is one entry of a session that a client proposes.
type sessionAttempt struct {
	kind    sessions.Kind
	id      sessions.ID
	command *sessionCommand // nil: it is no command, or forged
}

func newSessionClients(c *cluster) *sessionClients {
	return &sessionClients{
		random:  sim.NewStream(c.seed.Number, sim.WorkloadConcern<<52),
		clients: make([]sessionClient, c.profile.Load.Clients), commands: map[uint64]*sessionCommand{},
	}
}

// writeSession proposes some entries of a session as one event, as write does.
func (w *workload) writeSession(n *node, client, count int) raft.RequestID {
	if n.core == nil || w.refusesProposals(n, client) {
		return 0
	}
	proposals := make([]raft.Proposal, count)
	var requestID raft.RequestID
	for i := range proposals {
		serial := uint64(len(w.writes))
		w.writes = append(roomy(w.writes, 1), attempt{})
		drawn, of := w.drawAttempt(n, client, serial)
		data := append(make([]byte, commandBytesMin), drawn...)
		binary.LittleEndian.PutUint64(data, serial)
		requestID = w.ask(request{kind: writeRequest, client: client, node: n, serial: serial, size: len(data), floor: w.c.check.committed(), session: of})
		if of.command != nil && of.command.called == 0 {
			of.command.called = w.stamp
		}
		proposals[i] = raft.Proposal{RequestID: requestID, Kind: raft.EntrySession, Data: data}
	}
	w.propose(n, proposals)
	return requestID
}

// drawAttempt draws what a client sends next.
func (w *workload) drawAttempt(n *node, client int, serial uint64) ([]byte, *sessionAttempt) {
	all, s := w.sessions, &w.sessions.clients[client]
	profile := &w.c.profile.Sessions
	if len(s.copies) > 0 && all.random.Chance(profile.Copies) {
		c := s.copies[all.random.IntN(len(s.copies))]
		if c.command == nil || !c.command.ended || c.command.answer != nil {
			if c.command != nil {
				c.command.doubt++
			}
			return c.request, &sessionAttempt{kind: sessions.Command, command: c.command}
		}
	}
	if s.id.Index == 0 {
		s.nonce = all.random.Uint64()
		id := sessions.ID{Cluster: n.status.Cluster, Nonce: s.nonce}
		limits := sessions.Limits{Sessions: profile.Most, Bytes: int64(profile.Bytes), Idle: time.Duration(profile.Idle), Window: profile.Window}
		return sessions.Request{Kind: sessions.Open, ID: id, Limits: limits}.Encode(), &sessionAttempt{kind: sessions.Open, id: id}
	}
	if all.random.IntN(60) == 0 {
		id := s.id
		s.leave()
		return sessions.Request{Kind: sessions.Close, ID: id}.Encode(), &sessionAttempt{kind: sessions.Close, id: id}
	}
	c := s.draw(all.random)
	if c == nil {
		c = &sessionCommand{id: s.id, number: s.next, serial: serial, key: uint8(all.random.IntN(w.c.profile.Load.Keys)), client: client}
		s.next += uint64(1 + all.random.IntN(8)/7) // sometimes a number is left out, whose command the client has given up
		s.open = append(s.open, c)
		all.commands[serial] = c
	}
	return s.attempt(all.random, c, profile)
}

// draw draws a command that has no answer yet; nil: a new one.
func (s *sessionClient) draw(random *sim.Stream) *sessionCommand {
	if len(s.open) == 0 || len(s.open) < 8 && random.IntN(2) == 0 {
		return nil
	}
	return s.open[random.IntN(len(s.open))]
}

// attempt returns a command's next attempt, which may be forged: then it is none of the command.
func (s *sessionClient) attempt(random *sim.Stream, c *sessionCommand, p *Sessions) ([]byte, *sessionAttempt) {
	data := binary.LittleEndian.AppendUint64(nil, c.serial)
	data = append(data, c.key, 0, 0, 0)
	r := sessions.Request{Kind: sessions.Command, ID: c.id, Number: c.number, Floor: s.floor, Data: data}
	if random.Chance(p.Forged) {
		if r.ID.Nonce++; random.Coin() {
			r.ID = c.id
			r.ID.Cluster[0]++
		}
		return r.Encode(), &sessionAttempt{kind: sessions.Command}
	}
	c.doubt++
	request := r.Encode()
	if len(s.copies) == copiesMax {
		s.copies = s.copies[1:]
	}
	s.copies = append(s.copies, copied{request, c})
	return request, &sessionAttempt{kind: sessions.Command, command: c}
}

// leave ends the client's part in its session. The commands without an answer keep their unknown outcome.
func (s *sessionClient) leave() {
	for _, c := range s.open {
		c.ended = true
	}
	s.id, s.open = sessions.ID{}, nil
}

// endCommand takes a command off the client's list, and raises the floor.
func (s *sessionClient) endCommand(c *sessionCommand) {
	c.ended = true
	if c.id != s.id {
		return
	}
	for i, o := range s.open {
		if o == c {
			s.open = append(s.open[:i:i], s.open[i+1:]...)
			break
		}
	}
	if s.floor = s.next; len(s.open) > 0 {
		s.floor = s.open[0].number
	}
}

// sessionAnswered takes the answer to an attempt.
func (w *workload) sessionAnswered(r *request, e raft.EntryID) {
	s, of := &w.sessions.clients[r.client], r.session
	a, err := sessions.DecodeAnswer(w.c.check.canonical[e.Index-1].answer)
	w.c.holds(err == nil, "G24", "the answer to entry %v of a session cannot be read: %v", e, err)
	switch {
	case of.kind == sessions.Open && a.Outcome == sessions.Opened && of.id.Nonce == s.nonce && s.id.Index == 0:
		s.id = of.id
		s.id.Index, s.floor, s.next = e.Index, 1, 1
	case of.command != nil:
		w.c.stats.SessionCommands[a.Outcome]++
		of.command.doubt--
		w.commandAnswered(s, of.command, a)
	}
}

// commandAnswered takes the answer to an attempt of a command.
func (w *workload) commandAnswered(s *sessionClient, c *sessionCommand, a sessions.Answer) {
	if a.Outcome == sessions.Applied {
		if w.c.check.checkFirstAnswer(c, a.Data); c.answer == nil {
			w.stamp++
			c.answer = a.Data
			w.history = append(w.history, operation{c.client, true, c.key, c.serial, c.called, w.stamp})
			s.endCommand(c)
		}
		return
	}
	if c.answer != nil {
		return
	}
	if a.Outcome == sessions.Bytes {
		return // tried again
	}
	if c.doubt == 0 && !c.ended {
		w.c.check.checkToldNever(c)
	}
	if s.endCommand(c); a.Outcome == sessions.Expired && c.id == s.id {
		s.leave()
	}
}

// notTaken records that an attempt has not become an entry, and never will.
func (w *workload) notTaken(r *request) {
	if r.session != nil && r.session.command != nil {
		r.session.command.doubt--
	}
}

// advanceSessions applies the entries up to an index to a machine with sessions, in batches of any size.
func (n *node) advanceSessions(to raft.Index) bool {
	for n.applied < to && to <= n.last() {
		last := min(to, n.applied+raft.Index(n.random.LogUniform(1, batchMax)))
		var entries []*raft.Entry
		for i := n.applied; i < last; i++ {
			if e := n.log[i].entry; isCommand(e) {
				entries = append(entries, e)
			}
		}
		if len(entries) > 0 {
			n.c.check.checkSessionAnswers(n, entries, n.machine.ledger.apply(entries))
		}
		n.applied = last
	}
	return n.applied >= to
}
