package node

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// Node is one running member of a cluster. It consists of a Core, a loop that processes the outputs of the Core, a writer for
// the disk, senders for the network, and an applier for the FSM. Any goroutine may call its methods.
type Node struct {
	cfg       Config // without its Limits: see limits
	storage   raft.Storage
	transport raft.Transport
	base      time.Time // Now.Mono counts from here

	core     *raft.Core      // only the loop uses it and the fields up to unreadable
	current  raft.Leadership // as of the last Step
	deadline *time.Timer
	armed    raft.Time // when the timer fires; 0: it is not running
	due      raft.Time // deadline of the last Output
	late     lateness
	wroteAt  raft.Time // when the log last changed; 0: the cache has been released since
	// unreadable is the last entry that was refused because a later release wrote it.
	unreadable raft.EntryID

	mailbox     *mailbox
	requests    *requests
	cache       *pipeline.Cache
	entries     pipeline.Log
	writer      *writer
	senders     *senders
	applier     *applier
	applied     *appliedIndex
	files       raft.SnapshotStorage // the storage; nil: this member takes no snapshots
	room        raft.RoomStorage     // the storage; nil: it does not know how much room the log has
	disk        trouble              // why the disk is small, see Status.SmallDisk
	slowDisk    slowDisk
	clockWatch  clockWatch
	roomWatch   roomWatch
	taker       *taker
	receiver    *receiver
	streamer    *streamer
	forwards    *forwards
	fsmCalls    *fsmCalls
	works       *works
	identity    *identity
	contacts    *contacts
	invitations *invitations
	petitions   *petitions
	members     *watched[membership]
	watched     *watched[raft.Leadership]
	leader      atomic.Pointer[raft.Member] // nil: none is known
	history     *history
	counters    *counters
	logger      *guardedLogger
	mark        atomic.Pointer[raft.Mark]         // may not be durable yet; nil: none
	leaving     *raft.RemovedError                // why this member is about to end; only the loop uses it
	removed     atomic.Pointer[raft.RemovedError] // nil: this member was not removed, or still leads
	// appendBytesMax bounds the records that the transport carries in one append, in bytes. If it is 0, any Config fits.
	appendBytesMax int
	restoring      atomic.Pointer[restoring] // nil: none is running

	lease lease

	backingUp atomic.Bool // a backup is being taken

	wg         sync.WaitGroup // every goroutine but the loop
	stop       chan struct{}  // closed when the node begins to end
	loopEnded  chan struct{}  // closed once lastStatus is set
	lastStatus raft.CoreStatus
	done       chan struct{} // closed when everything has ended

	mu       sync.Mutex
	err      error // error that ended the node
	closeErr error // errors that occurred while the node ended

	closing sync.Once
}

// Start starts a member on the data in storage. If the storage is uninitialized, the member bootstraps a cluster with the
// other members of cfg.Initial, or waits until it is added to a cluster. If Start returns no error, the node owns the storage
// and the transport, and closes them. Otherwise the caller still owns them. ctx bounds only the start.
//
// Start fails with all problems of cfg, joined; with the storage's *IdentityError, ErrLocked, *CorruptError,
// *LaterVersionError or *EarlierVersionError in a *StorageError; with a *StaleImageError or *ContradictedError at every start
// of a marked store; with a *RemovedError if the log says that this member was removed; with an *AppVersionError if its program
// is too old; with a *NoSessionsError; with an *FSMError, *AppliedBeyondLogError or *AppliedBelowBaseError; or with the transport's in a *TransportError.
func Start(ctx context.Context, cfg Config, fsm raft.FSM, storage raft.Storage, transport raft.Transport) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if fsm == nil || storage == nil || transport == nil {
		return nil, errors.New("raft: Start needs an FSM, a Storage and a Transport; one of them is nil")
	}
	cfg = cfg.withDefaults()
	appendBytesMax := appendLimitOf(transport)
	if err := cfg.fitting(appendBytesMax); err != nil {
		return nil, err
	}
	if cfg.Seed == 0 {
		cfg.Seed = randomNumber()
	}
	stored, err := load(ctx, cfg, storage)
	if err != nil {
		return nil, err
	}
	if stored.Applied, err = durablyApplied(fsm); err != nil {
		return nil, err
	}
	n := newNode(cfg, storage, transport, stored)
	n.appendBytesMax = appendBytesMax
	n.applier = newApplier(n, fsm, stored.Applied)
	n.files, _ = storage.(raft.SnapshotStorage)
	n.room, _ = storage.(raft.RoomStorage)
	if stored.Snapshot.File != (raft.SnapshotID{}) && n.files == nil {
		return nil, &StorageError{Op: "load the recorded snapshot", Err: ErrSnapshotUnsupported}
	}
	n.applied.advance(stored.Applied.Index)
	first, err := n.newCore(stored)
	if err != nil {
		return nil, err
	}
	if no := n.requests.noSessions; no != nil && n.core.Status().Config.Sessions {
		return nil, no
	}
	n.applier.atStart = first.Restore != nil
	n.identity.publish(n.core.Status())
	n.publishMembers(n.core.Status())
	n.reportLeftOver(stored)
	n.warnUnsupported()
	n.disk.set(n.smallDisk())
	if err := guarded(func() error { return transport.Start(handler{n}) }); err != nil {
		return nil, &TransportError{Op: "start", Err: err}
	}
	n.wg.Go(n.writer.run)
	n.wg.Go(n.applier.run)
	n.wg.Go(n.receiver.run)
	n.wg.Go(n.streamer.run)
	n.wg.Go(n.contacts.run)
	n.wg.Go(n.roomWatch.run)
	n.wg.Go(n.watchDisk)
	n.wg.Go(n.requests.callbacks.run)
	n.wg.Go(n.watchProblems)
	go n.run(first)
	return n, nil
}

