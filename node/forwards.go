package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/forward"
)

// forwards sends the requests of this member's callers to the leader, and carries out those of other members while this
// member leads. Package forward has the rules.
type forwards struct {
	node     *Node
	bytesMax int // of Data in one message; 0: the transport has no lane for them

	mu       sync.Mutex
	sender   *forward.Sender
	receiver *forward.Receiver
	lanes    map[raft.Peer]*forwardLane
	left     map[uint64]*forwarded // the requests without an answer that have left, by counter
	calls    int                   // callers of this member that wait for a leader elsewhere
	bytes    int                   // of their requests
	carrying int                   // requests of other members that are being carried out, and answers that have not left
	tookAt   raft.Time             // when the last request of another member came; 0: none has
	ended    bool
}

// forwarded is one message's worth of a caller's request: if it is sent again, that is another one.
type forwarded struct {
	to       forward.Target
	kind     raft.ForwardKind
	data     []byte
	deadline raft.Time // 0: none
	counter  uint64    // 0: it has not left
	gone     bool      // its caller has stopped waiting
	answer   chan forwardAnswer
}

// forwardAnswer says what follows for a request that was sent.
type forwardAnswer struct {
	next  forward.Next
	reply raft.ForwardReply
	cause error // why it is not known, or why nothing has left; nil: the reply says more
}

func newForwards(n *Node) *forwards {
	self, start := n.identity.self, n.identity.lineage.Last().Count
	f := &forwards{
		node: n, sender: forward.NewSender(self, start), lanes: make(map[raft.Peer]*forwardLane), left: make(map[uint64]*forwarded),
		receiver: forward.NewReceiver(self, start, forward.Limits{Requests: n.cfg.ForwardsMax, Bytes: n.cfg.ForwardBytesMax}),
	}
	n.requests.carried = f.carried
	if c, ok := n.transport.(raft.ForwardCarrier); ok {
		f.bytesMax = c.ForwardBytesMax()
	}
	return f
}

// forwardPatience is how long a request without a deadline waits for a leader to whom it can be sent, and then for the answer,
// at least. It is forwardTimeouts election timeouts if they are longer. A change of the members may take hours: see watchChange.
const (
	forwardPatience = 10 * time.Second
	forwardTimeouts = 20
)

// carry has the leader carry out a request. If this member leads, here carries it out. Otherwise the leader does, over the
// lane for forwarded requests. carry tries again only if nothing was carried out, until the caller's deadline.
func (f *forwards) carry(ctx context.Context, kind raft.ForwardKind, data []byte, here func() (raft.ForwardReply, error)) (raft.ForwardReply, error) {
	if err := f.enter(kind, len(data)); err != nil {
		return raft.ForwardReply{}, err
	}
	defer f.leave(len(data))
	n, began := f.node, time.Now()
	_, bounded := ctx.Deadline()
	patience := n.forwardPatience()
	var last *notNow
	for {
		now, changed := n.watched.load()
		err := n.usable(ctx)
		var reply raft.ForwardReply
		if err == nil {
			reply, err = f.attempt(ctx, now, kind, data, here)
		}
		if err == nil {
			return reply, nil // before anything is allocated for an error
		}
		var why *notNow
		switch {
		case err == ctx.Err() && last != nil:
			return reply, fmt.Errorf("%w; not applied: %w", err, n.withReason(last.NotLeaderError))
		case !errors.As(err, &why):
			return reply, err
		}
		last = why
		if last.final || !bounded && time.Since(began) > patience {
			return raft.ForwardReply{}, n.withReason(last.NotLeaderError)
		}
		_ = n.pause(ctx, changed) // usable returns its error
	}
}

func (n *Node) forwardPatience() time.Duration {
	return max(forwardPatience, forwardTimeouts*n.cfg.ElectionTimeout)
}

// notNow says that nothing was carried out. If it is not final, the request may be sent again.
type notNow struct {
	*NotLeaderError
	final bool
}

