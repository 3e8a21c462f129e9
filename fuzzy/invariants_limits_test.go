package fuzzy

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// limitBreaches lists breaches of the invariants of limits and counters. Each is a step that a correct core never makes.
var limitBreaches = []struct {
	rule   string
	breach func(c *cluster, n *node, before *raft.CoreStatus, out *raft.Output)
}{
	{"N10", func(_ *cluster, n *node, _ *raft.CoreStatus, _ *raft.Output) { n.status.Reads = 1 << 20 }},
	{"N10", func(_ *cluster, n *node, _ *raft.CoreStatus, _ *raft.Output) {
		n.status.Pending, n.status.PendingBytes = 2, 1<<30
	}},
	{"N10", func(_ *cluster, n *node, _ *raft.CoreStatus, _ *raft.Output) {
		n.status.Peers[0].Inflight, n.status.Peers[0].InflightBytes = 2, 1<<30
	}},
	{"N34", func(_ *cluster, n *node, _ *raft.CoreStatus, _ *raft.Output) {
		n.status.Peers[0].Inflight, n.status.Peers[0].InflightBytes = 0, 1
	}},
	{"N34", func(_ *cluster, n *node, _ *raft.CoreStatus, _ *raft.Output) {
		n.status.Peers[0].Inflight, n.status.Peers[0].InflightBytes = 1, 0
	}},
	{"N32", func(_ *cluster, n *node, _ *raft.CoreStatus, _ *raft.Output) { n.status.PendingBytes++ }},
	{"N32", func(_ *cluster, n *node, _ *raft.CoreStatus, _ *raft.Output) { n.status.Pending++ }},
	{"N32", func(_ *cluster, n *node, _ *raft.CoreStatus, _ *raft.Output) {
		n.status.Role, n.status.Pending = raft.Follower, 1
	}},
	{"N33", func(c *cluster, n *node, _ *raft.CoreStatus, out *raft.Output) {
		t := c.work.write(n, 0, 1)
		out.Answers = []raft.Answer{{RequestID: t, Kind: raft.AnswerRefused, Refusal: raft.RefusedOverloaded}}
	}},
	{"N33", func(c *cluster, n *node, _ *raft.CoreStatus, out *raft.Output) {
		t := c.work.write(n, 0, 1)
		out.Answers = []raft.Answer{{RequestID: t, Kind: raft.AnswerRefused, Refusal: raft.RefusedTooLarge}}
	}},
	{"N33", func(c *cluster, n *node, _ *raft.CoreStatus, out *raft.Output) {
		t := c.work.read(n, 0, 0)
		out.Answers = []raft.Answer{{RequestID: t, Kind: raft.AnswerRefused, Refusal: raft.RefusedOverloaded}}
	}},
	{"N33", func(c *cluster, n *node, _ *raft.CoreStatus, out *raft.Output) {
		t := c.work.write(n, 0, 1)
		out.Answers = []raft.Answer{{RequestID: t, Kind: raft.AnswerAccepted, ID: raft.EntryID{Index: 1 << 20}}}
	}},
	{"N33", func(c *cluster, n *node, _ *raft.CoreStatus, out *raft.Output) {
		n.seen.carries[peerOf(&n.status.Peers[0])] = raft.RecordOverheadBytes
		out.Answers = []raft.Answer{{RequestID: c.work.write(n, 0, 1), Kind: raft.AnswerAccepted, ID: n.status.Last}}
	}},
}

func TestInvariants_OfLimitsNoticeTheirBreach(t *testing.T) {
	for _, row := range limitBreaches {
		c, n, _ := running(t)
		n.status.Peers = append([]raft.PeerProgress(nil), n.status.Peers...)
		before, out := n.status, raft.Output{}
		before.Peers = append([]raft.PeerProgress(nil), before.Peers...)
		c.check.checkLimits(n, &before, nil, &out)
		require.Nil(t, c.failure, "a step in which nothing happens")
		row.breach(c, n, &before, &out)
		c.check.checkLimits(n, &before, nil, &out)
		expectBreach(t, c, row.rule)
	}
}

// A leader may serve a stranger's read, although no member takes the answer. The leader counts the read until it has
// answered.
func TestInvariants_ReadsOfStrangersCount(t *testing.T) {
	c, n, other := running(t)
	before, out := n.status, raft.Output{}
	clear(n.seen.open)
	request := message(other, n, n.status.Term, raft.ReadRequest{ID: raft.RPCID{StartCount: 9, Counter: 9}})
	request.From.Incarnation++
	n.status.Reads = 1
	n.seen.recordEvents(n, &before, given(request))
	c.check.checkProposalCounts(n, &out)
	require.Nil(t, c.failure)
	n.seen.dropAnswered(&raft.Output{Send: []raft.Message{{To: request.From, Body: raft.ReadReply{ID: raft.RPCID{StartCount: 9, Counter: 9}}}}})
	c.check.checkProposalCounts(n, &out)
	expectBreach(t, c, "N32")
}

