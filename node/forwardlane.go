package node

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/forward"
)

// forwardLane is a goroutine that sends requests and answers to one peer, on the lane for them. It numbers a request just
// before it leaves, so that a request in its queue has not left and may be sent elsewhere.
type forwardLane struct {
	to    raft.Peer
	stop  chan struct{}
	queue queue[forwardItem] // under the lock of forwards
	bytes int                // of Data, in the answers of the queue
}

// forwardItem is a request of this member, or an answer to one of the peer.
type forwardItem struct {
	request *forwarded
	answer  raft.Message // if request is nil
	until   raft.Time    // when an answer that has not left is given up; 0: it was not tried yet
}

// An answer that has not left is sent again for answerPatience, with at most answerPause between two tries. Without it, the caller
// elsewhere would wait until its deadline.
const (
	answerPatience = 2 * time.Second
	answerPause    = 200 * time.Millisecond
)

// lane returns the lane to a peer. It returns nil if no more lanes may begin. Strangers leave room for members. f.mu is held.
func (f *forwards) lane(to raft.Peer) *forwardLane {
	if l := f.lanes[to]; l != nil {
		return l
	}
	if f.ended || f.bytesMax == 0 {
		return nil
	}
	members, _ := f.node.members.load()
	most := sendersMax
	if _, named := members.now.Peer(to); !named {
		most -= raft.MembersMax
	}
	if len(f.lanes) >= most {
		return nil
	}
	l := &forwardLane{to: to, stop: make(chan struct{}), queue: queue[forwardItem]{signal: newSignal()}}
	f.lanes[to] = l
	f.node.wg.Go(func() { f.run(l) })
	return l
}

func (f *forwards) run(l *forwardLane) {
	var retry <-chan time.Time
	for {
		select {
		case <-l.stop:
			return
		case <-l.queue.signal:
			runtime.Gosched() // see Node.loop
		case <-retry:
		}
		retry = nil
		if f.deliver(l) {
			retry = time.After(answerPause)
		}
	}
}

// deliver sends what waits for the lane. If the transport takes nothing of a batch, its requests have not left. It reports whether
// answers wait for another try.
func (f *forwards) deliver(l *forwardLane) (again bool) {
	batch, items := f.take(l)
	if len(batch) == 0 {
		return false
	}
	n := f.node
	err := guarded(func() error { return n.transport.Send(l.to, raft.LaneForward, batch) })
	if err == nil {
		n.counters.messagesSent.Add(uint64(len(batch)))
	} else {
		n.counters.droppedSend.Add(uint64(len(batch)))
	}
	notSent := errors.Is(err, raft.ErrNotSent)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, item := range items {
		c := item.request
		if c == nil && notSent && f.putBack(l, item) {
			again = true
		} else if c == nil {
			f.carrying--
		}
		if err == nil || c == nil || f.left[c.counter] != c {
			continue
		}
		f.sender.Forget(c.counter)
		a := forwardAnswer{next: forward.Unknown}
		if notSent {
			a = forwardAnswer{next: forward.Again, cause: err}
		}
		f.finish(c.counter, a)
	}
	if again { // the lane pauses, although more than one batch may wait
		select {
		case <-l.queue.signal:
		default:
		}
	}
	return again
}

// putBack keeps an answer that has not left for the next try, and reports whether it does. f.mu is held.
func (f *forwards) putBack(l *forwardLane, item forwardItem) bool {
	now := f.node.now().Mono
	if item.until == 0 {
		item.until = now + raft.Time(answerPatience)
	}
	if now >= item.until || f.lanes[l.to] != l || l.queue.len() >= 2*f.node.cfg.ForwardsMax {
		return false
	}
	l.queue.items = append(l.queue.items, item) // without a wake: the lane pauses first
	l.bytes += len(item.answer.Body.(raft.ForwardReply).Data)
	return true
}

