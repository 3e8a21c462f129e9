package node

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// Metrics holds the counters and gauges of a node at one moment. Counters only grow while the node runs; the comments mark
// the gauges. docs/metrics.md says which of them to watch, and when to act.
type Metrics struct {
	Term              raft.Term  // gauge
	Leading           bool       // gauge: this member leads
	LeaderKnown       bool       // gauge
	LastIndex         raft.Index // gauge: the end of the log
	PersistedIndex    raft.Index // gauge: durable here
	CommitIndex       raft.Index // gauge: committed and durable here
	AppliedIndex      raft.Index // gauge
	ApplyingSeconds   float64    // gauge: how long the running call of the FSM, or function of Read, has been running; 0 if none is
	Wiped             bool       // gauge, see ErrWiped
	Removed           bool       // gauge: this member was removed from the cluster
	Voters            int        // gauge: voters of the configuration in force
	Learners          int        // gauge: learners of the configuration in force
	ConfigIndex       raft.Index // gauge: entry that holds the configuration in force
	ConfigJoint       bool       // gauge: the voters are being changed
	FeatureLevel      uint64     // gauge: of the configuration in force
	SettingsDiffer    int        // gauge: members whose settings differ from this member's, see MemberStatus.Differs
	Changes           ChangeOutcomes
	Elections         uint64
	LeaderChanges     uint64                // how often another leader became known
	TookOver          map[raft.Cause]uint64 // those of LeaderChanges that made this member the leader
	StaleMembers      uint64                // how often this member, as leader, found a member that holds less than it has acknowledged
	DiskStalls        uint64                // how often this member's disk stalled while it led
	FSMHangs          uint64                // how often its FSM hung while it led
	NoRoom            bool                  // gauge: the disk has no room for more entries of the log, see Status.NoRoom
	LateWakes         uint64                // how often the loop woke more than half an election timeout after its deadline
	Steps             uint64
	Proposals         uint64 // calls of Propose and ProposeAsync that were answered
	ProposalsFailed   ProposalFailures
	Forwards          ForwardOutcomes
	Reads             uint64
	StaleReads        uint64 // reads with raft.Stale that were served
	StaleReadsRefused uint64 // those that were refused with *TooStaleError
	Leased            bool   // gauge: this member leads and has a lease
	LeaseReads        uint64 // reads with raft.Lease that a lease has answered
	LeaseFallbacks    uint64 // reads with raft.Lease for which there was no lease: they are in Reads, too
	CommandsApplied   uint64
	Writes            uint64
	EntriesWritten    uint64
	EntryBytesWritten uint64
	MessagesSent      uint64
	EntriesSent       uint64
	MessagesReceived  uint64
	MessagesRefused   uint64 // messages that no correct member sends; WriteTrace says what was wrong with them
	Dropped           Drops
	Connections       uint64 // connections that were established
	ConnectionsLost   uint64
	Refusals          map[raft.RejectReason]uint64 // handshakes rejected, by this member or by others
	Snapshots         SnapshotCounts
	SnapshotIndex     raft.Index // gauge: last entry that the newest snapshot covers, or that a DurableFSM has synced
	SnapshotBytes     int64      // gauge: size of that snapshot
	LogBaseIndex      raft.Index // gauge: the log begins after it
	LogBytes          int64      // gauge: size of the log on the disk; 0 if the storage keeps no snapshots

	SnapshotBytesSent, SnapshotBytesReceived uint64

	WaitingProposals     int // gauge: pending calls of Propose, ProposeAsync and Barrier
	WaitingProposalBytes int // gauge
	WaitingReads         int // gauge
	WaitingReceived      int // gauge: received messages that wait for the loop
	WaitingReceivedBytes int // gauge
	WaitingWrites        int // gauge: writes that wait for the disk
	WaitingWriteBytes    int // gauge: bytes of entries that are not on the disk
	WaitingSends         int // gauge: messages that wait for connections

	StepEvents     Histogram // events in one Step
	StepSeconds    Histogram
	ApplyCommands  Histogram // commands in one FSM.Apply
	ApplySeconds   Histogram
	WriteEntries   Histogram // entries in one storage write
	WriteSeconds   Histogram // one storage write with its sync
	ProposeSeconds Histogram // one successful Propose, from call to answer

	FreezeSeconds        Histogram // one FSM.Snapshot or, for a DurableFSM, one Sync
	SnapshotWriteSeconds Histogram // writing one snapshot, after FSM.Snapshot
	RestoreSeconds       Histogram // one FSM.Restore
}

// SnapshotCounts counts snapshots by their outcome.
type SnapshotCounts struct {
	Taken, Failed, Sent, Received, Refused, Restored uint64
	Resumed                                          uint64 // how often a stream was resumed after a break
	BackedUp, BackupsFailed                          uint64 // calls of Backup
}