// The core estimates an append when it sends it. In a short log each entry has a larger share of entry 1 than in a long log.
func TestInvariants_AnAppendSentEarlyMayCountMore(t *testing.T) {
	c, n, _ := running(t)
	n.status.Peers = append([]raft.PeerProgress(nil), n.status.Peers...)
	p, limits := &n.status.Peers[0], &n.limits
	limits.AppendBytesMax = 1
	p.Inflight, p.Match = 2, 9
	p.InflightBytes = limits.InflightBytesMax + commandBytesMin + c.profile.Load.BytesMax + raft.RecordOverheadBytes + bootstrapBytesMax/10 - 1
	require.Greater(t, len(n.log), 20)
	c.check.checkBounds(n, &raft.CoreStatus{})
	require.Nil(t, c.failure, "sent when the log had ten entries")
	p.Match = raft.Index(len(n.log) - 2)
	c.check.checkBounds(n, &raft.CoreStatus{})
	expectBreach(t, c, "N10")
}

// The workload of an application determines the length of its commands. So N10, N52 and L16 use the longest command so far.
func TestInvariants_AnApplicationsCommandsMayBeLonger(t *testing.T) {
	c, n, _ := running(t)
	n.status.PendingBytes = c.profile.Limits.ProposalBytesMax + commandBytesMin + 999
	app := counting()
	app.Command = func(*rand.Rand) []byte { return make([]byte, 1000) }
	c.profile.Load.BytesMax = 1
	c.host = &host{c: c, app: app, source: rand.NewPCG(0, 0)}
	c.host.random = rand.New(c.host.source)
	c.work.write(n, 0, 1)
	require.GreaterOrEqual(t, largest(n, raft.Index(len(n.log))), commandBytesMin+1000+raft.RecordOverheadBytes)
	c.check.checkBounds(n, &raft.CoreStatus{})
	require.Nil(t, c.failure)
	n.status.PendingBytes++
	c.check.checkBounds(n, &raft.CoreStatus{})
	expectBreach(t, c, "N10")
}

// A leader that was elected in the quiet may wait for the answer to its first append.
func TestLiveness_ANewLeaderMayHaveAnAppendUnderWay(t *testing.T) {
	c, lead, _ := running(t)
	lead.status.Pending, lead.status.PendingBytes, lead.status.Reads = 0, 0, 0
	lead.status.Peers[0].Inflight = 1
	c.live = &liveness{c: c, core: 7, leader: lead, quieted: lead.status.Term - 1}
	c.live.checkRelieved()
	require.Nil(t, c.failure)
}

// A receiver that has acknowledged all bytes of a frozen state may take a long time to sync them. The stream waits for this
// sync up to a limit. The receiver may also have ended permanently.
func TestLiveness_AFrozenStateOfWhichAllBytesArrivedMayBeHeld(t *testing.T) {
	c, lead, other := running(t)
	lead.status.Pending, lead.status.PendingBytes, lead.status.Reads = 0, 0, 0
	now, timeout := lead.now().Mono, lead.timeout()
	h := &heldState{file: snapFile{payload: make([]byte, 9)}, written: 9, sent: 9, owed: true, since: now - 12*timeout, looked: now}
	lead.vault.held = h
	offer := message(lead, other, lead.status.Term, raft.InstallSnapshot{Snapshot: raft.Snapshot{File: raft.SnapshotID{1}, Size: 9}})
	o := &outStream{Outgoing: pipeline.NewOutgoing(now, *offer, lead.streamLimits()), to: other.peer(), held: true}
	for _, p := range []raft.SnapshotProgress{{File: raft.SnapshotID{1}, Begin: true}, {File: raft.SnapshotID{1}, At: 9}} {
		o.Progress(now, *message(other, lead, 0, p))
		lead.heldProgress(o, p.Begin)
	}
	require.EqualValues(t, 9, h.acked)
	c.live = &liveness{c: c, core: 1 << lead.index, leader: lead, quieted: lead.status.Term}
	holds := func() {
		t.Helper()
		c.live.checkRelieved()
		c.check.checkHeldState(lead)
		require.Nil(t, c.failure)
	}
	holds() // nothing has been sent again yet
	h.heldSent(now, 9)
	h.since = now - 75*timeout
	holds()
	h.since--
	c.check.checkHeldState(lead)
	expectBreach(t, c, "N58")
	c.failure = nil
	c.live.checkRelieved()
	expectBreach(t, c, "L10")
}

