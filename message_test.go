package raft_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// states returns members in every role, including the two of a bootstrap.
func states(t *testing.T) map[string]func() *core {
	return map[string]func() *core{
		"uninitialized":               func() *core { return newUninitialized(t, "Bac") },
		"bootstrapper":                func() *core { c, _ := bootstrapper(t); return c },
		"holding":                     func() *core { c := bootstrapped(t); c.persist(); return c },
		"held":                        func() *core { return restart(t, membersNamed("Bac"), raft.HardState{}) },
		"follower":                    func() *core { return follower(t, 5, 1, 3, 5) },
		"following":                   func() *core { c := follower(t, 5, 1, 3, 5); c.append("b", 5, id(3, 3), 3); return c },
		"asking":                      func() *core { c := follower(t, 5, 1, 3, 5); c.receive("b", 5, raft.Heartbeat{}); c.read(1); return c },
		"pre-candidate":               func() *core { c := follower(t, 5, 1, 3, 5); c.timeout(); return c },
		"candidate":                   func() *core { return candidateOf(t, "abc", 5, 1, 3) },
		"new leader":                  func() *core { return leaderOf(t, "abc", 5, 1, 3) },
		"leader":                      func() *core { c := replicating(t, 5, 1, 3); c.propose("x"); c.read(1); return c },
		"transferring the leadership": func() *core { c := heardLeader(t); c.transferTo("b"); return c },
		"receiving a snapshot":        func() *core { c := snapFollower(t); c.offer(offered(id(9, 4), 1), 0); return c },
		"restoring a snapshot": func() *core {
			c := snapFollower(t)
			c.offer(offered(id(9, 4), 1), 0)
			c.step(raft.SnapshotArrived{From: peer("b"), Snapshot: offered(id(9, 4), 1)})
			return c
		},
		"offering a snapshot": func() *core { c, _ := lagging(t, nil); return c },
		"single":              func() *core { c := leaderOf(t, "a", 5, 1, 3); c.persist(); return c },
	}
}