// load reads the storage. It returns a panic of the storage as an error.
func load(ctx context.Context, cfg Config, s raft.Storage) (stored raft.Stored, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &StorageError{Op: "load", Err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	stored, err = s.Load(ctx, raft.Identity{
		Cluster: cfg.Cluster, ID: cfg.ID, Fresh: raft.Incarnation(randomNumber()), Nonce: randomNumber(),
	})
	if err != nil {
		return raft.Stored{}, &StorageError{Op: "load", Err: err}
	}
	return stored, nil
}

func newNode(cfg Config, storage raft.Storage, transport raft.Transport, stored raft.Stored) *Node {
	n := &Node{
		cfg: cfg, storage: storage, transport: transport, base: time.Now(),
		mailbox: newMailbox(), cache: pipeline.NewCache(stored.Log.Last.Index, cfg.LogCacheBytesMax),
		fsmCalls: newFSMCalls(), watched: newWatched(raft.Leadership{}),
		history: &history{}, counters: newCounters(), logger: &guardedLogger{logger: cfg.Logger},
		stop: make(chan struct{}), loopEnded: make(chan struct{}), done: make(chan struct{}),
	}
	n.cfg.Limits = raft.Limits{}
	n.applied = &appliedIndex{calls: n.fsmCalls}
	n.roomWatch = roomWatch{node: n, lacking: newSignal()}
	n.requests = newRequests(cfg.Limits, n.fsmCalls, n.mailbox.events.signal, n.wg.Go)
	n.works = &works{
		limit: func() int { return n.limits().ProposalsMax }, stopMax: cfg.RunAsLeaderStopMax, loop: n.mailbox.events.signal,
		lease: &n.lease, clock: n.now,
	}
	n.entries = pipeline.Log{Cache: n.cache, Storage: guardedEntries{storage}}
	n.writer = newWriter(n)
	n.senders = newSenders(n)
	n.identity = newIdentity(n, stored)
	n.contacts = newContacts(n, stored)
	n.invitations, n.petitions, n.members = newInvitations(n), newPetitions(n), newWatched(membership{})
	n.taker = &taker{node: n, last: snapshotRecord{bytes: stored.Snapshot.Size}}
	n.counters.snapshotIndex.Store(uint64(stored.Snapshot.ID.Index))
	n.counters.base.Store(uint64(stored.Log.Base.ID.Index))
	n.receiver, n.streamer, n.forwards = newReceiver(n), newStreamer(n), newForwards(n)
	return n
}

func (n *Node) newCore(stored raft.Stored) (first raft.Output, err error) {
	defer n.recoverCore(&err)
	cfg := n.cfg.core()
	crand.Read(cfg.NewCluster[:])
	cfg.Snapshots, cfg.DurableFSM = n.files != nil, n.applier.durable()
	cfg.Limits = *n.limits()
	n.core, first, err = raft.NewCore(cfg, stored, n.now())
	return first, err
}

// recoverCore turns a panic of the core into an error, so that it ends the node and not the process.
func (n *Node) recoverCore(err *error) {
	p := recover()
	if p == nil {
		return
	}
	broken, ok := p.(*raft.InvariantError)
	if !ok {
		broken = &raft.InvariantError{Rule: fmt.Sprint(p), State: string(debug.Stack())}
	}
	if broken.State == "" {
		broken.State = string(debug.Stack())
	}
	*err = broken
}

// now reads the clock. Mono begins at 1, because 0 means "never" in the core.
func (n *Node) now() raft.Now {
	t := time.Now()
	return raft.Now{Mono: raft.Time(t.Sub(n.base) + 1), Wall: t.UnixNano()}
}

// run is the loop's goroutine. When the loop ends, run ends the node, even if a logger has ended the goroutine.
func (n *Node) run(first raft.Output) {
	n.deadline = time.NewTimer(time.Hour)
	defer n.deadline.Stop()
	defer n.shutdown()
	defer func() { n.fail(&TransportError{Op: "the logger", Err: errGoexit}) }()
	n.process(first)
	n.fail(n.loop())
}

// loop takes all waiting events, passes them to the core as one batch, and processes the output. It repeats this until the
// node ends. It contains no rules of Raft.
func (n *Node) loop() error {
	var batch []raft.Event
	for {
		select {
		case <-n.stop:
			return nil
		case <-n.mailbox.events.signal:
		case <-n.deadline.C:
			if n.armed = 0; n.now().Mono < n.due {
				n.wakeAt(n.due)
				continue
			}
		}
		runtime.Gosched() // callers that are about to propose join this batch: docs/decisions/0033
		var inspections []func(*raft.Core)
		var closing bool
		clear(batch)
		batch, inspections, closing = n.mailbox.take(n.works.tell(batch[:0]))
		batch = n.requests.take(batch)
		if closing {
			batch = append(batch, raft.Closing{})
		}
		out, err := n.step(batch)
		if err != nil {
			return err
		}
		n.process(out)
		n.requests.hold(n.core.HoldsProposals())
		n.late.idleSince = n.now().Mono
		n.releaseIdle()
		for _, look := range inspections {
			look(n.core)
		}
		if closing {
			return raft.ErrClosed
		}
	}
}

// step runs one Step. If the core panics, the output of the step is lost.
func (n *Node) step(batch []raft.Event) (out raft.Output, err error) {
	defer n.recoverCore(&err)
	now := n.now() // after the last event of the batch was taken
	n.woke(now.Mono)
	out = n.core.Step(now, batch...)
	n.counters.stepped(len(batch), time.Duration(n.now().Mono-now.Mono))
	return out, nil
}

// process carries out an Output. raft.Output and raft.Write document the required order. out.Send waits for nothing.
// out.Write.Then leaves only once that Write is durable. So makeDurable (writer.go) sends Then after the write, and process
// never sends Then.
//
// process publishes the lease first. Then it updates the log cache, because readers may ask for the entries, and the log's
// generation, from then on.
func (n *Node) process(out raft.Output) {
	n.lease.publish(out.Lease)
	if log := out.Write.Log; log != nil {
		if log.Reset {
			n.applier.abandon()
		}
		for i := range log.Entries {
			log.Entries[i].Seal()
		}
		n.cache.Write(log)
		n.wroteAt = n.now().Mono
	}
	n.works.follow(n.core)
	n.cache.Served(n.core.Served())
	n.history.add(n.now().Wall, out.Trace)
	n.counters.noted(out.Trace)
	n.warnOfLaterRelease(out.Trace)
	n.noticeMark(out.Write.Mark)
	n.noticeLeadership(out)
	if out.Keep != nil {
		n.streamer.stop(out.Keep.Stop)
	}
	n.senders.send(out.Send)
	if out.Write.Seq != 0 {
		n.writer.enqueue(out.Write)
	}
	n.requests.answer(out.Answers, n.explain)
	n.applied.prove(out.Fresh)
	if n.core.FSMHangs() {
		n.requests.unknown(math.MaxUint64) // the callers would wait for ever
	}
	n.noticeEnd()
	n.keepSnapshots(out)
	if out.Apply.Index != 0 {
		n.counters.committed.Store(uint64(out.Apply.Index))
		n.applier.applyUpTo(out.Apply)
	}
	n.wakeAt(out.WakeAt)
}

// cacheIdle is how long the log cache is kept after the last write.
const cacheIdle = 10 * time.Second

// releaseIdle empties the log cache once the log has not changed for cacheIdle.
func (n *Node) releaseIdle() {
	if n.wroteAt != 0 && n.late.idleSince-n.wroteAt > raft.Time(cacheIdle) {
		n.cache.Release()
		n.wroteAt = 0
	}
}

// warnOfLaterRelease logs, once for each entry, that this member needs a newer release to continue.
func (n *Node) warnOfLaterRelease(events []raft.TraceEvent) {
	for i := range events {
		if event := &events[i]; event.Kind == raft.TraceLaterVersion && event.ID != n.unreadable {
			n.unreadable = event.ID
			n.logger.log(hclog.Error, "an entry was refused that a later release wrote: start that release on this member",
				"entry", event.ID.String(), "member", string(event.Peer))
		}
	}
}

// wakeAt makes the loop wake at the deadline. Most deadlines replace an earlier deadline. In that case wakeAt does not reset
// the timer: the timer fires too early, and the loop sets it again. That is cheaper than a reset for each message.
func (n *Node) wakeAt(at raft.Time) {
	n.due = at
	if n.armed != 0 && n.armed <= at {
		return
	}
	n.armed = at
	n.deadline.Reset(max(0, time.Duration(at-n.now().Mono)))
}

// post passes an event about a connection to the loop.
func (n *Node) post(e raft.Event) {
	n.counters.droppedEvents.Add(uint64(n.mailbox.post(e)))
}

// fail begins to end the node. Only the first error counts.
func (n *Node) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil && err != nil {
		n.err = err
		close(n.stop)
	}
}

