package raft_test

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

// host is a loop around one Core. The goroutine that calls step and receive runs the loop. After an error, the host must not
// be used again. The loop does one thing at a time; Output says what a loop may do later, or concurrently. The loop reports
// neither connections nor the ends of streams; Output says what it costs to omit each event.
type host struct {
	core     *raft.Core
	self     raft.Peer
	store    raft.SnapshotStorage
	send     func(raft.Message) // may lose it
	wakeAt   raft.Time
	applied  raft.Index
	state    []string // the state machine
	restored raft.Index
	wants    raft.Receive // the snapshot that the core has asked for last
	answer   func(raft.Answer)
}

// step steps the events. It then steps the events that follow from each Output, until no more follow. Without events, it only
// checks the deadlines.
func (h *host) step(now raft.Now, events ...raft.Event) (err error) {
	for again := true; again && err == nil; again = len(events) > 0 {
		events, err = h.process(h.core.Step(now, events...))
	}
	return err
}

// receive steps a message that has arrived. The loop handles the bytes of snapshots: the core only learns that
// they have arrived.
func (h *host) receive(now raft.Now, m raft.Message) error {
	switch body := m.Body.(type) {
	case raft.SnapshotProgress:
		h.sendSnapshot(m.From, body.File)
		return nil
	case raft.SnapshotChunk:
		if m.From != h.wants.From || body.File != h.wants.Snapshot.File {
			return nil // it is repeated, or another leader's by now
		}
		arrived := raft.SnapshotArrived{From: m.From, Snapshot: h.wants.Snapshot}
		if err := h.save(arrived.Snapshot, body.Data); err != nil {
			return err
		}
		h.wants = raft.Receive{}
		return h.step(now, arrived)
	}
	return h.step(now, raft.Received{Message: m})
}

// process carries out an Output in the simplest way, one thing after another. It ignores Config, which says which members to
// dial, because here every host reaches every other host.
func (h *host) process(out raft.Output) (events []raft.Event, err error) {
	w := out.Write
	if err := h.write(w); err != nil {
		return nil, err
	}
	// Then holds promises, which must not leave before the write is durable. Send may leave at any time, but here it waits,
	// too. The reason is that an append names only a span of the log, and the sender reads its entries from the store.
	for _, m := range slices.Concat(out.Send, w.Then) {
		if r, ok := m.Body.(raft.AppendRequest); ok {
			err := h.read(r.Prev.Index, r.Last.Index, func(e raft.Entry) { r.Entries = append(r.Entries, e) })
			switch {
			case errors.Is(err, raft.ErrNotStored): // this very write has compacted the log beyond it
				events = append(events, raft.SendDropped{To: m.To, Span: raft.Span{After: r.Prev.Index, Last: r.Last.Index}})
				continue
			case err != nil:
				return nil, err
			}
			m.Body = r
		}
		h.send(m)
	}
	if w.Seq != 0 { // Persisted comes after Then has been sent, even if the write had nothing else.
		events = append(events, raft.Persisted{Seq: w.Seq})
	}
	for _, a := range out.Answers { // Before Apply: an accepted proposal gets its id before it is applied.
		h.answer(a)
	}
	if out.Restore != nil { // Before Apply, which continues after it.
		if err := h.restore(*out.Restore); err != nil {
			return nil, err
		}
		events = append(events, raft.Applied{ID: out.Restore.ID})
	}
	if out.Apply != (raft.EntryID{}) { // Committed, and durable here: each entry up to it is applied once, in order.
		if err := h.read(h.applied, out.Apply.Index, h.apply); err != nil {
			return nil, err
		}
		events = append(events, raft.Applied{ID: out.Apply})
	}
	if out.Keep != nil { // After Apply: a snapshot is taken of exactly what Apply has named last.
		events = append(events, h.keep(*out.Keep)...)
	}
	h.wakeAt = out.WakeAt // Step no later than this, whether there are events or not.
	return events, nil
}