// attempt carries out a request here, or sends it to the leader. It fails with a *notNow if nothing was carried out because
// there is no leader, or not the one that this member knows.
func (f *forwards) attempt(ctx context.Context, now raft.Leadership, kind raft.ForwardKind, data []byte, here func() (raft.ForwardReply, error)) (raft.ForwardReply, error) {
	n := f.node
	if now.Leader == "" || now.Role == raft.Leader {
		reply, err := here()
		if err == nil {
			return reply, nil
		}
		var elsewhere *NotLeaderError
		if errors.As(err, &elsewhere) {
			err = &notNow{NotLeaderError: elsewhere}
		}
		return reply, err
	}
	to, why := f.target(now)
	if why != nil {
		why.Leader = n.leaderIn(now)
		return raft.ForwardReply{}, why
	}
	if most := f.dataMaxTo(to.Peer); len(data) > most {
		return raft.ForwardReply{}, &raft.TooLargeError{Bytes: len(data), Limit: most, Member: to.Peer.ID}
	}
	if said, _ := n.identity.announcedBy(to.Peer); kind == raft.ForwardSession && said.settings.protocol < raft.ProtocolSessions {
		older := &raft.EarlierReleaseError{IDs: []raft.NodeID{to.Peer.ID}, Speaks: said.settings.protocol, Needs: raft.ProtocolSessions}
		return raft.ForwardReply{}, older
	}
	c := &forwarded{to: to, kind: kind, data: data, deadline: n.deadlineOf(ctx), answer: make(chan forwardAnswer, 1)}
	patience := n.forwardPatience()
	if c.deadline == 0 && kind != raft.ForwardChange {
		c.deadline = n.now().Mono + raft.Time(patience)
		late := time.AfterFunc(patience, func() { c.answer <- f.abandon(c, context.DeadlineExceeded) })
		defer late.Stop()
	}
	if c.deadline == 0 && kind == raft.ForwardChange {
		watching, stop := context.WithCancel(ctx)
		defer stop()
		go f.watchChange(watching, c, patience)
	}
	a := f.send(ctx, c)
	switch a.next {
	case forward.Done:
		if len(a.reply.Error) > 0 {
			return a.reply, decodeError(a.reply.Error, now.Leader)
		}
		return a.reply, nil
	case forward.Again:
		if a.cause != nil && (a.cause == ctx.Err() || errors.Is(a.cause, ErrWithinFSM)) {
			return raft.ForwardReply{}, a.cause
		}
		if a.reply.Outcome == 0 {
			why := &NotLeaderError{Leader: n.leaderIn(now), Reason: "this member could not send the request to it"}
			if a.cause != nil { // such as an expired certificate
				why.Reason += ": " + a.cause.Error()
			}
			return raft.ForwardReply{}, &notNow{NotLeaderError: why}
		}
		n.counters.forwards.notApplied.Add(1)
		return raft.ForwardReply{}, f.notApplied(a.reply, now.Leader)
	case forward.Failed:
		return raft.ForwardReply{}, f.refused(a.reply, now)
	}
	n.counters.forwards.unknown.Add(1)
	return raft.ForwardReply{}, unknownOutcome(kind, a, now.Leader)
}

// errNoChangeRuns is why a change has an unknown outcome although its caller set no deadline.
var errNoChangeRuns = errors.New("raft: the leader has sent no answer, and no change is running any more")