// ended returns the error of calls that come after the end of the node.
func (n *Node) ended() error {
	if removed := n.removed.Load(); removed != nil {
		return removed
	}
	return raft.ErrClosed
}

// spawn starts a goroutine that the end of the node waits for. It returns an error if the node has begun to end.
func (n *Node) spawn(f func()) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return raft.ErrClosed
	}
	n.wg.Go(f)
	return nil
}

// closeFailed records an error that occurred while the node ended.
func (n *Node) closeFailed(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closeErr = errors.Join(n.closeErr, err)
}

// shutdown answers all callers, then ends all goroutines, then closes the transport and the storage.
func (n *Node) shutdown() {
	var broken *raft.InvariantError
	if !errors.As(n.Err(), &broken) {
		n.lastStatus = n.core.Status()
	} else {
		n.lastStatus = raft.CoreStatus{ID: n.cfg.ID, Incarnation: n.identity.self.Incarnation, StartCount: n.identity.lineage.Last().Count}
	}
	n.lastStatus.Leadership = raft.Leadership{Term: n.current.Term}
	n.setLeader(n.lastStatus.Leadership)
	n.watched.publish(n.lastStatus.Leadership)
	close(n.loopEnded)
	n.works.end(n.Err())
	n.requests.end(n.ended())
	n.requests.callbacks.end()
	n.applied.end(n.ended())
	n.forwards.end()
	n.senders.close()
	if err := guarded(n.transport.Close); err != nil {
		n.closeFailed(&TransportError{Op: "close", Err: err})
	}
	if s, ok := n.storage.(interface{ GiveUp() }); ok { // a pending Write may wait for room
		_ = guarded(func() error { s.GiveUp(); return nil })
	}
	n.wg.Wait()
	n.fsmCalls.end()
	if err := guarded(n.storage.Close); err != nil {
		n.closeFailed(&StorageError{Op: "close", Err: err})
	}
	n.report()
	close(n.done)
}

// report logs in one line why the node ended, and before that the last decisions. It logs the decisions at debug level. If
// the cause is a bug of this library, it logs them at info level.
func (n *Node) report() {
	log, err := n.logger.log, n.Err()
	if errors.Is(err, raft.ErrClosed) {
		log(hclog.Info, "node closed")
		return
	}
	if errors.Is(err, raft.ErrRemoved) {
		log(hclog.Info, "node ended", "error", err)
		return
	}
	level := hclog.Debug
	var broken *raft.InvariantError
	if errors.As(err, &broken) {
		level = hclog.Info
		log(hclog.Info, "state", "state", broken.State)
	}
	for _, event := range n.history.all() {
		log(level, "decision", "event", event.String())
	}
	own := MemberStatus{State: "self"}
	own.judge(&Status{Err: err})
	log(hclog.Error, "node ended", "verdict", own.Verdict, "error", err)
}

// Done returns a channel that is closed once the node has ended, after Close or by itself. Err says why it ended.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns nil while the node runs, ErrClosed after Close, and otherwise the error that ended it: a
// *StorageError, *FSMError, *NoSessionsError, *TransportError, *StaleImageError, *ContradictedError, *RemovedError or *InvariantError.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}