// ProposalFailures counts failed proposals by their error.
type ProposalFailures struct {
	NotLeader, Overloaded, TooLarge, Unknown, Other uint64
}

// ChangeOutcomes counts calls that change the members, by their outcome.
type ChangeOutcomes struct {
	Done, Refused, GivenUp, Unknown uint64
}

// ForwardOutcomes counts requests between members (Config.Forward).
type ForwardOutcomes struct {
	Sent       uint64 // to the leader, including those that were sent again
	NotApplied uint64 // of these, those that were answered as not applied: they are sent again until their deadline
	Unknown    uint64 // of these, those whose outcome stays unknown
	Refused    uint64 // from other members, by this one, before they reached the core
}

// Drops counts messages that were dropped, by reason.
type Drops struct {
	QueueFull uint64 // the queue to the peer was full
	Send      uint64 // the transport did not take them
	Stale     uint64 // the log has changed since they were created
	Received  uint64 // there was no room for a received message
	Forged    uint64 // they claimed to be from another member
	Events    uint64 // there was no room for an event about a connection
	Oversized uint64 // an entry was larger than the receiver takes
}

// Histogram counts values in fixed buckets.
type Histogram struct {
	Bounds []float64 // upper bounds, inclusive; shared: do not change them
	Counts []uint64  // one per bound, and one for the values above all bounds
	Sum    float64
}

// Count returns the number of values.
func (h Histogram) Count() uint64 {
	var n uint64
	for _, c := range h.Counts {
		n += c
	}
	return n
}

var (
	secondsBounds = []float64{
		.00001, .00002, .00005, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5,
	}
	countBounds = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384}
)

// histogram is a Histogram that still grows. It keeps Sum as an integer: nanoseconds or a count.
type histogram struct {
	bounds []float64
	unit   float64 // one unit of the integer, in the unit of bounds
	counts []atomic.Uint64
	sum    atomic.Uint64
}

func newHistogram(bounds []float64, unit float64) *histogram {
	return &histogram{bounds: bounds, unit: unit, counts: make([]atomic.Uint64, len(bounds)+1)}
}

func (h *histogram) observe(value int64) {
	i, v := 0, float64(value)*h.unit
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(uint64(max(value, 0)))
}

func (h *histogram) read() Histogram {
	out := Histogram{Bounds: h.bounds, Counts: make([]uint64, len(h.counts)), Sum: float64(h.sum.Load()) * h.unit}
	for i := range h.counts {
		out.Counts[i] = h.counts[i].Load()
	}
	return out
}

// counters holds the counters of a running node.
type counters struct {
	elections, followed, diskStalls, fsmHangs            atomic.Uint64
	tookOver                                             [raft.Causes]atomic.Uint64
	lateWakes, steps                                     atomic.Uint64
	staleMembers                                         atomic.Uint64
	proposals, notLeader, overloaded, tooLarge           atomic.Uint64
	unknown, otherFailures, reads, commands              atomic.Uint64
	staleReads, staleRefused                             atomic.Uint64
	leaseReads, leaseFallbacks                           atomic.Uint64
	writes, entriesWritten, bytesWritten                 atomic.Uint64
	messagesSent, entriesSent, received                  atomic.Uint64
	droppedQueueFull, droppedSend, droppedStale          atomic.Uint64
	droppedReceived, droppedForged, droppedEvents        atomic.Uint64
	droppedOversized                                     atomic.Uint64
	connected, lost, committed, refusedMessages          atomic.Uint64
	refusals                                             [raft.RejectReasons]atomic.Uint64 // 0: any other
	stepEvents, applyCommands, writeEntries              *histogram
	stepSeconds, applySeconds, writeSeconds, proposeTime *histogram

	forwards                                            struct{ sent, notApplied, unknown, refused atomic.Uint64 }
	changes                                             struct{ done, refused, givenUp, unknown atomic.Uint64 }
	snapshots                                           struct{ taken, failed, sent, resumed, received, refused, restored, backedUp, backupsFailed atomic.Uint64 }
	snapshotIndex, base                                 atomic.Uint64
	snapshotBytesSent, snapshotBytesReceived            atomic.Uint64
	freezeSeconds, snapshotWriteSeconds, restoreSeconds *histogram
}

func newCounters() *counters {
	seconds := func() *histogram { return newHistogram(secondsBounds, 1e-9) }
	counts := func() *histogram { return newHistogram(countBounds, 1) }
	return &counters{
		stepEvents: counts(), applyCommands: counts(), writeEntries: counts(),
		stepSeconds: seconds(), applySeconds: seconds(), writeSeconds: seconds(), proposeTime: seconds(),
		freezeSeconds: seconds(), snapshotWriteSeconds: seconds(), restoreSeconds: seconds(),
	}
}

