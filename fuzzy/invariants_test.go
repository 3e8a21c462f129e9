package fuzzy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/sim"
)

// running returns a cluster of three without faults that has elected a leader, written and read for two seconds. It also
// returns the leader and a follower.
func running(t *testing.T) (c *cluster, lead, follower *node) {
	c = runningAs(t, calmOfThree(t))
	lead = c.nodes[c.leader()]
	follower = c.nodes[(lead.index+1)%3]
	require.Greater(t, len(c.check.canonical), 10)
	return c, lead, follower
}

// runningAs returns a cluster with the profile, after its first two seconds.
func runningAs(t *testing.T, p Profile) *cluster {
	c := newCluster(Seed{"calm", 2}, p)
	c.prepare()
	c.until(t, sim.In(2*time.Second))
	return c
}

func calmOfThree(t *testing.T) Profile {
	p, err := Draw(Seed{"calm", 2})
	require.NoError(t, err)
	p.Voters, p.Learners, p.Load.History = 3, 0, true
	p.Length = sim.In(time.Hour)
	p.Load.Think = sim.In(50 * time.Millisecond)
	return p
}

// breach breaks an invariant by hand.
type breach struct {
	rule   string
	breach func(c *cluster, k *checker, lead, follower *node)
}

// nodeBreaches lists breaches of the invariants of one member.
var nodeBreaches = []breach{
	{"N1", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkTerm(lead, &raft.CoreStatus{Leadership: raft.Leadership{Term: 99}})
	}},
	{"N1", func(_ *cluster, k *checker, lead, _ *node) { k.checkHardState(lead, raft.HardState{}) }},
	{"N2", func(_ *cluster, k *checker, lead, follower *node) {
		k.checkHardState(lead, raft.HardState{Term: lead.hard.Term, Vote: follower.peer()})
	}},
	{"N3", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkProgress(lead, &raft.CoreStatus{Commit: lead.status.Commit + 1})
	}},
	{"N3", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkProgress(lead, &raft.CoreStatus{Applied: lead.status.Applied + 1})
	}},
	{"N4", func(_ *cluster, k *checker, lead, _ *node) { lead.status.Last.Index++; k.checkLogShape(lead) }},
	{"N4", func(_ *cluster, k *checker, lead, _ *node) {
		lead.status.Applied = lead.status.Commit + 1
		k.checkLogShape(lead)
	}},
	{"N4", func(_ *cluster, k *checker, _, follower *node) {
		k.checkLogWrite(follower, &raft.LogWrite{After: follower.status.Last, Entries: []raft.Entry{{Index: 1 << 20, Term: 1}}})
	}},
	{"N4", func(_ *cluster, k *checker, _, follower *node) { // another term at the place
		k.checkLogWrite(follower, &raft.LogWrite{After: raft.EntryID{Term: 77, Index: follower.status.Last.Index}})
	}},
	{"N4", func(_ *cluster, k *checker, _, follower *node) {
		k.checkLogWrite(follower, &raft.LogWrite{After: follower.status.Last, Reset: true})
	}},
	{"N4", func(_ *cluster, k *checker, _, follower *node) { // the disk has lost what memory holds
		after := follower.log[len(follower.log)-1].entry.ID()
		follower.disk.log = follower.disk.log[:2]
		k.checkDurableLog(follower, &raft.LogWrite{After: after}, follower.hard.Term)
	}},
	{"N5", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkApplied(lead, raft.EntryID{Term: 1, Index: 1 << 20})
	}},
	{"N5", func(c *cluster, k *checker, lead, _ *node) {
		c.check.canonical[4].hash++
		k.checkApplied(lead, lead.log[4].entry.ID())
	}},
	{"N5", func(_ *cluster, k *checker, lead, _ *node) {
		lead.disk.log = nil
		k.checkApplied(lead, lead.log[4].entry.ID())
	}},
	{"N6", func(_ *cluster, k *checker, lead, _ *node) { lead.disk.log = nil; k.checkPersisted(lead) }},
	{"N6", func(_ *cluster, k *checker, lead, follower *node) {
		k.checkLeaving(follower, message(follower, lead, follower.hard.Term+1, raft.VoteReply{}))
	}},
	{"N6", func(_ *cluster, k *checker, lead, follower *node) {
		follower.disk.hard.Vote = raft.Peer{}
		k.checkLeaving(follower, message(follower, lead, follower.hard.Term, raft.VoteReply{Granted: true}))
	}},
	{"N6", func(_ *cluster, k *checker, lead, follower *node) {
		lead.disk.hard.Vote = raft.Peer{}
		k.checkLeaving(lead, message(lead, follower, lead.hard.Term, raft.VoteRequest{}))
	}},
	{"N6", func(_ *cluster, k *checker, lead, follower *node) {
		k.checkLeaving(follower, message(follower, lead, lead.hard.Term, raft.AppendReply{Match: 1 << 20}))
	}},
	{"N6", func(_ *cluster, k *checker, lead, follower *node) {
		follower.disk.log[3].hash++
		k.checkLeaving(follower, message(follower, lead, lead.hard.Term, raft.HeartbeatReply{Match: 4}))
	}},
	{"N6", func(_ *cluster, k *checker, lead, follower *node) {
		follower.disk.log = nil
		k.checkLeaving(follower, message(follower, lead, 0, raft.BootstrapReply{}))
	}},
	{"N6", func(_ *cluster, k *checker, lead, follower *node) {
		k.checkLeaving(follower, message(follower, lead, lead.hard.Term-1, raft.ReadReply{}))
	}},
	{"N7", func(_ *cluster, k *checker, lead, _ *node) {
		lead.log, lead.status.Last, lead.status.Commit, lead.status.Applied = nil, raft.EntryID{}, 0, 0
		k.checkLogShape(lead)
	}},
	{"N8", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkLogWrite(lead, &raft.LogWrite{After: lead.log[2].entry.ID()})
	}},
	{"N8", func(_ *cluster, k *checker, _, follower *node) {
		k.checkLogWrite(follower, &raft.LogWrite{After: follower.log[2].entry.ID()})
	}},
	{"N8", func(_ *cluster, k *checker, _, follower *node) { k.checkLogWrite(follower, &raft.LogWrite{}) }},
	{"N8", func(_ *cluster, k *checker, _, follower *node) { // it writes one of them again, and drops the rest
		k.checkLogWrite(follower, &raft.LogWrite{After: follower.log[2].entry.ID(), Entries: []raft.Entry{*follower.log[3].entry}})
	}},
	{"N8", func(_ *cluster, k *checker, _, follower *node) { // for an old leader, in the term of the commit
		follower.hard.Term, k.canonical[3].by = 5, 5
		k.checkLogWrite(follower, &raft.LogWrite{After: follower.log[2].entry.ID(), Entries: []raft.Entry{{Index: 4, Term: 2}}})
	}},
	{"N4", func(_ *cluster, k *checker, _, follower *node) { // below its base
		follower.base = follower.log[4].entry.ID()
		k.checkLogWrite(follower, &raft.LogWrite{After: follower.log[3].entry.ID()})
	}},
	{"N61", func(_ *cluster, k *checker, _, follower *node) { // after an entry that is not committed
		follower.disk.base.ID = raft.EntryID{Term: 9, Index: 3}
		k.checkBase(follower)
	}},
	{"N61", func(_ *cluster, k *checker, _, follower *node) { // nothing is durable but the log
		follower.disk.base.ID = follower.log[4].entry.ID()
		k.checkBase(follower)
	}},
	{"N61", func(_ *cluster, k *checker, _, follower *node) { // after a later entry than in the core
		follower.disk.base.ID = follower.log[4].entry.ID()
		k.checkLogShape(follower)
	}},
	{"N47", func(_ *cluster, k *checker, _, follower *node) { // its log holds the entry
		id := follower.log[4].entry.ID()
		k.checkInstall(follower, &raft.Write{Log: &raft.LogWrite{After: id}, Snapshot: &raft.Snapshot{Base: raft.Base{ID: id}}})
	}},
	{"N47", func(_ *cluster, k *checker, _, follower *node) { // nothing is recorded
		k.checkInstall(follower, &raft.Write{Log: &raft.LogWrite{After: raft.EntryID{Term: 9, Index: 9}}})
	}},
	{"N49", func(_ *cluster, k *checker, lead, follower *node) {
		f := lead.capture(lead.disk.baseAt(lead.applied))
		k.checkCaptured(lead, &f)
		f.payload = append([]byte{f.payload[0] + 1}, f.payload[1:]...)
		follower.keepFile(&f, true)
		k.checkArrived(follower, &f.snapshot)
	}},
	{"N50", func(_ *cluster, k *checker, lead, _ *node) { // it has no name yet
		f := lead.capture(lead.disk.baseAt(lead.applied))
		lead.keepFile(&f, false)
		k.checkRecord(lead, &f.snapshot)
	}},
	{"N50", func(_ *cluster, k *checker, lead, _ *node) {
		lead.c.profile.Snapshots.On = true
		lead.disk.snapshot = raft.Snapshot{Base: lead.disk.baseAt(5), File: raft.SnapshotID{1}}
		lead.openFiles()
	}},
	{"N50", func(_ *cluster, k *checker, lead, _ *node) { // nothing records it
		f := lead.capture(lead.disk.baseAt(lead.applied))
		lead.keepFile(&f, false)
		k.checkCleaned(lead)
	}},
	{"N50", func(_ *cluster, k *checker, lead, _ *node) { // the core ignores it
		s := raft.Snapshot{Base: lead.disk.baseAt(5), File: raft.SnapshotID{1}}
		k.checkCompletedFiles(lead, []raft.Event{raft.SnapshotArrived{Snapshot: s}}, &raft.Output{})
	}},
	{"N50", func(_ *cluster, k *checker, lead, follower *node) { // it was discarded
		lead.act(pipeline.Work{Send: []raft.Message{{From: lead.peer(), To: follower.peer(), Body: raft.SnapshotProgress{Done: true}}}})
	}},
	{"N55", func(c *cluster, _ *checker, lead, follower *node) { // it survives the loss of its connection
		follower.crash()
		o := &outStream{Outgoing: pipeline.NewOutgoing(lead.now().Mono, raft.Message{To: follower.peer(), Body: raft.InstallSnapshot{}}, lead.streamLimits())}
		o.lost, lead.vault.out[follower.index] = lead.now().Mono-heldTimeouts*raft.Time(lead.timeout()), o
		lead.peerEvent(int64(follower.index) << 1)
	}},
	{"N50", func(_ *cluster, k *checker, lead, _ *node) {
		lead.disk.snapshot.File = raft.SnapshotID{1}
		k.checkDiscard(lead, raft.SnapshotID{1})
	}},
	{"N50", func(_ *cluster, k *checker, lead, _ *node) { // a fault removed another one
		lead.loseFile(raft.SnapshotID{2})
		k.checkUnreadable(lead, raft.EntryID{}, missing(raft.SnapshotID{1}))
	}},
	{"N50", func(_ *cluster, k *checker, lead, _ *node) { // a fault removed it, and nobody was to need it
		lead.loseFile(raft.SnapshotID{1})
		k.checkDiscard(lead, raft.SnapshotID{1})
		k.checkUnreadable(lead, raft.EntryID{}, missing(raft.SnapshotID{1}))
	}},
	{"N50", func(_ *cluster, k *checker, lead, _ *node) { // a fault removed the recorded one: that is damage
		lead.loseFile(raft.SnapshotID{1})
		lead.disk.snapshot.File = raft.SnapshotID{1}
		k.checkUnreadable(lead, raft.EntryID{}, missing(raft.SnapshotID{1}))
	}},
	{"N50", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkRecord(lead, &raft.Snapshot{Base: lead.disk.baseAt(5), File: raft.SnapshotID{1}})
	}},
	{"N49", func(_ *cluster, k *checker, lead, _ *node) {
		f := lead.capture(lead.disk.baseAt(lead.applied))
		k.checkCaptured(lead, &f)
		k.checkRestoredBytes(lead, &f.snapshot, f.payload[1:])
	}},
	{"N64", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkChunk(lead, &outStream{}, &raft.Message{Body: raft.SnapshotProgress{}}, 0)
	}},
	{"N64", func(c *cluster, k *checker, lead, _ *node) {
		c.profile.Snapshots.BytesPerSecond, c.profile.Snapshots.ChunkBytes = 1000, 10
		k.checkChunk(lead, &outStream{began: lead.now().Mono - raft.Time(time.Second)}, &raft.Message{Body: raft.SnapshotChunk{}}, 1031)
	}},
	{"N56", func(c *cluster, k *checker, lead, _ *node) { // one byte of the reserve
		f := &lead.disk.files
		f.fullTill, f.free = c.now()+1, c.profile.reserve()+9
		k.checkRoomTaken(lead, 10)
	}},
	{"N51", func(_ *cluster, k *checker, lead, _ *node) { k.checkTake(lead, &raft.Take{Base: lead.disk.baseAt(3)}) }},
	{"N51", func(_ *cluster, k *checker, lead, _ *node) {
		lead.vault.writing = true
		k.checkTake(lead, &raft.Take{Base: lead.disk.baseAt(lead.applied)})
	}},
	{"N62", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkRestoration(lead, &raft.Snapshot{Base: lead.disk.baseAt(lead.applied)})
	}},
	{"N62", func(_ *cluster, k *checker, lead, _ *node) { // back
		lead.disk.snapshot = raft.Snapshot{Base: lead.disk.baseAt(3), File: raft.SnapshotID{1}}
		k.checkRestoration(lead, &lead.disk.snapshot)
	}},
	{"G9", func(_ *cluster, k *checker, lead, _ *node) {
		f := lead.capture(lead.disk.baseAt(lead.applied - 1))
		lead.machine.history++
		f = lead.capture(f.snapshot.Base)
		k.checkCaptured(lead, &f)
	}},
	{"G9", func(_ *cluster, k *checker, lead, _ *node) { // another configuration
		b := lead.disk.baseAt(5)
		b.Config = raft.Configuration{}
		k.checkSnapshotBase(lead, &b)
	}},
	{"N29", func(_ *cluster, k *checker, _, follower *node) {
		last := follower.log[len(follower.log)-1].entry
		k.checkLogWrite(follower, &raft.LogWrite{After: last.ID(), Entries: []raft.Entry{{Index: last.Index + 1, Term: last.Term, Time: last.Time - 1}}})
	}},
	{"N20", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkSpan(lead, &raft.AppendRequest{Prev: lead.log[3].entry.ID(), Last: raft.EntryID{Term: 1 << 20, Index: 5}})
	}},
	{"N42", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkMerge(lead, []raft.Write{{Then: make([]raft.Message, 1)}}, &raft.Write{})
	}},
	{"N42", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkMerge(lead, []raft.Write{{}, {Mark: &raft.Mark{}}}, &raft.Write{})
	}},
	{"N42", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkMerge(lead, []raft.Write{{Log: &raft.LogWrite{}}, {Log: &raft.LogWrite{Generation: 1}}}, &raft.Write{Log: &raft.LogWrite{}})
	}},
	{"N42", func(_ *cluster, k *checker, lead, _ *node) {
		lead.queue = nil
		lead.hard.Term++
		k.checkCompletedWrites(lead)
	}},
	{"N43", func(_ *cluster, k *checker, lead, _ *node) { lead.disk.log = nil; k.checkCache(lead) }},
	{"N44", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkFilledAppend(lead, &raft.AppendRequest{Prev: lead.log[2].entry.ID(), Last: lead.log[3].entry.ID()}, 0)
	}},
	{"N44", func(_ *cluster, k *checker, lead, _ *node) {
		e := lead.log[3].entry
		k.checkFilledAppend(lead, &raft.AppendRequest{Prev: lead.log[2].entry.ID(), Last: e.ID(), Entries: []raft.Entry{*e}}, 1)
	}},
	{"N10", func(_ *cluster, k *checker, lead, _ *node) {
		lead.status.Pending = 1 << 20
		k.checkBounds(lead, &raft.CoreStatus{})
	}},
	{"N10", func(_ *cluster, k *checker, lead, _ *node) {
		lead.status.Peers[0].Inflight = 1 << 20
		k.checkBounds(lead, &raft.CoreStatus{})
	}},
	{"N11", func(c *cluster, _ *checker, lead, _ *node) {
		t := c.work.read(lead, 0, 0)
		safe := raft.Answer{RequestID: t, Kind: raft.AnswerReadSafe, ID: raft.EntryID{Index: c.check.committed()}}
		c.work.answered(lead, []raft.Answer{safe, safe})
	}},
	{"N11", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkSettled(lead, &raft.Output{Answers: []raft.Answer{{Kind: raft.AnswerUnknown, ID: lead.log[4].entry.ID()}}})
	}},
	{"N11", func(c *cluster, _ *checker, lead, _ *node) {
		c.work.answered(lead, []raft.Answer{{RequestID: 1 << 30}})
	}},
}