// someBodies returns bodies of every type, most of them nonsense.
func someBodies() []raft.Body {
	const big = math.MaxUint64
	far := raft.RPCID{StartCount: big, Counter: big}
	ours := raft.RPCID{StartCount: 3, Counter: 1}
	bootstrap := bootstrapEntry(membersNamed("Bac"))
	return []raft.Body{
		nil,
		raft.BootstrapProbe{}, raft.BootstrapProbe{ID: far, List: listNamed("bac")}, raft.BootstrapProbe{ID: far, List: listNamed("abc")},
		raft.BootstrapProbeReply{}, raft.BootstrapProbeReply{ID: ours, Result: 99}, raft.BootstrapProbeReply{ID: ours, Result: raft.ProbeInitialized, HeardFrom: "b"}, raft.BootstrapProbeReply{ID: ours, Result: raft.ProbeUninitialized},
		raft.BootstrapProbeReply{ID: ours, Result: raft.ProbeUninitialized, List: listNamed("xyz")},
		raft.BootstrapRequest{}, raft.BootstrapRequest{Entry: bootstrap}, raft.BootstrapRequest{Entry: raft.Entry{Index: 1, Kind: raft.EntryBootstrap, Data: []byte("garbage")}},
		raft.BootstrapReply{}, raft.BootstrapReply{ID: far},
		raft.PreVoteRequest{}, raft.PreVoteRequest{ID: far, Last: id(big, big)},
		raft.PreVoteReply{}, raft.PreVoteReply{Granted: true}, raft.PreVoteReply{ID: ours, Leader: "nobody"}, raft.PreVoteReply{Leader: "a"},
		raft.VoteRequest{}, raft.VoteRequest{Last: id(big, big), Transfer: true},
		raft.VoteReply{}, raft.VoteReply{Granted: true},
		raft.AppendRequest{}, raft.AppendRequest{Prev: id(big, 5), Last: id(big, 5)},
		raft.AppendRequest{Prev: id(big, 1), Last: id(0, 1), Entries: entries(0, 1)},
		raft.AppendRequest{Prev: id(3, 1), Last: id(2, 1)}, raft.AppendRequest{Prev: id(3, 1), Last: id(9, 1)},
		raft.AppendRequest{Last: id(1, 1), Entries: entries(1, 1)}, raft.AppendRequest{Last: id(1, 0), Entries: []raft.Entry{bootstrap}},
		raft.AppendRequest{Prev: id(1, 0), Last: id(2, 0), Entries: []raft.Entry{{Index: 2, Kind: raft.EntryBootstrap}}},
		raft.AppendRequest{Prev: id(1, 0), Last: id(2, 4), Commit: big, Entries: []raft.Entry{configEntry(id(2, 4), moved("abc", "b"))}},
		raft.AppendRequest{Last: id(1, 4), Entries: []raft.Entry{configEntry(id(1, 4), moved("abc", "b"))}},
		raft.AppendRequest{Prev: id(4, 5), Last: id(5, 5), Entries: []raft.Entry{configEntry(id(5, 5), moved("abc", "b"))}},
		raft.AppendRequest{Prev: id(4, 5), Last: id(5, 5), Entries: []raft.Entry{configEntry(id(5, 5), moved("xyz", "x"))}},
		raft.AppendRequest{Prev: id(1, 0), Last: id(3, 4), Commit: big, Entries: entries(2, 5, 4)},
		raft.AppendRequest{Prev: id(1, 0), Last: id(3, 4), Commit: big, Entries: entries(2, 4, 4)},
		raft.AppendRequest{Prev: id(1, 0), Last: id(2, 9), Entries: entries(2, big)},
		raft.AppendReply{}, raft.AppendReply{Match: 3}, raft.AppendReply{Match: big},
		raft.AppendConflict{}, raft.AppendConflict{Prev: big}, raft.AppendConflict{Prev: 3, Hint: id(big, big)},
		raft.AppendConflict{Prev: 3, Hint: id(2, big)},
		raft.Heartbeat{}, raft.Heartbeat{Round: far, Commit: big},
		raft.HeartbeatReply{}, raft.HeartbeatReply{Round: far}, raft.HeartbeatReply{Round: ours, Match: big},
		raft.HeartbeatReply{Round: ours, Applied: big, Hindered: 255},
		raft.ReadRequest{}, raft.ReadRequest{ID: far},
		raft.ReadReply{}, raft.ReadReply{ID: far, OK: true, Index: big},
		raft.TimeoutNow{}, raft.SteppedDown{},
		raft.InstallSnapshot{}, raft.InstallSnapshot{Snapshot: raft.Snapshot{Base: raft.Base{ID: id(big, big)}}, Acknowledged: big},
		raft.InstallSnapshot{Snapshot: offered(id(9, 4), 1)}, raft.InstallSnapshot{Snapshot: offered(id(3, 2), 2), Acknowledged: 3},
		raft.InstallSnapshot{Snapshot: offered(id(1<<62, 1), 3), Acknowledged: 1 << 61}, raft.AppendReply{Match: 8},
		raft.SnapshotChunk{}, raft.SnapshotChunk{At: -1, Last: true, Size: -1}, raft.SnapshotProgress{}, raft.SnapshotProgress{At: -1, Refusal: 99},
		raft.Forward{}, raft.Forward{StartCount: big, Counter: big, ToStart: big, Left: -1, Kind: 99, Data: []byte{1}},
		raft.ForwardReply{}, raft.ForwardReply{Outcome: 99, Index: big, EntryTerm: big, Error: []byte{1}, Leader: peer("z")},
	}
}