// The stream of a frozen state may still run when the quiet ends. Its receiver is then outside the core, or its leader was
// elected in the quiet. The receiver owes nothing while WriteTo reads the state, or while the pace delays the next chunk.
func TestLiveness_AFrozenStateWhoseStreamContinuesMayBeHeld(t *testing.T) {
	c, lead, other := running(t)
	lead.status.Pending, lead.status.PendingBytes, lead.status.Reads = 0, 0, 0
	c.profile.Snapshots = Snapshots{On: true, ChunkBytes: 64, WindowChunks: 1, BytesPerSecond: 1000}
	h, now := &heldState{file: snapFile{payload: make([]byte, 1000)}, failsAt: -1, written: 1}, lead.now().Mono
	offer := message(lead, other, lead.status.Term, raft.InstallSnapshot{Snapshot: raft.Snapshot{File: raft.SnapshotID{1}, Size: -1, Held: true}})
	o := &outStream{Outgoing: pipeline.NewOutgoing(now, *offer, lead.streamLimits()), to: other.peer(), held: true}
	lead.vault.held, lead.vault.out[other.index] = h, o
	o.Progress(now, *message(other, lead, 0, raft.SnapshotProgress{File: raft.SnapshotID{1}, Begin: true}))
	c.live = &liveness{c: c, leader: lead, quieted: lead.status.Term}
	check := func(core uint64, holds bool) {
		t.Helper()
		c.failure, c.live.core = nil, core
		if c.live.checkRelieved(); holds {
			require.Nil(t, c.failure)
			return
		}
		expectBreach(t, c, "L10")
	}
	alone, both := uint64(1)<<lead.index, uint64(1)<<lead.index|uint64(1)<<other.index

	lead.pump(other.index)
	check(alone, false) // nobody lets WriteTo continue
	h.writesAt = c.now() + 1
	check(alone, true)
	check(both, false) // the receiver had everything when the quiet began
	c.live.quieted--
	check(both, true)
	h.writesAt = 0

	for !o.waits || h.owed { // until the pace holds a chunk back
		o.Fill(make([]byte, 64))
		lead.pump(other.index)
		acked := raft.SnapshotProgress{File: raft.SnapshotID{1}, At: h.sent}
		o.Progress(now, *message(other, lead, 0, acked))
		h.acked, h.owed = h.sent, false
		require.Less(t, h.sent, int64(len(h.file.payload)))
		o.Fill(make([]byte, 64))
		lead.pump(other.index)
	}
	check(alone, true)
	o.waits = false
	check(alone, false)
}

// No request and no message may be left over after the load has ended.
func TestLiveness_WhatIsLeftBehindIsNoticed(t *testing.T) {
	for _, leave := range []func(s *raft.CoreStatus){
		func(s *raft.CoreStatus) { s.Pending = 1 },
		func(s *raft.CoreStatus) { s.PendingBytes = 1 },
		func(s *raft.CoreStatus) { s.Reads = 1 },
		func(s *raft.CoreStatus) { s.Peers[0].Inflight = 1 },
		func(s *raft.CoreStatus) { s.Peers[0].InflightBytes = 1 },
	} {
		c, lead, _ := running(t)
		lead.status.Pending, lead.status.PendingBytes, lead.status.Reads = 0, 0, 0
		for i := range lead.status.Peers {
			lead.status.Peers[i].Inflight, lead.status.Peers[i].InflightBytes = 0, 0
		}
		c.live = &liveness{c: c, core: 7, leader: lead, quieted: lead.status.Term}
		c.live.checkRelieved()
		require.Nil(t, c.failure)
		leave(&lead.status)
		c.live.checkRelieved()
		expectBreach(t, c, "L10")
	}
}

// A member that was not healed may request a read just when the quiet ends. The network may also have delayed an earlier
// request until then.
func TestLiveness_ReadsThatComeWhenTheQuietEndsAreNotJudged(t *testing.T) {
	c, lead, other := running(t)
	lead.status.Pending, lead.status.PendingBytes, lead.status.Reads = 0, 0, 1
	clear(lead.seen.open)
	c.live = &liveness{c: c, core: 1 << lead.index, leader: lead, quieted: lead.status.Term}
	lead.seen.recordEvents(lead, &lead.status, given(message(other, lead, lead.status.Term, raft.ReadRequest{ID: raft.RPCID{StartCount: 9, Counter: 9}})))
	c.live.checkRelieved()
	require.Nil(t, c.failure)
	lead.status.Reads = 2
	c.live.checkRelieved()
	expectBreach(t, c, "L10")
	c.failure, lead.status.Reads = nil, 1
	c.live.core |= 1 << other.index
	c.live.checkRelieved()
	require.Nil(t, c.failure, "it has only just come")
	lead.seen.now += lead.timeout()
	c.live.checkRelieved()
	expectBreach(t, c, "L10")
}

// A leader may refuse a read because of its limit. Later in the same step, it may accept a duplicate of the request.
func TestInvariants_ReadsThatAStepTakesTwiceCount(t *testing.T) {
	c, n, other := running(t)
	before, reply := n.status, raft.ReadReply{ID: raft.RPCID{StartCount: 9, Counter: 9}}
	clear(n.seen.open)
	request := message(other, n, n.status.Term, raft.ReadRequest{ID: reply.ID})
	answered := raft.Output{Send: []raft.Message{{To: request.From, Body: reply}}}
	n.status.Reads = 1
	n.seen.recordEvents(n, &before, append(given(request), given(request)...))
	n.seen.dropAnswered(&answered)
	c.check.checkProposalCounts(n, &answered)
	require.Nil(t, c.failure)
	n.seen.now++
	n.seen.recordEvents(n, &before, given(request))
	n.seen.dropAnswered(&answered)
	c.check.checkProposalCounts(n, &answered)
	expectBreach(t, c, "N32")
}