// The checker notices each invariant that the test breaks by hand.
func TestInvariants_EachNoticesItsBreach(t *testing.T) {
	for _, row := range nodeBreaches {
		c, lead, follower := running(t)
		row.breach(c, c.check, lead, follower)
		expectBreach(t, c, row.rule)
	}
}

func expectBreach(t *testing.T, c *cluster, rule string) {
	t.Helper()
	if assert.NotNil(t, c.failure, rule) {
		assert.Equal(t, rule, c.failure.Rule, "%v", c.failure)
	}
}

func message(from, to *node, term raft.Term, body raft.Body) *raft.Message {
	return &raft.Message{From: from.peer(), To: to.peer(), Term: term, Body: body}
}

// clusterBreaches lists breaches of the invariants of the cluster, and of those that clients see.
var clusterBreaches = []breach{
	{"G1", func(c *cluster, k *checker, lead, follower *node) {
		follower.status.Leadership = lead.status.Leadership
		for _, n := range c.nodes {
			k.votes[voteKey{n.disk.incarnation, n.disk.epoch, lead.status.Term}] = follower.peer()
		}
		k.checkElection(follower, &raft.CoreStatus{})
	}},
	{"G1", func(_ *cluster, k *checker, lead, follower *node) {
		k.checkLeaving(follower, message(follower, lead, lead.hard.Term, raft.Heartbeat{}))
	}},
	{"G2", func(_ *cluster, k *checker, _, follower *node) {
		follower.log[5].hash++
		k.checkAppended(follower, &raft.LogWrite{After: follower.log[4].entry.ID()})
	}},
	{"G3", func(_ *cluster, k *checker, lead, _ *node) {
		lead.log = lead.log[:3]
		lead.status.Term++
		k.checkCompleteness(lead)
	}},
	{"G3", func(_ *cluster, k *checker, lead, _ *node) {
		k.canonical = k.canonical[:5]
		k.canonical[4].by = lead.status.Term + 1
		k.extend(lead, 6)
	}},
	{"G4", func(_ *cluster, k *checker, _, follower *node) {
		k.canonical = k.canonical[:5]
		k.checkCommit(follower, &raft.CoreStatus{})
	}},
	{"G4", func(_ *cluster, k *checker, _, follower *node) {
		k.canonical[follower.status.Commit-1].hash++
		k.checkCommit(follower, &raft.CoreStatus{})
	}},
	{"G5", func(c *cluster, k *checker, lead, _ *node) {
		for _, n := range c.nodes {
			if n != lead {
				n.disk.log = n.disk.log[:2]
			}
		}
		k.checkHeldByQuorum(lead, lead.log[lead.status.Commit-1].hash)
	}},
	{"G5", func(_ *cluster, k *checker, _, follower *node) {
		k.checkDurableLog(follower, &raft.LogWrite{After: follower.log[2].entry.ID()}, follower.hard.Term)
	}},
	{"G6", func(_ *cluster, k *checker, lead, _ *node) {
		lead.status.Term++
		k.checkCommit(lead, &raft.CoreStatus{})
	}},
	{"G8", func(_ *cluster, k *checker, lead, _ *node) {
		clear(k.leaders)
		clear(k.votes)
		k.checkElection(lead, &raft.CoreStatus{})
	}},
	{"G10", func(_ *cluster, k *checker, _, _ *node) {
		k.checkAcknowledgement(&request{serial: 1, state: acceptedOnly}, raft.EntryID{Index: 1})
	}},
	{"G11", func(_ *cluster, k *checker, lead, _ *node) { k.checkCommand(lead, &raft.Entry{Data: make([]byte, 20)}) }},
	{"G11", func(_ *cluster, k *checker, lead, _ *node) {
		for i := range lead.log {
			if e := lead.log[i].entry; e.Kind == raft.EntryCommand {
				k.checkCommand(lead, e)
			}
		}
	}},
	{"G13", func(c *cluster, _ *checker, lead, _ *node) {
		t := c.work.read(lead, 0, 0)
		c.work.answered(lead, []raft.Answer{{RequestID: t, Kind: raft.AnswerReadSafe, ID: raft.EntryID{Index: 1}}})
	}},
	{"G18", func(_ *cluster, k *checker, _, follower *node) {
		follower.machine.history++
		k.checkState(follower)
	}},
	{"G23", func(_ *cluster, k *checker, _, follower *node) {
		k.checkFresh(follower, raft.Freshness{Since: raft.Moment{At: follower.now().Mono + 1}, Index: k.committed()})
	}},
	{"G23", func(_ *cluster, k *checker, _, follower *node) {
		k.checkFresh(follower, raft.Freshness{Since: raft.Moment{At: follower.now().Mono}, Index: 1})
	}},
	{"G23", func(c *cluster, _ *checker, _, follower *node) {
		follower.applied = 1
		follower.ages = pipeline.Ages{{Since: raft.Moment{At: follower.now().Mono}, Index: 1}}
		c.work.readStale(follower)
	}},
	{"G14", func(_ *cluster, k *checker, lead, follower *node) {
		k.checkLeaving(lead, message(follower, lead, 1, raft.ReadRequest{}))
	}},
	{"G14", func(_ *cluster, k *checker, lead, follower *node) {
		k.checkLeaving(lead, message(lead, follower, lead.hard.Term, raft.Heartbeat{Commit: 1 << 20}))
	}},
	{"G15", func(_ *cluster, k *checker, lead, follower *node) {
		k.checkTransferAnswer(lead, &request{}, raft.Answer{Leader: follower.id})
	}},
	{"G15", func(c *cluster, k *checker, lead, follower *node) { // not who was named
		k.leaders[lead.status.Term] = follower.peer()
		k.checkTransferAnswer(lead, &request{to: c.nodes[3-lead.index-follower.index].id}, raft.Answer{Leader: follower.id})
	}},
	{"G16", func(c *cluster, k *checker, lead, follower *node) {
		follower.disk.log = nil
		k.checkHeldByAll(lead)
	}},
	{"G22", func(_ *cluster, k *checker, lead, _ *node) {
		k.founded[0].Cluster[0] ^= 0xff // an earlier one
		k.checkOneCluster(lead)
	}},
	{"G16", func(_ *cluster, k *checker, lead, _ *node) {
		k.bootstraps[lead.status.Cluster]++
		k.checkClusterID(lead)
	}},
	{"H4", func(_ *cluster, k *checker, lead, _ *node) {
		k.checkSettled(lead, &raft.Output{Answers: []raft.Answer{{Kind: raft.AnswerNotApplied, ID: lead.log[4].entry.ID()}}})
	}},
	{"H1", func(c *cluster, _ *checker, _, _ *node) {
		c.work.requests = nil
		c.work.history = []operation{{0, true, 0, 1, 1, 2}, {0, false, 0, 2, 3, 4}}
		c.checkHistory()
	}},
	{"H4", func(c *cluster, _ *checker, lead, _ *node) {
		t := c.work.write(lead, 0, 1)
		c.work.writes[c.work.requests[t].serial].index = 5
		c.work.answered(lead, []raft.Answer{{RequestID: t, Kind: raft.AnswerRefused}})
	}},
	{"H4", func(c *cluster, k *checker, lead, _ *node) {
		t := c.work.write(lead, 0, 1)
		serial := c.work.requests[t].serial
		c.work.answered(lead, []raft.Answer{{RequestID: t, Kind: raft.AnswerRefused}})
		data := make([]byte, commandBytesMin)
		data[0], data[1] = byte(serial), byte(serial>>8)
		k.checkCommand(lead, &raft.Entry{Kind: raft.EntryCommand, Data: data})
	}},
}

