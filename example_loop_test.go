package raft_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

// host is a loop around one Core. The goroutine that calls step runs it. After an error it must not be stepped again.
type host struct {
	core    *raft.Core
	store   raft.Storage
	send    func(raft.Message) // may lose it; for an append that was not sent, SendDropped should be stepped
	wakeAt  raft.Time
	applied raft.Index
	state   []string // the state machine
	answer  func(raft.Answer)
}

// step steps the events, then the events that follow from each Output, until there are none. Without events it checks
// the deadlines.
func (h *host) step(now raft.Now, events ...raft.Event) (err error) {
	for again := true; again && err == nil; again = len(events) > 0 {
		events, err = h.process(h.core.Step(now, events...))
	}
	return err
}

// process does what an Output says in the simplest way, one thing after the other.
func (h *host) process(out raft.Output) (events []raft.Event, err error) {
	w := out.Write
	if w.Log != nil {
		for i := range w.Log.Entries {
			w.Log.Entries[i].Seal() // from here on the store and the messages share the entry
		}
	}
	if w.ChangesStore() { // Writes are made in the order issued. One that fails ends the host: it is never repeated.
		if err := h.store.Write(raft.StorageWrite{Mark: w.Mark, Hard: w.Hard, Log: w.Log, Commit: w.Commit}); err != nil {
			return nil, err
		}
	}
	if w.Mark != nil { // The store must not be used any longer: once the mark is durable, the host ends.
		return nil, w.Mark.Err()
	}
	// Then holds promises, which may only leave once the write is durable. Send may leave at any time. Here it waits
	// too, because an append names a span of the log, whose entries the sender reads from the store.
	for _, m := range slices.Concat(out.Send, w.Then) {
		if r, ok := m.Body.(raft.AppendRequest); ok {
			err = h.read(r.Prev.Index, r.Last.Index, func(e raft.Entry) { r.Entries = append(r.Entries, e) })
			if m.Body = r; err != nil {
				return nil, err
			}
		}
		h.send(m)
	}
	if w.Seq != 0 { // Persisted comes after Then has been sent, even if the write had nothing else.
		events = append(events, raft.Persisted{Seq: w.Seq})
	}
	for _, a := range out.Answers { // Before Apply: an accepted proposal gets its id before it is applied.
		h.answer(a)
	}
	if out.Apply != (raft.EntryID{}) { // Committed, and durable here: each entry up to it is applied once, in order.
		if err = h.read(h.applied, out.Apply.Index, h.apply); err != nil {
			return nil, err
		}
		events = append(events, raft.Applied{ID: out.Apply})
	}
	h.wakeAt = out.WakeAt // Step no later than this, whether there are events or not.
	return events, nil
}

func (h *host) apply(e raft.Entry) {
	if h.applied = e.Index; e.Kind == raft.EntryCommand {
		h.state = append(h.state, fmt.Sprintf("%s@%d", e.Data, e.Index))
	}
}

// read returns the entries (after, last].
func (h *host) read(after, last raft.Index, take func(raft.Entry)) error {
	for after < last {
		batch, err := h.store.Entries(raft.Span{After: after, Last: last}, 1<<20)
		if err != nil {
			return err
		}
		for _, e := range batch {
			take(e)
		}
		after += raft.Index(len(batch))
	}
	return nil
}

// start starts the member on its store. members is only set when the group is created, never later: see
// Stored.Initialize for when that is safe.
func (h *host) start(now raft.Now, self raft.Member, members *raft.Configuration) error {
	identity := raft.Identity{Cluster: "example", ID: self.ID, Fresh: self.Incarnation, Nonce: rand.Uint64()}
	stored, err := h.store.Load(context.Background(), identity)
	if err != nil {
		return err
	}
	if members != nil {
		w, err := stored.Initialize(self.ID, raft.ClusterID{1, 2, 3}, *members)
		if err == nil && w.Log != nil {
			err = h.store.Write(w)
		}
		if err != nil {
			return err
		}
	}
	core, out, err := raft.NewCore(raft.CoreConfig{ID: self.ID, Seed: uint64(self.Incarnation)}, stored, now)
	if err != nil {
		return err
	}
	h.core = core
	events, err := h.process(out)
	if err != nil {
		return err
	}
	return h.step(now, events...)
}

// The type host is a complete loop. Here three of them share one goroutine, the network is a queue, and the clock
// jumps to the next deadline. A network between processes also needs the rules of Handshake.
func ExampleCore_Step() {
	now, network := raft.Now{Mono: 1}, []raft.Message{}
	members := raft.NewConfiguration([]raft.Member{
		{ID: "a", Address: "a:1", Incarnation: 0xa1}, {ID: "b", Address: "b:1", Incarnation: 0xb2}, {ID: "c", Address: "c:1", Incarnation: 0xc3},
	})
	hosts := map[raft.NodeID]*host{}
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	for _, m := range members.Members {
		hosts[m.ID] = &host{
			store: storage.NewMemory(), send: func(m raft.Message) { network = append(network, m) },
			answer: func(a raft.Answer) { fmt.Println("accepted:", a.Kind == raft.AnswerAccepted, "as entry", a.ID) },
		}
		must(hosts[m.ID].start(now, m, &members))
	}
	until := func(done func(*host) bool) (found *host) {
		for {
			next := hosts["a"]
			for _, m := range members.Members {
				if h := hosts[m.ID]; done(h) {
					return h
				} else if h.wakeAt < next.wakeAt {
					next = h
				}
			}
			if len(network) == 0 {
				now.Mono = max(now.Mono, next.wakeAt)
				must(next.step(now))
				continue
			}
			m := network[0]
			network = network[1:]
			must(hosts[m.To.ID].step(now, raft.Received{Message: m}))
		}
	}
	leader := until(func(h *host) bool { return h.core.Leadership().Role == raft.Leader })
	must(leader.step(now, raft.Proposed{Proposals: []raft.Proposal{raft.NewProposal(1, raft.EntryCommand, []byte("x=1"))}}))
	for _, m := range members.Members {
		until(func(h *host) bool { return h == hosts[m.ID] && len(h.state) == 1 })
		fmt.Println(m.ID, hosts[m.ID].state)
	}
	// Output:
	// accepted: true as entry 3@2
	// a [x=1@3]
	// b [x=1@3]
	// c [x=1@3]
}