func (c *counters) stepped(events int, took time.Duration) {
	c.steps.Add(1)
	c.stepEvents.observe(int64(events))
	c.stepSeconds.observe(int64(took))
}

func (c *counters) wrote(w raft.Write, took time.Duration) {
	c.writes.Add(1)
	c.writeSeconds.observe(int64(took))
	if w.Log != nil {
		c.entriesWritten.Add(uint64(len(w.Log.Entries)))
		c.bytesWritten.Add(uint64(pipeline.RecordBytes(w.Log.Entries)))
		c.writeEntries.observe(int64(len(w.Log.Entries)))
	}
}

func (c *counters) applied(commands int, took time.Duration) {
	c.commands.Add(uint64(commands))
	c.applyCommands.observe(int64(commands))
	c.applySeconds.observe(int64(took))
}

func (c *counters) sent(batch []raft.Message) {
	c.messagesSent.Add(uint64(len(batch)))
	for _, m := range batch {
		if a, ok := m.Body.(raft.AppendRequest); ok {
			c.entriesSent.Add(uint64(len(a.Entries)))
		}
	}
}

func (c *counters) refused(r raft.RejectReason) {
	if int(r) >= len(c.refusals) {
		r = 0
	}
	c.refusals[r].Add(1)
}

func (c *counters) proposed(err error, took time.Duration) {
	c.proposals.Add(1)
	if err == nil {
		c.proposeTime.observe(int64(took))
		return // before anything is allocated for an error
	}
	var notLeader *NotLeaderError
	var tooLarge *raft.TooLargeError
	switch {
	case errors.As(err, &notLeader):
		c.notLeader.Add(1)
	case errors.Is(err, raft.ErrOverloaded):
		c.overloaded.Add(1)
	case errors.As(err, &tooLarge):
		c.tooLarge.Add(1)
	case errors.Is(err, ErrOutcomeUnknown):
		c.unknown.Add(1)
	default:
		c.otherFailures.Add(1)
	}
}

// changedMembers counts a call that changes the members.
func (c *counters) changedMembers(err error) {
	switch {
	case err == nil:
		c.changes.done.Add(1)
	case errors.Is(err, ErrOutcomeUnknown):
		c.changes.unknown.Add(1)
	case errors.Is(err, raft.ErrChangeGivenUp):
		c.changes.givenUp.Add(1)
	default:
		c.changes.refused.Add(1)
	}
}

// noted counts the decisions that Metrics reports.
func (c *counters) noted(events []raft.TraceEvent) {
	for i := range events {
		switch events[i].Kind {
		case raft.TraceRefused:
			c.refusedMessages.Add(1)
		case raft.TraceDiskStalled:
			c.diskStalls.Add(1)
		case raft.TraceFSMHangs:
			c.fsmHangs.Add(1)
		case raft.TraceStaleMember:
			c.staleMembers.Add(1)
		case raft.TraceTaken:
			c.snapshotIndex.Store(uint64(events[i].ID.Index))
		case raft.TraceCompacted:
			c.base.Store(uint64(events[i].ID.Index))
		case raft.TraceInstalled:
			c.snapshotIndex.Store(uint64(events[i].ID.Index))
			c.base.Store(uint64(events[i].ID.Index))
		}
	}
}

// changed counts a change of leadership.
func (c *counters) changed(from, to raft.Leadership, cause raft.Cause) {
	if to.Role == raft.Candidate {
		c.elections.Add(1)
	}
	switch {
	case to.Leader == "" || to.Leader == from.Leader:
	case to.Role == raft.Leader:
		c.tookOver[cause].Add(1)
	default:
		c.followed.Add(1)
	}
}