// Peer input never panics and never blocks a member. The test tries every body, in every role, with every kind of term. The
// senders are members, strangers and members of another incarnation. Each message comes alone, twice, and with a write in
// between.
func TestHostile_NoMessageBreaksAMember(t *testing.T) {
	terms := []raft.Term{0, 1, 4, 5, 6, 1 << 40, 1<<63 - 1, math.MaxUint64}
	senders := []raft.Peer{peer("b"), peer("B"), peer("z"), {ID: "b", Incarnation: 1}}
	for role, state := range states(t) {
		for _, body := range someBodies() {
			for _, term := range terms {
				c := state()
				cluster := c.Status().Cluster
				for i, sender := range senders {
					m := raft.Message{From: sender, To: peer("a"), Cluster: cluster, Term: term, Body: body}
					require.NotPanics(t, func() {
						c.step(raft.Received{Message: m}, raft.Received{Message: m})
						if i%2 == 0 {
							c.persist()
						}
					}, "%s, %T %+v in term %d from %v", role, body, body, term, sender)
				}
				require.NotPanics(t, func() { c.after(afterAnyTimeout) }, "%s, %T %+v", role, body, body)
			}
		}
	}
}

// A message that no correct peer sends is refused with a trace event that says why, and changes nothing.
func TestHostile_IsRefusedWithAReason(t *testing.T) {
	const big = math.MaxUint64
	plain := func() *core { return follower(t, 5, 1, 3, 5) }
	following := func() *core { c := plain(); c.append("b", 5, id(4, 5), 3); return c }
	leader := func() *core { return replicating(t, 5, 1, 3) }
	bootstrap := func() *core { c, _ := bootstrapper(t); return c }
	change := func(f func(*raft.Message)) func(*raft.Message) { return f }
	for _, row := range []struct {
		rule  string
		state func() *core
		term  raft.Term
		body  raft.Body
		envel func(*raft.Message)
	}{
		{"for another member", plain, 5, raft.Heartbeat{}, change(func(m *raft.Message) { m.To.ID = "c" })},
		{"for another incarnation", plain, 5, raft.Heartbeat{}, change(func(m *raft.Message) { m.To.Incarnation++ })},
		{"for an open incarnation, and no probe", plain, 5, raft.Heartbeat{}, change(func(m *raft.Message) { m.To.Incarnation = 0 })},
		{"from itself", plain, 5, raft.Heartbeat{}, change(func(m *raft.Message) { m.From = peer("a") })},
		{"of another cluster", plain, 5, raft.Heartbeat{}, change(func(m *raft.Message) { m.Cluster[0]++ })},
		{"of a leader without a cluster", plain, 5, raft.Heartbeat{}, change(func(m *raft.Message) { m.Cluster = raft.ClusterID{} })},
		{"a term near 2^64", plain, big, raft.Heartbeat{}, nil},
		{"a term that jumps too far", plain, 5 + 1<<32 + 1, raft.VoteReply{}, nil},
		{"a leader of term 0", plain, 0, raft.Heartbeat{}, nil},
		{"no body", plain, 5, nil, nil},
		{"a span without its entries", plain, 5, raft.AppendRequest{Prev: id(2, 1), Last: id(4, 5)}, nil},
		{"a span that ends before it begins", plain, 5, raft.AppendRequest{Prev: id(4, 5), Last: id(2, 1)}, nil},
		{"a span that wraps around", plain, 5, raft.AppendRequest{Prev: id(big, 5), Last: id(0, 5), Entries: entries(0, 5)}, nil},
		{"entries with a gap", plain, 5, raft.AppendRequest{Prev: id(4, 5), Last: id(6, 5), Entries: append(entries(5, 5), entries(7, 5)...)}, nil},
		{"entries whose terms fall", plain, 5, raft.AppendRequest{Prev: id(2, 1), Last: id(4, 3), Entries: entries(3, 4, 3)}, nil},
		{"entries newer than their leader", plain, 5, raft.AppendRequest{Prev: id(4, 5), Last: id(5, 6), Entries: entries(5, 6)}, nil},
		{"a last entry that is not there", plain, 5, raft.AppendRequest{Prev: id(4, 5), Last: id(5, 4), Entries: entries(5, 5)}, nil},
		{"an entry 1 that bootstraps nothing", plain, 5, raft.AppendRequest{Last: id(1, 0), Entries: entries(1, 0)}, nil},
		{"a second bootstrap", plain, 5, raft.AppendRequest{Prev: id(4, 5), Last: id(5, 5), Entries: []raft.Entry{{Index: 5, Term: 5, Kind: raft.EntryBootstrap}}}, nil},
		{"a second leader of one term", following, 5, raft.Heartbeat{}, change(func(m *raft.Message) { m.From = peer("c") })},
		{"its appends", following, 5, raft.AppendRequest{Prev: id(4, 5), Last: id(4, 5)}, change(func(m *raft.Message) { m.From = peer("c") })},
		{"another incarnation of the leader", following, 5, raft.Heartbeat{}, change(func(m *raft.Message) { m.From.Incarnation++ })},
		{"a leader that contradicts itself", following, 5, raft.AppendRequest{Prev: id(3, 3), Last: id(4, 4), Entries: entries(4, 4)}, nil},
		{"a leader that contradicts a committed entry that it has proved", following, 5, raft.AppendRequest{Prev: id(1, 0), Last: id(2, 4), Entries: entries(2, 4)}, nil},
		{"an append before the acknowledgement that it names", plain, 5, raft.AppendRequest{Prev: id(3, 3), Last: id(3, 3), Acknowledged: 4}, nil},
		{"a conflict after an acknowledgement that never came", leader, 5, raft.AppendConflict{Prev: 4, Hint: id(1, 0), Acknowledged: 5}, nil},
		{"a second leader, to a leader", leader, 5, raft.Heartbeat{}, nil},
		{"its appends, to a leader", leader, 5, raft.AppendRequest{Prev: id(3, 3), Last: id(3, 3)}, nil},
		{"an acknowledgement of entries that do not exist", leader, 5, raft.AppendReply{Match: 99}, nil},
		{"the same in a heartbeat's answer", leader, 5, raft.HeartbeatReply{Match: 99}, nil},
		{"an answer to a round that never was", leader, 5, raft.HeartbeatReply{Round: raft.RPCID{StartCount: 3, Counter: 99}}, nil},
		{"a conflict at index 0", leader, 5, raft.AppendConflict{}, nil},
		{"a conflict beyond the log", leader, 5, raft.AppendConflict{Prev: 99}, nil},
		{"a conflict whose hint is beyond its index", leader, 5, raft.AppendConflict{Prev: 4, Hint: id(5, 5)}, nil},
		{"a bootstrap of garbage", bootstrap, 0, raft.BootstrapRequest{Entry: raft.Entry{Index: 1, Kind: raft.EntryBootstrap, Data: []byte{1}}}, nil},
		{"an answer to the probe that contradicts itself", bootstrap, 0, raft.BootstrapProbeReply{ID: raft.RPCID{StartCount: 3, Counter: 1}, Result: raft.ProbeUninitialized, List: listNamed("xyz")}, nil},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := row.state()
			m := c.from("b", row.term, row.body)
			if row.envel != nil {
				row.envel(&m.Message)
			}
			last := c.Status().Last
			out := c.step(m)
			require.Contains(t, traced(out), raft.TraceRefused)
			assert.NotEmpty(t, out.Trace[len(out.Trace)-1].Text)
			assert.Empty(t, out.Send)
			assert.Nil(t, out.Write.Log)
			assert.Equal(t, last, c.Status().Last)
		})
	}
}