func TestInvariants_OfTheClusterNoticeTheirBreach(t *testing.T) {
	for _, row := range clusterBreaches {
		c, lead, follower := running(t)
		row.breach(c, c.check, lead, follower)
		expectBreach(t, c, row.rule)
	}
}

// The checker finds a member whose state machine differs from the others.
func TestInvariants_AStateMachineThatDiffers(t *testing.T) {
	p := calmOfThree(t)
	p.Length, p.Node.Differ = sim.In(2*time.Second), 20_000
	r := RunProfile(Seed{"calm", 2}, p, nil)
	require.NotNil(t, r.Failure)
	assert.Equal(t, "G18", r.Failure.Rule, "%v", r.Failure)
}

// A leader may hold thousands of entries that no other member has, and may have to send them one by one. If the leader is not
// healed, it sends them over links that lose most messages.
func TestLiveness_AnUncommittedBacklogExtendsTheLimit(t *testing.T) {
	for exiled, units := range map[bool]sim.Time{true: 100, false: 1000} {
		c, lead, _ := running(t)
		live := newLiveness(c)
		live.exiled = exiled
		before := live.limit()
		lead.status.Last.Index += 1000
		assert.Equal(t, units*c.profile.ElectionTimeout, live.limit()-before)
	}
}

// Suppose that one member needs the vote of another. An earlier vote may bind the other member for as long as its wait has
// grown. Then the member that needs the vote may wait as long again.
func TestLiveness_AGrownWaitExtendsTheLimit(t *testing.T) {
	c, lead, follower := running(t)
	live := newLiveness(c)
	before := live.limit()
	lead.status.Election.Wait = raft.Time(c.profile.ElectionTimeout)
	live.watchWaits()
	assert.Equal(t, before, live.limit(), "an ordinary wait")
	follower.status.Election.Wait = raft.Time(64 * c.profile.ElectionTimeout)
	live.watchWaits()
	assert.Equal(t, 256*c.profile.ElectionTimeout, live.limit()-before)
	live.stage = serving
	assert.Equal(t, before, live.limit(), "the limit of the other stages")
}