// write makes a Write durable. The host makes writes in the order in which they were issued. If a write fails, the host ends,
// because a write is never repeated.
func (h *host) write(w raft.Write) error {
	if w.Log != nil {
		for i := range w.Log.Entries {
			w.Log.Entries[i].Seal() // from here on the store and the messages share the entry
		}
	}
	if w.ChangesStore() {
		err := h.store.Write(raft.StorageWrite{
			Mark: w.Mark, Hard: w.Hard, Snapshot: w.Snapshot, Base: w.Base, Log: w.Log, Commit: w.Commit,
		})
		if err != nil {
			return err
		}
	}
	if w.Mark != nil { // The store must not be used any longer: once the mark is durable, the host ends.
		return w.Mark.Err()
	}
	for more := w.Base != nil; more; { // The entries up to the base may be deleted, now or little by little.
		var err error
		if more, err = h.store.Prune(); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) apply(e raft.Entry) {
	if h.applied = e.Index; e.Kind == raft.EntryCommand {
		h.state = append(h.state, fmt.Sprintf("%s@%d", e.Data, e.Index))
	}
}

// keep carries out the part of an Output that is about snapshots. It ignores Stop, which ends running streams, because here
// each stream is one message.
func (h *host) keep(k raft.Keep) (events []raft.Event) {
	if k.Take != nil { // without Sync and Hold, which are for a DurableFSM
		events = append(events, h.take(*k.Take))
	}
	for _, file := range k.Discard {
		_ = h.store.DiscardSnapshot(file) // nobody needs it, and the next start deletes what is left
	}
	if k.Receive != nil { // A leader offers it again and again, so the answer may be lost.
		h.wants = *k.Receive
		h.send(raft.Message{From: h.self, To: h.wants.From, Body: raft.SnapshotProgress{File: h.wants.Snapshot.File, Begin: true}})
	}
	return events
}

// take writes the present state to a file. The file is complete and synced before the core hears of it.
func (h *host) take(t raft.Take) raft.Event {
	data, err := json.Marshal(h.state)
	if err != nil {
		return raft.SnapshotTaken{Take: t.ID, Err: err}
	}
	s := raft.Snapshot{Base: t.Base, Size: int64(len(data)), Sum: crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))}
	crand.Read(s.File[:])
	if err := h.save(s, data); err != nil {
		return raft.SnapshotTaken{Take: t.ID, Err: err} // the core asks for another one later
	}
	return raft.SnapshotTaken{Take: t.ID, Snapshot: s}
}

func (h *host) save(s raft.Snapshot, data []byte) error {
	w, err := h.store.CreateSnapshot(s.File)
	if err != nil {
		return err
	}
	if _, err = w.Write(data); err == nil {
		err = w.Finish(s)
	}
	return errors.Join(err, w.Abort()) // nothing, once it is finished
}

func (h *host) load(file raft.SnapshotID) ([]byte, error) {
	r, err := h.store.OpenSnapshot(file)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	return data, errors.Join(err, r.Close())
}

// sendSnapshot sends a snapshot that the core has offered, in one chunk. Until the follower has the snapshot, the core
// repeats the offer.
func (h *host) sendSnapshot(to raft.Peer, file raft.SnapshotID) {
	if data, err := h.load(file); err == nil { // or else it was discarded: there is a newer one
		h.send(raft.Message{From: h.self, To: to, Body: raft.SnapshotChunk{File: file, Data: data, Last: true}})
	}
}

// restore replaces the state with that of a snapshot. Entries that were applied earlier no longer count.
func (h *host) restore(s raft.Snapshot) error {
	data, err := h.load(s.File)
	if err != nil {
		return err
	}
	h.state, h.applied, h.restored = nil, s.ID.Index, s.ID.Index
	return json.Unmarshal(data, &h.state)
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

// start starts the member on its store. The caller sets members only when it creates the group, never later.
// Stored.Initialize says when that is safe.
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
	cfg := raft.CoreConfig{ID: self.ID, Seed: uint64(self.Incarnation), Snapshots: true}
	cfg.SnapshotEntries, cfg.SnapshotTailBytes, cfg.SnapshotHoldBytes = 8, 100, 100 // tiny, so that there are snapshots
	core, out, err := raft.NewCore(cfg, stored, now)
	if err != nil {
		return err
	}
	h.core, h.self = core, raft.Peer{ID: self.ID, Incarnation: stored.Incarnation}
	events, err := h.process(out)
	if err != nil {
		return err
	}
	return h.step(now, events...)
}

// The type host is a complete loop. Here three of them share one goroutine, the network is a queue, and the
// clock jumps to the next deadline. One member is cut off while the others continue, and later receives a
// snapshot. A network between processes also needs the rules of package handshake.
func ExampleCore_Step() {
	now, network, cutOff := raft.Now{Mono: 1}, []raft.Message{}, raft.NodeID("")
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
			if m.From.ID != cutOff && m.To.ID != cutOff {
				must(hosts[m.To.ID].receive(now, m))
			}
		}
	}
	leader := until(func(h *host) bool { return h.core.Leadership().Role == raft.Leader })
	propose := func(id raft.RequestID, command string) {
		must(leader.step(now, raft.Proposed{Proposals: []raft.Proposal{raft.NewProposal(id, raft.EntryCommand, []byte(command))}}))
	}
	propose(1, "x=1")
	for _, m := range members.Members {
		until(func(h *host) bool { return h == hosts[m.ID] && len(h.state) == 1 })
		fmt.Println(m.ID, hosts[m.ID].state)
	}

	leader.answer = func(raft.Answer) {}
	cutOff = members.Members[slices.IndexFunc(members.Members, func(m raft.Member) bool { return m.ID != leader.self.ID })].ID
	behind := hosts[cutOff]
	for n := 2; n <= 40; n++ {
		propose(raft.RequestID(n), fmt.Sprintf("x=%d", n))
		until(func(h *host) bool { return h == leader && len(h.state) == n })
	}
	cutOff = ""
	until(func(h *host) bool { return h == behind && len(h.state) == 40 })
	fmt.Println("restored from a snapshot:", behind.restored > 0, "and equal:", slices.Equal(behind.state, leader.state))
	// Output:
	// accepted: true as entry 3@2
	// a [x=1@3]
	// b [x=1@3]
	// c [x=1@3]
	// restored from a snapshot: true and equal: true
}