// watchChange abandons a change without a deadline if its answer must have been lost: as this member sees it, no change has run
// for that long, which is more than the leader needs before it begins one.
func (f *forwards) watchChange(ctx context.Context, c *forwarded, patience time.Duration) {
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	for before := (Members{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := f.node.Members()
		if now.Committed && !now.Joint() && !now.Changing() && now.Index == before.Index {
			c.answer <- f.abandon(c, errNoChangeRuns)
			return
		}
		before = now
	}
}

// notApplied returns the error for an answer that says that nothing was carried out. It names the leader that the sender of
// the answer knows.
func (f *forwards) notApplied(r raft.ForwardReply, asked raft.NodeID) error {
	why := &notNow{NotLeaderError: &NotLeaderError{Reason: fmt.Sprintf("%s does not lead any more, or is transferring its leadership", asked)}}
	if r.Leader != (raft.Peer{}) {
		why.Leader = f.node.leaderIn(raft.Leadership{Leader: r.Leader.ID, LeaderIncarnation: r.Leader.Incarnation})
	}
	return why
}

// refused returns the error of a refusal. A leader that takes no requests of others is to be asked itself.
func (f *forwards) refused(r raft.ForwardReply, asked raft.Leadership) error {
	if len(r.Error) == 0 {
		return &notNow{&NotLeaderError{Leader: f.node.leaderIn(asked), Reason: "it takes no requests from other members (Config.Forward)"}, true}
	}
	return decodeError(r.Error, asked.Leader)
}

// unknownOutcome returns the error of a request that has left, and of which nothing more is known.
func unknownOutcome(kind raft.ForwardKind, a forwardAnswer, leader raft.NodeID) error {
	var err error = ErrOutcomeUnknown
	if kind == raft.ForwardChange {
		err = changeUnknownError{}
	}
	if len(a.reply.Error) > 0 {
		if said := decodeError(a.reply.Error, leader); errors.Is(said, ErrOutcomeUnknown) {
			err = said
		}
	}
	if a.cause != nil {
		return errors.Join(err, a.cause)
	}
	return err
}

// deadlineOf returns the deadline of ctx on the node's clock, or 0 if it has none.
func (n *Node) deadlineOf(ctx context.Context) raft.Time {
	at, bounded := ctx.Deadline()
	if !bounded {
		return 0
	}
	return max(1, n.now().Mono+raft.Time(time.Until(at))) // at may be a reading of a clock that was set since the start
}

// enter counts a caller whose request may be sent to the leader.
func (f *forwards) enter(kind raft.ForwardKind, bytes int) error {
	n := f.node
	if entryOf(kind) != 0 && bytes > n.limits().CommandBytesMax {
		return &raft.TooLargeError{Bytes: bytes, Limit: n.limits().CommandBytesMax}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.calls >= n.cfg.ForwardsMax:
		return &ForwardLimitError{Member: n.cfg.ID, Setting: "ForwardsMax", Limit: n.cfg.ForwardsMax}
	case f.bytes >= n.cfg.ForwardBytesMax:
		return &ForwardLimitError{Member: n.cfg.ID, Setting: "ForwardBytesMax", Limit: n.cfg.ForwardBytesMax}
	}
	f.calls++
	f.bytes += bytes
	return nil
}

func (f *forwards) leave(bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls--
	f.bytes -= bytes
}

// target returns the leader that a request can be sent to. If none can, the error says why.
func (f *forwards) target(now raft.Leadership) (forward.Target, *notNow) {
	peer := raft.Peer{ID: now.Leader, Incarnation: now.LeaderIncarnation}
	said, known := f.node.identity.announcedBy(peer)
	start := f.node.identity.startOf(peer)
	switch {
	case start == 0 || !known:
		return forward.Target{}, &notNow{NotLeaderError: &NotLeaderError{Reason: "this member is not connected to it"}}
	case said.settings.protocol < raft.ProtocolForwarding:
		return forward.Target{}, &notNow{&NotLeaderError{Reason: "its release takes no requests from other members"}, true}
	}
	return forward.Target{Peer: peer, StartCount: start, Term: now.Term}, nil
}

// dataMaxTo returns how many bytes of Data one message to a peer may carry. A peer takes no larger message than an append.
func (f *forwards) dataMaxTo(p raft.Peer) int {
	said, _ := f.node.identity.announcedBy(p)
	if most := f.node.appendLimitTo(said.settings); most > 0 {
		return min(f.bytesMax, max(0, most-raft.RecordOverheadBytes))
	}
	return f.bytesMax
}

// send sends a request once, and returns what follows for it.
func (f *forwards) send(ctx context.Context, c *forwarded) forwardAnswer {
	f.mu.Lock()
	lane := f.lane(c.to.Peer)
	queued := lane != nil && lane.queue.offer(forwardItem{request: c}, f.node.cfg.ForwardsMax) // it holds those that are gone, too
	f.mu.Unlock()
	if !queued {
		return forwardAnswer{next: forward.Again}
	}
	return await(ctx, f.node.fsmCalls, c.answer, func(cause error) forwardAnswer { return f.abandon(c, cause) })
}

// abandon ends a request because its caller stops waiting.
func (f *forwards) abandon(c *forwarded, cause error) forwardAnswer {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case a := <-c.answer: // it arrived at the same moment
		return a
	default:
	}
	if c.gone = true; c.counter == 0 {
		c.data = nil // the limits count it no more, and a lane that is stuck keeps c
		return forwardAnswer{next: forward.Again, cause: cause}
	}
	f.sender.Forget(c.counter)
	delete(f.left, c.counter)
	return forwardAnswer{next: forward.Unknown, cause: cause}
}