func TestInvariants_OfLivenessNoticeTheirBreach(t *testing.T) {
	for _, row := range []struct {
		rule   string
		breach func(c *cluster)
	}{
		{"L1", func(c *cluster) {
			for _, n := range c.nodes {
				n.crash()
				n.forever = true
			}
		}},
		{"L3", func(c *cluster) {
			c.live.next(serving)
			for _, n := range c.nodes {
				n.disk.stallTill = sim.Never
			}
		}},
		{"L2", func(c *cluster) {
			c.live.next(converging)
			for _, n := range c.nodes {
				n.applied, n.applying = 0, true
			}
		}},
		{"L6", func(c *cluster) {
			c.live.leader = c.nodes[0]
			c.live.next(parted)
			for _, n := range c.nodes {
				n.crash()
				n.forever = true
			}
		}},
		{"L9", func(c *cluster) { c.work.ask(request{kind: readRequest, node: c.live.members()[0]}) }},
		{"L12", func(c *cluster) {
			n := c.nodes[c.leader()]
			n.disk.stallTill, n.writing = sim.Never, 1
			c.live.core &^= 1 << n.index
			c.live.watch()
			c.live.stalled -= sim.In(time.Minute)
			c.live.watch()
		}},
		{"L11", func(c *cluster) {
			for _, n := range c.nodes {
				n.status.Term += 1000
			}
			c.live.watch()
		}},
	} {
		c, _, _ := running(t)
		c.live = newLiveness(c)
		c.phase = livenessPhase
		row.breach(c)
		for c.failure == nil && c.phase != ended {
			c.turn()
		}
		expectBreach(t, c, row.rule)
	}
}

func TestInvariants_OfAnIdleClusterNoticeTheirBreach(t *testing.T) {
	for _, row := range []struct {
		rule   string
		breach func(c *cluster)
	}{
		{"L4", func(c *cluster) { c.live.leader.status.Role = raft.Follower }},
		{"L7", func(c *cluster) { c.live.exiled = true; c.check.conflicts += 1000 }},
		{"L8", func(c *cluster) { c.net.Sent += 10000 }},
	} {
		c, lead, _ := running(t)
		c.live = &liveness{c: c, core: 7, leader: lead, sent: c.net.Sent}
		row.breach(c)
		c.live.end()
		expectBreach(t, c, row.rule)
	}
	c, lead, _ := running(t)
	c.live = &liveness{c: c, core: 7, leader: lead, exiled: true, term0: 99}
	c.live.rejoined()
	expectBreach(t, c, "L5")
	c, _, _ = running(t)
	c.check.elections = 2
	newLiveness(c)
	expectBreach(t, c, "L4")
}