// Suppose that a leader contradicts an entry that it has proved. It could then make its follower commit entries that the
// leader does not hold.
func TestHostile_ProvedEntriesStand(t *testing.T) {
	c := follower(t, 5, 1)
	c.append("b", 5, id(2, 1), 0, 5, 5)
	c.append("b", 5, id(2, 1), 0, 3)
	require.NotPanics(t, func() { c.receive("b", 5, raft.Heartbeat{Commit: 4}) })
	assert.Equal(t, id(4, 5), c.Status().Last)
}

// typesOf returns the types of a file that belong to a closed set: those with the marker method.
func typesOf(t *testing.T, file, marker string) []string {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	var names []string
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == marker {
			names = append(names, f.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	slices.Sort(names)
	return names
}

// A member refuses every body from another cluster, except those of a bootstrap. If only a member of a cluster can send a
// body, it also refuses that body without a cluster.
func TestHostile_NoBodyComesFromAnotherCluster(t *testing.T) {
	ofMembers := []string{"PreVoteRequest", "VoteRequest", "AppendRequest", "Heartbeat", "TimeoutNow", "SteppedDown", "InstallSnapshot"}
	for _, body := range someBodies()[1:] {
		name := reflect.TypeOf(body).Name()
		if !strings.HasPrefix(name, "Bootstrap") {
			c := follower(t, 5, 1, 3, 5)
			m := c.from("b", 6, body)
			m.Message.Cluster[0]++
			assert.Equal(t, []raft.TraceEventKind{raft.TraceRefused}, traced(c.step(m)), "%s of another cluster", name)
			assert.EqualValues(t, 5, c.Leadership().Term)
		}
		if slices.Contains(ofMembers, name) {
			c := follower(t, 5, 1, 3, 5)
			m := c.from("b", 6, body)
			m.Message.Cluster = raft.ClusterID{}
			assert.Equal(t, []raft.TraceEventKind{raft.TraceRefused}, traced(c.step(m)), "%s of no cluster", name)
		}
	}
}

// The sets of events and bodies are closed, and these tests step every type of both in every role.
func TestHostile_EveryEventAndBodyIsStepped(t *testing.T) {
	seen := map[string]bool{}
	for _, body := range someBodies() {
		if body != nil {
			seen[reflect.TypeOf(body).Name()] = true
		}
	}
	for _, name := range typesOf(t, "message.go", "class") {
		assert.True(t, seen[name], "no test steps a %s", name)
	}

	clear(seen)
	for role, state := range states(t) {
		c := state()
		events := []raft.Event{
			c.from("b", 5, raft.Heartbeat{}), raft.Persisted{Seq: c.seq}, raft.Applied{}, raft.Applying{},
			raft.Proposed{Proposals: []raft.Proposal{{RequestID: 5, Kind: raft.EntryCommand}}},
			raft.ReadRequested{RequestID: 6}, raft.Working{Term: 5, StopMax: 1}, raft.TransferRequested{RequestID: 7}, raft.TransferRequested{RequestID: 8, To: "b"},
			raft.ChangeRequested{RequestID: 10}, raft.ChangeRequested{RequestID: 11, Change: raft.Change{Cancel: true}},
			raft.ChangeRequested{RequestID: 12, Change: raft.Change{Remove: []raft.Peer{{ID: "c"}, {}, {ID: "c"}}, Patience: -1}},
			raft.PeerUp{ID: "b", Incarnation: 9, StartCount: 1}, raft.PeerUp{ID: "zz"}, raft.PeerLost{Peer: peer("b")},
			raft.PeerLost{Peer: peer("zz"), Refused: true},
			raft.SendDropped{To: peer("b"), Span: raft.Span{After: 1, Last: 2}}, raft.SendDropped{To: peer("zz")},
			raft.SendDropped{To: peer("b"), Span: raft.Span{After: 1 << 62, Last: 1}, Oversized: id(1<<62+1, 5)},
			raft.SendDropped{To: peer("b"), Span: raft.Span{After: math.MaxUint64, Last: 1}, Oversized: id(0, 0), OversizedBytes: -1},
			raft.PeerUp{ID: "c", Incarnation: 1, AppendBytesMax: -1},
			raft.SnapshotRequested{RequestID: 9}, raft.SnapshotTaken{Take: id(1, 0)}, raft.SnapshotArrived{From: peer("b")},
			raft.SnapshotSending{To: peer("b")}, raft.SnapshotSent{To: peer("b")},
			raft.LimitsChanged{}, raft.InitialGiven{Initial: listNamed("abc")}, raft.Heard{From: "b"}, raft.Closing{},
		}
		for _, e := range events {
			seen[reflect.TypeOf(e).Name()] = true
			assert.NotPanics(t, func() { state().step(e) }, "%s, %T", role, e)
		}
		assert.NotPanics(t, func() { state().step(events...) }, role)
	}
	for _, name := range typesOf(t, "event.go", "event") {
		assert.True(t, seen[name], "no test steps a %s", name)
	}
}

// A sender that our configuration does not name raises our term only as a leader, or with a vote request that we would grant.
// A sender that it names raises our term with every message except pre-votes (Figure 2).
func TestTerm_WhatAStrangerRaises(t *testing.T) {
	newer := id(9, 5)
	for _, row := range []struct {
		body            raft.Body
		known, stranger bool
	}{
		{raft.AppendRequest{Prev: id(1, 0), Last: id(1, 0)}, true, true},
		{raft.Heartbeat{}, true, true},
		{raft.VoteRequest{Last: newer}, true, true},
		{raft.VoteRequest{Last: newer, Transfer: true}, true, true},
		{raft.VoteRequest{Last: id(2, 1)}, true, false},
		{raft.VoteRequest{Last: id(2, 1), Transfer: true}, true, false},
		{raft.VoteReply{}, true, false},
		{raft.VoteReply{Granted: true}, true, false},
		{raft.AppendReply{Match: 1}, true, false},
		{raft.AppendConflict{Prev: 1}, true, false},
		{raft.HeartbeatReply{}, true, false},
		{raft.ReadRequest{}, true, false},
		{raft.ReadReply{}, true, false},
		{raft.TimeoutNow{}, true, false},
		{raft.PreVoteReply{}, true, false},
		{raft.PreVoteReply{Granted: true}, false, false},
		{raft.PreVoteRequest{Last: newer}, false, false},
	} {
		for _, sender := range []raft.Peer{peer("b"), peer("z"), {ID: "b", Incarnation: 1}} {
			want := raft.Term(5)
			if known := sender == peer("b"); known && row.known || !known && row.stranger {
				want = 6
			}
			c := follower(t, 5, 1, 3, 5)
			c.after(electionTimeout) // no leader is heard
			c.step(raft.Received{Message: raft.Message{
				From: sender, To: peer("a"), Cluster: clusterOfTheTests, Term: 6, Body: row.body,
			}})
			assert.Equal(t, want, c.Leadership().Term, "%T %+v of %v", row.body, row.body, sender)
		}
	}
	c := replicating(t, 5, 1)
	c.step(raft.Received{Message: raft.Message{
		From: peer("z"), To: peer("a"), Cluster: clusterOfTheTests, Term: 6, Body: raft.HeartbeatReply{},
	}})
	assert.Equal(t, raft.Leader, c.Leadership().Role, "a stranger's answer deposes no leader")
}

// While a member's new disk replaces the old one under the same id, the members include that id twice. The two talk to each
// other.
func TestMisaddressed_TwinOfThisID(t *testing.T) {
	twin := raft.Peer{ID: "a", Incarnation: 1}
	c := follower(t, 5, 1)
	receive := func(body raft.Body) raft.Output {
		return c.step(raft.Received{Message: raft.Message{From: twin, To: peer("a"), Cluster: clusterOfTheTests, Term: 5, Body: body}})
	}
	out := receive(raft.Heartbeat{Round: raft.RPCID{StartCount: 1}})
	assert.Equal(t, raft.Leadership{Term: 5, Leader: "a", LeaderIncarnation: 1}, c.Leadership(), "it follows a twin")
	assert.Equal(t, twin, out.Send[0].To)

	c.step(raft.ReadRequested{RequestID: requestIDOfTheTests})
	assert.Equal(t, twin, c.out.Send[0].To)
	id := c.out.Send[0].Body.(raft.ReadRequest).ID
	assert.Empty(t, c.receive("a", 5, raft.ReadReply{ID: id, OK: true, Index: 1}).Answers, "a message that names this member as its sender is refused")
	out = receive(raft.ReadReply{ID: id, OK: true, Index: 1})
	assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerReadSafe, ID: raft.EntryID{Index: 1}}}, out.Answers)

	receive(raft.SteppedDown{})
	assert.Equal(t, raft.Leadership{Term: 5}, c.Leadership())
}
