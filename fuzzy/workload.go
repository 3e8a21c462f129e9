package fuzzy

import (
	"encoding/binary"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// workload models the clients. Every write has its own serial number, which identifies the write in a log. A retry is a new
// write.
type workload struct {
	c        *cluster
	random   *sim.Stream
	clients  []client
	requests []request // by request id, from 1
	writes   []attempt // by serial, from 1
	begun    int64     // number of requests begun
	stopped  bool      // the clients begin no more requests
	history  []operation
	stamp    int64
	held     []heldWrites
	leaving  *sim.Stream // which transfers are those of a member that is about to end
	forwards *sim.Stream // which writes are forwarded, and when they are sent again
	leases   *sim.Stream // which reads are by lease
	sessions *sessionClients
	errands  *sim.Stream // which transfers and changes of the members are forwarded
}

// client is one client. It has at most one open request, besides hedged requests.
type client struct {
	open raft.RequestID // the request that it waits for; 0: none
	node int            // the member to which it sends requests: the leader, as far as it knows
}

type requestKind uint8

const (
	writeRequest requestKind = iota
	readRequest
	transferRequest
	snapshotRequest
	changeRequest
)

// request is one request.
type request struct {
	kind    requestKind
	state   answerState
	key     uint8 // writeRequest, readRequest
	applied bool
	life    uint32
	client  int
	node    *node
	serial  uint64     // writeRequest
	floor   raft.Index // writeRequest, readRequest: what was committed when it was called; snapshotRequest: what it must cover
	index   raft.Index // readRequest: the index at which it may be served
	called  int64
	opened  sim.Time
	size    int               // bytes of a write's data
	to      raft.NodeID       // target of a transfer; "": the leader chooses
	urgent  bool              // transferRequest: as raft.TransferRequested says
	leaving bool              // likewise
	term    raft.Term         // term in which a transfer began
	change  *changing         // change of members by an admin
	relayed *relayed          // another member has forwarded it; nil: a client or an admin has sent it here
	session *sessionAttempt   // writeRequest: it is an entry of a session; nil: it is not
	errand  *errand           // transferRequest, changeRequest: it is forwarded, or was
	ended   func(raft.Answer) // it is the simulation's own, which gets the last answer; nil: it is not

	deadline raft.Time // of a request to be forwarded: after it, it does not leave; 0: its client has none
}

// attempt is one write.
type attempt struct {
	key   uint8
	never bool       // its client was told that it will never be applied
	index raft.Index // where it is committed; 0: nowhere
	acked bool
}

// operation is one line of a history, see invariants_client.go.
type operation struct {
	client       int
	write        bool
	key          uint8
	serial       uint64 // written or read; 0: a read of an unwritten key
	call, answer int64  // answer 0: no answer came
}

const commandBytesMin = 12

func newWorkload(c *cluster) *workload {
	w := &workload{
		c: c, random: sim.NewStream(c.seed.Number, sim.WorkloadConcern),
		clients: make([]client, c.profile.Load.Clients), requests: make([]request, 1), writes: make([]attempt, 1),
		leaving:  sim.NewStream(c.seed.Number, sim.WorkloadConcern<<28),
		forwards: sim.NewStream(c.seed.Number, sim.WorkloadConcern<<20),
		sessions: newSessionClients(c),
		leases:   sim.NewStream(c.seed.Number, sim.WorkloadConcern<<44),
		errands:  sim.NewStream(c.seed.Number, sim.WorkloadConcern<<36),
	}
	for i := range w.clients {
		w.clients[i].node = w.random.IntN(c.profile.Voters)
	}
	return w
}

// begin makes a client begin a request.
func (w *workload) begin(i int) {
	if w.stopped {
		return
	}
	w.begun++
	if !w.c.edits.begins(w.begun) {
		w.again(i)
		return
	}
	load := &w.c.profile.Load
	cl := &w.clients[i]
	roll := w.random.IntN(sim.Million)
	n := w.c.nodes[cl.node]
	w.readStale(n)
	switch {
	case roll < load.Transfers && w.c.phase == safetyPhase:
		cl.open = w.transfer(n, i)
	case roll >= sim.Million-snapshotRequests && w.c.profile.Snapshots.On && w.c.phase == safetyPhase:
		cl.open = w.snapshot(n, i)
	case roll < load.Transfers+load.Reads:
		cl.open = w.read(n, i, uint8(w.random.IntN(load.Keys)))
	case load.Forwards > 0 && n.status.Role != raft.Leader && w.forwards.Chance(load.Forwards):
		cl.open = w.forward(n, i)
	case w.sessions.random.Chance(w.c.profile.Sessions.Chance):
		cl.open = w.writeSession(n, i, 1+w.random.IntN(load.Burst))
	default:
		burst := 1 + w.random.IntN(load.Burst)
		cl.open = w.write(n, i, burst)
		if w.random.Chance(load.Hedged) {
			w.write(w.c.nodes[w.random.IntN(len(w.c.nodes))], i, 1)
		}
	}
	if cl.open == 0 { // that member is down, or its disk is full
		cl.node = w.random.IntN(len(w.c.nodes))
		w.again(i)
		return
	}
	w.c.queue.Push(w.c.now()+w.paced(load.Patience, worldPatience), event{kind: evGiveUp, a: int64(cl.open)})
}

// snapshotRequests is the chance, in millionths, that a client requests a snapshot.
const snapshotRequests = 5000

func (w *workload) again(i int) {
	think := w.paced(w.c.profile.Load.Think, worldThink)
	w.c.queue.Push(w.c.now()+1+w.random.Exponential(think), event{kind: evClient, node: int16(i)})
}

// These are minimum waiting times of clients in a slow world, in eighths of a unit. With shorter times, clients would retry
// before an answer can arrive.
const (
	worldThink    = 1
	worldPatience = 32
)

// paced returns a client's waiting time. In the second phase, the time is at least as long as the world needs.
func (w *workload) paced(t, eighths sim.Time) sim.Time {
	if w.c.phase == safetyPhase || w.c.profile.World.quiet() {
		return t
	}
	return max(t, eighths*w.c.profile.unit()/8)
}

func (w *workload) ask(r request) raft.RequestID {
	w.stamp++
	r.called, r.life, r.opened = w.stamp, r.node.life, w.c.now()
	w.requests = append(roomy(w.requests, 1), r)
	return raft.RequestID(len(w.requests) - 1)
}

// write proposes count writes to a member as one event. It returns the request id of the last write. It returns 0 if the
// member is down or refuses the writes.
func (w *workload) write(n *node, client, count int) raft.RequestID {
	if n.core == nil || w.refusesProposals(n, client) {
		return 0
	}
	proposals := make([]raft.Proposal, count)
	var requestID raft.RequestID
	for i := range proposals {
		key := uint8(w.random.IntN(w.c.profile.Load.Keys))
		serial := uint64(len(w.writes))
		w.writes = append(roomy(w.writes, 1), attempt{key: key})
		size := commandBytesMin + w.random.IntN(w.random.LogUniform(1, w.c.profile.Load.BytesMax))
		data := make([]byte, size)
		if h := w.c.host; h != nil {
			data = append(data[:commandBytesMin], h.command(w.begun, i)...)
		}
		binary.LittleEndian.PutUint64(data, serial)
		data[8] = key
		requestID = w.ask(request{kind: writeRequest, client: client, node: n, serial: serial, key: key, size: len(data), floor: w.c.check.committed()})
		proposals[i] = raft.Proposal{RequestID: requestID, Kind: raft.EntryCommand, Data: data}
	}
	w.propose(n, proposals)
	return requestID
}

func (w *workload) read(n *node, client int, key uint8) raft.RequestID {
	if n.core == nil {
		return 0
	}
	requestID := w.ask(request{kind: readRequest, client: client, node: n, key: key, floor: w.c.check.committed()})
	if !w.leases.Chance(w.c.profile.Leases.Reads) || !n.readByLease(requestID) {
		n.post(raft.ReadRequested{RequestID: requestID})
	}
	return requestID
}

func (w *workload) snapshot(n *node, client int) raft.RequestID {
	if n.core == nil {
		return 0
	}
	requestID := w.ask(request{kind: snapshotRequest, client: client, node: n, floor: n.applied})
	n.post(raft.SnapshotRequested{RequestID: requestID})
	return requestID
}

func (w *workload) transfer(n *node, client int) raft.RequestID {
	if n.core == nil {
		return 0
	}
	var to raft.NodeID
	if w.random.Coin() {
		to = w.c.nodes[w.random.IntN(len(w.c.nodes))].id
	}
	if n.status.Role != raft.Leader && w.errands.Chance(w.c.profile.Load.ForwardsChanges) {
		return w.sendErrand(n, request{kind: transferRequest, client: client, to: to})
	}
	return w.transferTo(n, client, raft.TransferRequested{To: to, Leaving: w.c.profile.Load.Holds && w.leaving.IntN(4) == 0})
}

// transferTo requests a member to transfer its leadership.
func (w *workload) transferTo(n *node, client int, e raft.TransferRequested) raft.RequestID {
	e.RequestID = w.ask(request{kind: transferRequest, client: client, node: n, to: e.To, urgent: e.Urgent, leaving: e.Leaving})
	n.post(e)
	return e.RequestID
}

// giveUp stops waiting for an answer. The request may still take effect.
func (w *workload) giveUp(t raft.RequestID) {
	if w.requests[t].kind == changeRequest {
		w.c.admins.ended(t, false)
		return
	}
	i := w.requests[t].client
	if w.clients[i].open != t {
		return
	}
	w.clients[i].open = 0
	w.clients[i].node = w.random.IntN(len(w.c.nodes))
	w.again(i)
}

// answered handles the core's answers.
func (w *workload) answered(n *node, answers []raft.Answer) {
	for _, a := range answers {
		if a.RequestID == 0 || int(a.RequestID) >= len(w.requests) {
			w.c.fail(Safety, "N11", "%s answers request %d, which no client has sent", n, a.RequestID)
			return
		}
		r := &w.requests[a.RequestID]
		w.c.check.checkAnswer(n, r, a)
		w.c.check.checkTaken(n, a)
		n.endShortening(a.RequestID)
		if r.kind == transferRequest {
			w.c.lulls.reached()
		}
		switch {
		case a.Kind == raft.AnswerAccepted && r.kind == changeRequest:
			r.change.entry = a.ID
		case r.ended != nil:
			r.ended(a)
		case a.Kind == raft.AnswerAccepted:
			n.accepted = append(n.accepted, acceptance{a.ID, a.RequestID})
		case r.kind == readRequest && a.Kind == raft.AnswerReadSafe:
			r.index = a.ID.Index
			n.accepted = append(n.accepted, acceptance{raft.EntryID{Index: a.ID.Index}, a.RequestID})
			w.appliedOn(n)
		case r.relayed != nil:
			n.forget(a.RequestID)
			n.finishes(r, outcomeOf(a), raft.EntryID{})
		case r.kind == writeRequest && a.Kind != raft.AnswerRefused:
			n.forget(a.RequestID)
			w.done(a.RequestID, a.Leader)
		default:
			w.done(a.RequestID, a.Leader)
		}
	}
	w.release(n)
}

// record completes an operation of the history.
func (w *workload) record(r *request, serial uint64) {
	w.stamp++
	if w.c.profile.Load.History {
		w.history = append(w.history, operation{r.client, r.kind == writeRequest, r.key, serial, r.called, w.stamp})
	}
}

// done ends a client's wait, and chooses the member for its next request.
func (w *workload) done(t raft.RequestID, leader raft.NodeID) {
	r := &w.requests[t]
	if r.kind == changeRequest {
		w.c.admins.ended(t, true)
		return
	}
	cl := &w.clients[r.client]
	if cl.open != t {
		return
	}
	cl.open = 0
	switch {
	case leader != "":
		cl.node = w.c.named(leader).index
	case r.state != answeredWell:
		cl.node = w.random.IntN(len(w.c.nodes))
	}
	w.again(r.client)
}