// Metrics returns the present counters and gauges. Any goroutine may call it, even after the node has ended. It does not
// wait for the loop.
func (n *Node) Metrics() Metrics {
	c := n.counters
	m := Metrics{
		Elections: c.elections.Load(), LeaderChanges: c.followed.Load(), TookOver: make(map[raft.Cause]uint64),
		DiskStalls: c.diskStalls.Load(), FSMHangs: c.fsmHangs.Load(), StaleMembers: c.staleMembers.Load(), LateWakes: c.lateWakes.Load(), Steps: c.steps.Load(),
		Changes:   ChangeOutcomes{c.changes.done.Load(), c.changes.refused.Load(), c.changes.givenUp.Load(), c.changes.unknown.Load()},
		Proposals: c.proposals.Load(),
		ProposalsFailed: ProposalFailures{
			c.notLeader.Load(), c.overloaded.Load(), c.tooLarge.Load(), c.unknown.Load(), c.otherFailures.Load(),
		},
		Forwards: ForwardOutcomes{c.forwards.sent.Load(), c.forwards.notApplied.Load(), c.forwards.unknown.Load(), c.forwards.refused.Load()},
		Reads:    c.reads.Load(), StaleReads: c.staleReads.Load(), StaleReadsRefused: c.staleRefused.Load(), LeaseReads: c.leaseReads.Load(), LeaseFallbacks: c.leaseFallbacks.Load(), CommandsApplied: c.commands.Load(),
		Writes: c.writes.Load(), EntriesWritten: c.entriesWritten.Load(), EntryBytesWritten: c.bytesWritten.Load(),
		MessagesSent: c.messagesSent.Load(), EntriesSent: c.entriesSent.Load(), MessagesReceived: c.received.Load(), MessagesRefused: c.refusedMessages.Load(),
		Dropped: Drops{
			c.droppedQueueFull.Load(), c.droppedSend.Load(), c.droppedStale.Load(),
			c.droppedReceived.Load(), c.droppedForged.Load(), c.droppedEvents.Load(), c.droppedOversized.Load(),
		},
		Connections: c.connected.Load(), ConnectionsLost: c.lost.Load(),
		Refusals:   make(map[raft.RejectReason]uint64),
		StepEvents: c.stepEvents.read(), StepSeconds: c.stepSeconds.read(),
		ApplyCommands: c.applyCommands.read(), ApplySeconds: c.applySeconds.read(),
		WriteEntries: c.writeEntries.read(), WriteSeconds: c.writeSeconds.read(), ProposeSeconds: c.proposeTime.read(),
		Snapshots:         c.snapshotCounts(),
		SnapshotBytesSent: c.snapshotBytesSent.Load(), SnapshotBytesReceived: c.snapshotBytesReceived.Load(),
		SnapshotIndex: raft.Index(c.snapshotIndex.Load()), SnapshotBytes: n.taker.bytes(),
		LogBaseIndex:  raft.Index(c.base.Load()),
		FreezeSeconds: c.freezeSeconds.read(), SnapshotWriteSeconds: c.snapshotWriteSeconds.read(), RestoreSeconds: c.restoreSeconds.read(),
	}
	for cause := range c.tookOver {
		count := c.tookOver[cause].Load()
		m.TookOver[raft.Cause(cause)] = count
		m.LeaderChanges += count
	}
	for r := range c.refusals {
		if count := c.refusals[r].Load(); count > 0 {
			m.Refusals[raft.RejectReason(r)] = count
		}
	}
	n.gauge(&m)
	return m
}

func (c *counters) snapshotCounts() SnapshotCounts {
	s := &c.snapshots
	return SnapshotCounts{
		Taken: s.taken.Load(), Failed: s.failed.Load(), Sent: s.sent.Load(), Received: s.received.Load(),
		Refused: s.refused.Load(), Restored: s.restored.Load(), Resumed: s.resumed.Load(),
		BackedUp: s.backedUp.Load(), BackupsFailed: s.backupsFailed.Load(),
	}
}

// logBytes returns how many bytes the log takes on the disk. It returns 0 if the storage keeps no snapshots, or panics.
func (n *Node) logBytes() (bytes int64) {
	if n.files == nil {
		return 0
	}
	_ = guarded(func() error { bytes = n.files.LogBytes(); return nil })
	return bytes
}

// gauge fills in the gauges.
func (n *Node) gauge(m *Metrics) {
	now, _ := n.watched.load()
	m.Term, m.Leading, m.LeaderKnown = now.Term, now.Role == raft.Leader, now.Leader != ""
	m.Wiped, m.Removed = n.identity.wiped.Load(), n.removed.Load() != nil
	m.Leased = n.lease.remaining(n.now().Mono) > 0
	members := n.Members()
	m.SettingsDiffer = n.identity.differing()
	m.ConfigIndex, m.ConfigJoint, m.FeatureLevel = members.Index, members.Joint(), members.Level
	for _, of := range members.Members {
		switch of.Kind {
		case raft.Voter:
			m.Voters++
		case raft.Learner:
			m.Learners++
		}
	}
	m.LastIndex, m.PersistedIndex, m.WaitingWriteBytes = n.cache.Depth()
	m.CommitIndex, m.AppliedIndex = raft.Index(n.counters.committed.Load()), n.applied.index()
	m.ApplyingSeconds = n.fsmCalls.since().Seconds()
	m.WaitingProposals, m.WaitingReads, m.WaitingProposalBytes = n.requests.depth()
	m.WaitingReceived, m.WaitingReceivedBytes = n.mailbox.depth()
	m.LogBytes, m.NoRoom = n.logBytes(), n.roomWatch.trouble.get() != nil
	m.WaitingWrites, m.WaitingSends = n.writer.depth(), n.senders.depth()
}