// answered takes an answer of a member. f.mu is held.
func (f *forwards) answered(m raft.Message, r raft.ForwardReply) {
	if next := f.sender.Answered(m, r); next != forward.Ignore {
		f.finish(r.Counter, forwardAnswer{next: next, reply: r})
	}
}

// finish passes on the answer to a request that has left. f.mu is held.
func (f *forwards) finish(counter uint64, a forwardAnswer) {
	c := f.left[counter]
	delete(f.left, counter)
	c.answer <- a
}

// lost ends the requests to a peer that have left: the connection to it, or its start, has ended.
func (f *forwards) lost(p raft.Peer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, counter := range f.sender.Lost(p) {
		f.finish(counter, forwardAnswer{next: forward.Unknown})
	}
}

// end ends all requests, because the node ends.
func (f *forwards) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	for p, lane := range f.lanes {
		f.endLane(p, lane)
	}
	for counter := range f.left {
		f.sender.Forget(counter) // an answer may still come
		f.finish(counter, forwardAnswer{next: forward.Unknown})
	}
}

// settle waits until nobody waits for an answer, neither here nor elsewhere, but at most an election timeout. Close calls it
// once this member does not lead. The other members learn within a heartbeat who leads.
func (f *forwards) settle() {
	quiet := f.node.cfg.ElectionTimeout / 3
	ticker := time.NewTicker(max(time.Millisecond, quiet/8))
	defer ticker.Stop()
	for end := time.Now().Add(f.node.cfg.ElectionTimeout); time.Now().Before(end) && !f.settled(raft.Time(quiet)); {
		select {
		case <-ticker.C:
		case <-f.node.stop:
			return
		}
	}
}

func (f *forwards) settled(quiet raft.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	recently := f.tookAt != 0 && f.node.now().Mono-f.tookAt < quiet
	return !recently && f.carrying == 0 && len(f.left) == 0
}

// retain ends the lanes to all other peers.
func (f *forwards) retain(keep func(raft.Peer) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p, lane := range f.lanes {
		if !keep(p) {
			f.endLane(p, lane)
		}
	}
}

// endLane ends a lane. What waits for it has not left. f.mu is held.
func (f *forwards) endLane(p raft.Peer, lane *forwardLane) {
	close(lane.stop)
	delete(f.lanes, p)
	for _, item := range slices.Clone(lane.queue.waiting()) {
		f.unsent(item, forwardAnswer{next: forward.Again})
	}
	lane.queue.drop(lane.queue.len())
}

// unsent ends an item that has not left. f.mu is held.
func (f *forwards) unsent(item forwardItem, a forwardAnswer) {
	switch c := item.request; {
	case c == nil:
		f.carrying--
	case !c.gone:
		c.answer <- a
	}
}