// take removes the first items from the queue of a lane, and returns their messages. It drops requests that are too late:
// their callers stop waiting by themselves. A request for an earlier start of the peer does not leave: that start has ended,
// and the next one would never answer.
func (f *forwards) take(l *forwardLane) (batch []raft.Message, items []forwardItem) {
	cluster, now := f.node.identity.belongsTo(), f.node.now().Mono
	f.mu.Lock()
	defer f.mu.Unlock()
	waiting := l.queue.waiting()
	waiting = waiting[:min(len(waiting), sendBatchMax)]
	batch, items = make([]raft.Message, 0, len(waiting)), make([]forwardItem, 0, len(waiting))
	for _, item := range waiting {
		m, c := item.answer, item.request
		if c == nil {
			l.bytes -= len(m.Body.(raft.ForwardReply).Data)
		} else {
			if c.gone {
				continue
			}
			if f.node.identity.startOf(l.to) != c.to.StartCount {
				c.answer <- forwardAnswer{next: forward.Again}
				continue
			}
			var inTime bool
			if m, inTime = f.sender.Send(now, c.to, c.kind, c.data, c.deadline); !inTime {
				continue
			}
			c.counter = m.Body.(raft.Forward).Counter
			f.left[c.counter] = c
			f.node.counters.forwards.sent.Add(1)
		}
		m.Cluster = cluster
		batch, items = append(batch, m), append(items, item)
	}
	l.queue.drop(len(waiting))
	return batch, items
}

// receive processes a batch of callers' requests on their way to the leader, and of their answers. It keeps the batch.
func (f *forwards) receive(batch []raft.Message) {
	n := f.node
	now, _ := n.watched.load()
	members, _ := n.members.load()
	state := forward.State{
		Transferring: n.requests.transferring(), Committed: members.committed, InForce: members.now.Configuration, NoForward: !n.cfg.Forward, NoRemoteChanges: n.cfg.NoRemoteChanges,
	}
	if now.Role == raft.Leader {
		state.Term = now.Term
	}
	at, proposals := n.now().Mono, batch[:0]
	f.mu.Lock()
	for _, m := range batch {
		switch body := m.Body.(type) {
		case raft.ForwardReply:
			f.answered(m, body)
		case raft.Forward:
			if f.received(m, body, now, state, at) {
				proposals = append(proposals, m)
			}
		}
	}
	f.mu.Unlock()
	if len(proposals) > 0 { // their answers take the lock
		n.requests.carry(proposals, firstError(n.usable(context.Background()), n.hasRoom()))
	}
}

// received decides about a request of another member. It reports true if that is a proposal to carry out. Any other request
// is carried out on a goroutine of its own. f.mu is held.
func (f *forwards) received(m raft.Message, r raft.Forward, now raft.Leadership, state forward.State, at raft.Time) bool {
	if f.ended {
		return false
	}
	n, verdict := f.node, f.receiver.Receive(m, r, state)
	if verdict == forward.Silent {
		return false
	}
	f.tookAt = at
	f.carrying++
	if verdict == forward.CarryOut {
		if entryOf(r.Kind) != 0 {
			return true
		}
		n.wg.Go(func() { f.carryOut(m, r) })
		return false
	}
	if verdict.Outcome() == raft.ForwardRefused {
		n.counters.forwards.refused.Add(1)
	}
	reply := raft.ForwardReply{Outcome: verdict.Outcome(), Error: encodeError(f.refusal(verdict, m.From))}
	f.answer(m, r, now, reply)
	return false
}

// refusal returns the error of a verdict. It is nil if the outcome alone says what to do.
func (f *forwards) refusal(v forward.Verdict, from raft.Peer) error {
	cfg := &f.node.cfg
	switch v {
	case forward.Stranger:
		return &NotMemberError{Leader: cfg.ID, ID: from.ID, Incarnation: from.Incarnation}
	case forward.NoChanges:
		return &RemoteChangesError{Leader: cfg.ID}
	case forward.Overloaded:
		if f.receiver.Open(from) >= cfg.ForwardsMax {
			return &ForwardLimitError{Member: from.ID, Setting: "ForwardsMax", Limit: cfg.ForwardsMax}
		}
		return &ForwardLimitError{Member: from.ID, Setting: "ForwardBytesMax", Limit: cfg.ForwardBytesMax}
	case forward.Malformed:
		return errors.New("its release does not know what is asked for: upgrade it")
	}
	return nil
}

// answer queues an answer. If too many bytes wait already, the sender learns only that it does not know the outcome. f.mu is
// held, and f.carrying counts the answer until it has left.
func (f *forwards) answer(m raft.Message, r raft.Forward, now raft.Leadership, reply raft.ForwardReply) {
	lane, cfg := f.lane(m.From), &f.node.cfg
	if lane != nil && len(reply.Data) > 0 && lane.bytes >= cfg.ForwardBytesMax {
		reply.Outcome, reply.Data, reply.Error = raft.ForwardUnknown, nil, nil
	}
	reply.Leader = raft.Peer{ID: now.Leader, Incarnation: now.LeaderIncarnation}
	if lane == nil || !lane.queue.offer(forwardItem{answer: f.receiver.Answer(m, r, now.Term, reply)}, 2*cfg.ForwardsMax) {
		f.carrying--
		f.node.counters.droppedQueueFull.Add(1)
		return
	}
	lane.bytes += len(reply.Data)
}

// carryOut carries out a request of another member that is no proposal, and answers it.
func (f *forwards) carryOut(m raft.Message, r raft.Forward) {
	ctx, cancel := context.Background(), func() {}
	if r.Left > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Left))
	}
	defer cancel()
	reply, err := f.node.carryOut(ctx, m.Term, r)
	f.carried([]carried{{m, reply, err}})
}

// carried is a request of another member and its outcome.
type carried struct {
	message raft.Message
	reply   raft.ForwardReply
	err     error
}

// carried answers requests of other members.
func (f *forwards) carried(all []carried) {
	now, _ := f.node.watched.load()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range all {
		m, r := c.message, c.message.Body.(raft.Forward)
		if over := len(c.reply.Data); over > 0 {
			if most := f.dataMaxTo(m.From); over > most {
				c.reply.Data, c.err = nil, &AnswerTooLargeError{Bytes: over, Limit: most}
			}
		}
		c.reply.Outcome, c.reply.Error = outcomeOf(c.err)
		f.receiver.Finish(m, r)
		f.answer(m, r, now, c.reply)
	}
}

// outcomeOf says what an error means for a member that has forwarded a request.
func outcomeOf(err error) (raft.ForwardOutcome, []byte) {
	if err == nil {
		return raft.ForwardApplied, nil // before anything is allocated for an error
	}
	var elsewhere *NotLeaderError
	var tooLarge *AnswerTooLargeError
	switch {
	case errors.Is(err, ErrOutcomeUnknown):
		return raft.ForwardUnknown, encodeError(err)
	case errors.Is(err, raft.ErrChangeGivenUp) || errors.Is(err, ErrTransferTimedOut) || errors.As(err, &tooLarge):
		return raft.ForwardApplied, encodeError(err) // something was carried out
	case errors.As(err, &elsewhere), err == context.DeadlineExceeded, endsHere(err): // another error may wrap a timeout of its own
		return raft.ForwardNotApplied, nil
	}
	return raft.ForwardRefused, encodeError(err)
}

// endsHere reports whether the error says that this member carries out nothing any more. Another one may.
func endsHere(err error) bool {
	var image *raft.StaleImageError
	var contradicted *raft.ContradictedError
	return errors.Is(err, raft.ErrClosed) || errors.Is(err, raft.ErrRemoved) || errors.Is(err, ErrWiped) ||
		errors.As(err, &image) || errors.As(err, &contradicted)
}
