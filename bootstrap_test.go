package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bootstrapper returns the uninitialized member a, the first of the list abc, which has probed the members.
func bootstrapper(t *testing.T) (*core, raft.RPCID) {
	c := newUninitialized(t, "abc")
	require.Len(t, c.out.Send, 2)
	return c, c.out.Send[0].Body.(raft.BootstrapProbe).ID
}

// answerProbe delivers a member's reply to the probe. The sender has no cluster yet.
func (c *core) answerProbe(sender raft.NodeID, r raft.BootstrapProbeReply) raft.Output {
	m := c.from(sender, 0, r)
	m.Message.Cluster = raft.ClusterID{}
	return c.step(m)
}

func uninitializedWith(probe raft.RPCID, list string) raft.BootstrapProbeReply {
	return raft.BootstrapProbeReply{ID: probe, Result: raft.ProbeUninitialized, List: listNamed(list)}
}

// bootstrapped returns a bootstrapper that has received all replies and has written entry 1.
func bootstrapped(t *testing.T) *core {
	c, probe := bootstrapper(t)
	c.answerProbe("b", uninitializedWith(probe, "abc"))
	c.answerProbe("c", uninitializedWith(probe, "abc"))
	require.NotNil(t, c.out.Write.Log)
	return c
}

// held delivers the sender's report that entry 1 of this bootstrapper's probe is durable there.
func (c *core) held(sender raft.NodeID, probe raft.RPCID) raft.Output {
	m := c.from(sender, 0, raft.BootstrapReply{ID: probe})
	m.Message.Cluster = c.Status().Cluster
	return c.step(m)
}

func TestBootstrap_FirstOfTheListCallsTheProbe(t *testing.T) {
	c, probe := bootstrapper(t)
	call := raft.BootstrapProbe{ID: probe, List: listNamed("abc")}
	envelope := func(to raft.NodeID) raft.Message {
		return raft.Message{From: peer("a"), To: raft.Peer{ID: to}, Body: call}
	}
	assert.Equal(t, []raft.Message{envelope("b"), envelope("c")}, c.out.Send, "the receiver's incarnation is open")
	assert.Equal(t, []string{"b has not answered the probe", "c has not answered the probe"}, c.Status().Missing)

	assert.Len(t, c.after(electionTimeout).Send, 2, "it repeats the probe until they answer")
	other := newUninitialized(t, "abc")
	other.answerProbe("b", uninitializedWith(probe, "abc"))
	assert.Len(t, other.after(electionTimeout).Send, 1, "a member that has answered is not asked again")

	cfg := coreConfig()
	cfg.ID, cfg.Initial = "b", listNamed("abc")
	_, out, err := raft.NewCore(cfg, raft.Stored{Incarnation: peer("b").Incarnation, StartCount: 1}, raft.Now{})
	require.NoError(t, err)
	assert.Empty(t, out.Send, "the others wait")
}

// The bootstrapper writes entry 1 only once every other member has answered "uninitialized" with the same list.
func TestBootstrap_EntryOneIsWrittenWhenAllAreUninitialized(t *testing.T) {
	c, probe := bootstrapper(t)
	c.answerProbe("b", uninitializedWith(probe, "abc"))
	require.Nil(t, c.out.Write.Log)
	for why, r := range map[string]raft.BootstrapProbeReply{
		"c has not answered the probe":                       uninitializedWith(raft.RPCID{StartCount: 2, Counter: 9}, "abc"),
		"c was started with another list of initial members": {ID: probe, Result: raft.ProbeListDiffers, List: listNamed("acd")},
		"c was started without a list of initial members":    {ID: probe, Result: raft.ProbeNoInitial},
		"c already belongs to a cluster, bootstrapped by z (incarnation 000000000000007a), in term 0": {
			ID: probe, Result: raft.ProbeInitialized, Bootstrapper: peer("z")},
	} {
		c.answerProbe("c", r)
		assert.Contains(t, c.Status().Missing, why)
		require.Nil(t, c.out.Write.Log)
		c.step(raft.PeerUp{ID: "c", Incarnation: 1}) // another incarnation of c: the former answer is forgotten
	}

	out := c.answerProbe("c", uninitializedWith(probe, "abc"))
	require.NotNil(t, out.Write.Log)
	f, err := raft.DecodeBootstrap(out.Write.Log.Entries[0].Data)
	require.NoError(t, err)
	assert.Equal(t, raft.NewConfiguration(membersNamed("abc")), f.Configuration, "with everyone's incarnation")
	assert.Equal(t, peer("a"), f.Bootstrapper)
	assert.Equal(t, probe, f.Probe)
	assert.Equal(t, id(1, 0), c.Status().Last)
	assert.Empty(t, out.Send, "the request leaves when entry 1 is durable here")
	assert.Len(t, c.persist().Send, 2)
}

// The bootstrapper campaigns in term 1 once all members hold entry 1.
func TestBootstrap_BootstrapperCampaignsWhenAllHold(t *testing.T) {
	c := bootstrapped(t)
	probe := bootstrapOf(t, c).Probe
	c.persist()
	c.held("b", probe)
	assert.Equal(t, raft.Leadership{}, c.Leadership())
	assert.Equal(t, []string{"c has not yet stored the bootstrap entry"}, c.Status().Missing)
	c.held("c", raft.RPCID{StartCount: 1, Counter: 1})
	assert.Equal(t, raft.Leadership{}, c.Leadership(), "an answer to another probe does not count")

	out := c.held("c", probe)
	assert.Equal(t, raft.Leadership{Term: 1, Role: raft.Candidate}, c.Leadership())
	assert.Equal(t, &raft.HardState{Term: 1, Vote: peer("a")}, out.Write.Hard)
	assert.Len(t, out.Write.Then, 2)
}

func bootstrapOf(t *testing.T, c *core) raft.Bootstrap {
	f, err := raft.DecodeBootstrap(c.out.Write.Log.Entries[0].Data)
	require.NoError(t, err)
	return f
}

func TestBootstrap_SingleMemberBootstrapsAlone(t *testing.T) {
	c := newUninitialized(t, "a")
	assert.NotNil(t, c.out.Write.Log)
	c.persist()
	assert.Equal(t, raft.Leadership{Term: 1, Role: raft.Candidate}, c.Leadership())
	c.persist()
	assert.Equal(t, raft.Leadership{Term: 1, Leader: "a", LeaderIncarnation: 'a', Role: raft.Leader}, c.Leadership())
}

// While its durable term is 0, the bootstrapper may probe the members again. Answers to an earlier probe then no longer
// count.
func TestBootstrap_IsRedone(t *testing.T) {
	c := bootstrapped(t)
	first := bootstrapOf(t, c)
	c.persist()
	c.held("b", first.Probe)

	out := c.step(raft.PeerUp{ID: "c", Incarnation: 1})
	probe := bodies(out.Send, "c")[0].(raft.BootstrapProbe).ID
	assert.True(t, first.Probe.Less(probe), "c has come back with an empty disk: the members are probed again")
	c.held("c", first.Probe)
	assert.Equal(t, raft.Leadership{}, c.Leadership())

	c.answerProbe("b", uninitializedWith(probe, "abc"))
	emptied := c.from("c", 0, uninitializedWith(probe, "abc"))
	emptied.Message.From.Incarnation, emptied.Message.Cluster = 1, raft.ClusterID{}
	c.step(emptied)
	second := bootstrapOf(t, c)
	assert.Equal(t, raft.EntryID{}, c.out.Write.Log.After, "entry 1 is replaced")
	assert.NotEqual(t, first.Cluster, second.Cluster)
	m, _ := second.Configuration.Member("c")
	assert.EqualValues(t, 1, m.Incarnation)
}

func TestBootstrap_IsRedoneWhenAMemberDoesNotHoldItInTime(t *testing.T) {
	c := bootstrapped(t)
	c.persist()
	for range 9 {
		assert.IsType(t, raft.BootstrapRequest{}, c.after(electionTimeout).Send[0].Body)
	}
	c.after(electionTimeout)
	assert.IsType(t, raft.BootstrapProbe{}, c.out.Send[0].Body)

	probe := c.out.Send[0].Body.(raft.BootstrapProbe).ID // members get twice the time, because their disks may be slow
	c.answerProbe("b", uninitializedWith(probe, "abc"))
	c.answerProbe("c", uninitializedWith(probe, "abc"))
	c.persist()
	for range 19 {
		assert.IsType(t, raft.BootstrapRequest{}, c.after(electionTimeout).Send[0].Body)
	}
	assert.IsType(t, raft.BootstrapProbe{}, c.after(electionTimeout).Send[0].Body)
}

// If a bootstrapper restarts at term 0, it probes the members again. If it restarts in a later term, it does not.
func TestBootstrap_RestartedBootstrapper(t *testing.T) {
	c := restart(t, membersNamed("abc"), raft.HardState{})
	assert.IsType(t, raft.BootstrapProbe{}, c.out.Send[0].Body)
	assert.Equal(t, listNamed("abc"), c.out.Send[0].Body.(raft.BootstrapProbe).List, "the list that entry 1 names")
	c = restart(t, membersNamed("abc"), raft.HardState{Term: 1})
	assert.Empty(t, c.out.Send)
	c.timeout()
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role)
}

// requestOf returns the bootstrap request of the first member of the list.
func requestOf(ids string, probe raft.RPCID, cluster raft.ClusterID) raft.Message {
	members := membersNamed(ids)
	f := raft.Bootstrap{
		Cluster: cluster, Bootstrapper: members[0].Peer(), Probe: probe, Configuration: raft.NewConfiguration(members),
	}
	e := raft.Entry{Index: 1, Kind: raft.EntryBootstrap, Data: f.Encode()}
	return raft.Message{From: members[0].Peer(), To: peer("a"), Cluster: cluster, Body: raft.BootstrapRequest{Entry: e}}
}

// Every member makes entry 1 durable before it acknowledges.
func TestBootstrap_MemberHoldsEntryOneThenSaysSo(t *testing.T) {
	c := newUninitialized(t, "Bac")
	probe := raft.RPCID{StartCount: 1, Counter: 1}
	out := c.step(raft.Received{Message: requestOf("Bac", probe, clusterOfTheTests)})
	assert.Empty(t, out.Send)
	require.Len(t, out.Write.Then, 1)
	assert.Equal(t, raft.BootstrapReply{ID: probe}, out.Write.Then[0].Body)
	assert.Len(t, out.Write.Log.Entries, 1)
	assert.False(t, c.Status().Uninitialized)

	c.persist()
	out = c.step(raft.Received{Message: requestOf("Bac", probe, clusterOfTheTests)})
	assert.Len(t, out.Send, 1, "the duplicate is acknowledged again")
	assert.Zero(t, out.Write)
	assert.EqualValues(t, 3600e9, c.out.WakeAt-c.now, "a non-bootstrapper at term 0 never campaigns")
}

// A member that holds entry 1 at term 0 replaces it only by the entry 1 of a newer probe of the same bootstrapper.
func TestBootstrap_HolderTakesARedoneBootstrap(t *testing.T) {
	other := raft.ClusterID{9}
	for _, row := range []struct {
		rule  string
		hard  raft.HardState
		ids   string
		probe raft.RPCID
		want  bool
	}{
		{"the same bootstrapper, a newer probe", raft.HardState{}, "Bac", raft.RPCID{StartCount: 1, Counter: 2}, true},
		{"a later start count", raft.HardState{}, "Bac", raft.RPCID{StartCount: 2, Counter: 1}, true},
		{"an older probe", raft.HardState{}, "Bac", raft.RPCID{StartCount: 0, Counter: 9}, false},
		{"another bootstrapper", raft.HardState{}, "Aa", raft.RPCID{StartCount: 9, Counter: 9}, false},
		{"after a term", raft.HardState{Term: 1}, "Bac", raft.RPCID{StartCount: 1, Counter: 2}, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := restart(t, membersNamed("Bac"), row.hard)
			m := requestOf(row.ids, row.probe, other)
			out := c.step(raft.Received{Message: m})
			assert.Equal(t, row.want, out.Write.Log != nil)
			assert.Equal(t, !row.want, len(traced(out)) == 1 && traced(out)[0] == raft.TraceRefused)
		})
	}
}

func TestBootstrap_AnswersToTheProbe(t *testing.T) {
	probe := raft.RPCID{StartCount: 5, Counter: 1}
	call := func(c *core, list string) raft.BootstrapProbeReply {
		first := listNamed(list).Members[0].ID
		out := c.step(raft.Received{Message: raft.Message{
			From: peer(first), To: raft.Peer{ID: "a"}, Body: raft.BootstrapProbe{ID: probe, List: listNamed(list)},
		}})
		require.Len(t, out.Send, 1)
		assert.Zero(t, out.Write, "the answer promises nothing")
		return out.Send[0].Body.(raft.BootstrapProbeReply)
	}
	noList := func() *core {
		return begin(t, coreConfig(), raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 1})
	}
	holder := func() *core { return restart(t, membersNamed("Bac"), raft.HardState{}) }
	voted := func() *core { return restart(t, membersNamed("Bac"), raft.HardState{Term: 1}) }

	for _, row := range []struct {
		rule string
		make func() *core
		list string
		want raft.ProbeResult
	}{
		{"uninitialized, with the same list", func() *core { return newUninitialized(t, "Bac") }, "Bac", raft.ProbeUninitialized},
		{"uninitialized, with another list", func() *core { return newUninitialized(t, "Bad") }, "Bac", raft.ProbeListDiffers},
		{"uninitialized, without a list", noList, "Bac", raft.ProbeNoInitial},
		{"a holder at term 0, asked by its bootstrapper", holder, "Bac", raft.ProbeUninitialized},
		{"a holder at term 0, asked by another", holder, "Aac", raft.ProbeInitialized},
		{"from the first term on, never again", voted, "Bac", raft.ProbeInitialized},
	} {
		t.Run(row.rule, func(t *testing.T) {
			reply := call(row.make(), row.list)
			assert.Equal(t, row.want, reply.Result)
			assert.Equal(t, probe, reply.ID)
			if row.want == raft.ProbeInitialized {
				assert.Equal(t, peer("B"), reply.Bootstrapper)
			}
		})
	}
}

// An uninitialized member never campaigns and never votes. A vote request does not even raise its term.
func TestBootstrap_UninitializedMemberTakesNoPartInElections(t *testing.T) {
	c := newUninitialized(t, "Bac")
	for _, body := range []raft.Body{
		raft.VoteRequest{Last: id(9, 9)}, raft.PreVoteRequest{Last: id(9, 9)}, raft.Heartbeat{Commit: 1}, raft.TimeoutNow{},
		raft.VoteReply{Granted: true}, raft.PreVoteReply{Granted: true}, raft.HeartbeatReply{}, raft.AppendReply{Match: 9},
	} {
		out := c.receive("c", 9, body)
		assert.Equal(t, []raft.TraceEventKind{raft.TraceRefused}, traced(out), "%T", body)
		assert.Zero(t, out.Write)
		assert.True(t, c.Status().Uninitialized)
	}
	c.after(100 * electionTimeout)
	assert.Equal(t, raft.Leadership{}, c.Leadership())
}

// An uninitialized member accepts an append that names its incarnation and begins with the bootstrap of the cluster.
func TestBootstrap_UninitializedMemberTakesAnAppend(t *testing.T) {
	c := begin(t, coreConfig(), raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 1})
	first := bootstrapEntry(membersNamed("bac"))
	out := c.receive("b", 2, raft.AppendRequest{Last: id(2, 1), Entries: append([]raft.Entry{first}, entries(2, 1)...)})
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: 2})}, out.Write.Then)
	assert.Equal(t, clusterOfTheTests, c.Status().Cluster)
	assert.Equal(t, raft.NewConfiguration(membersNamed("bac")), *out.Config)
}

// If the bootstrapper's disk was emptied during the bootstrap, members that hold entry 1 refuse the bootstrapper. If all of
// them are at term 0, nothing was ever committed.
func TestBootstrap_WipedBootstrapperIsToldTheCure(t *testing.T) {
	c, probe := bootstrapper(t)
	for _, other := range []raft.NodeID{"b", "c"} {
		c.answerProbe(other, raft.BootstrapProbeReply{ID: probe, Result: raft.ProbeInitialized, Bootstrapper: raft.Peer{ID: "a", Incarnation: 1}})
	}
	assert.Contains(t, c.Status().Missing, "nothing was ever committed: empty all stores and start again")
}

func TestBootstrap_OnlyTheFirstOfTheListBootstraps(t *testing.T) {
	c, _ := bootstrapper(t)
	members := membersNamed("abc")
	f := raft.Bootstrap{
		Cluster: clusterOfTheTests, Bootstrapper: peer("b"), Probe: raft.RPCID{StartCount: 9, Counter: 9},
		Configuration: raft.NewConfiguration(members),
	}
	out := c.receive("b", 0, raft.BootstrapRequest{Entry: raft.Entry{Index: 1, Kind: raft.EntryBootstrap, Data: f.Encode()}})
	assert.Equal(t, []raft.TraceEventKind{raft.TraceRefused}, traced(out))
	assert.True(t, c.Status().Uninitialized)
	out = c.step(raft.Received{Message: raft.Message{
		From: peer("b"), To: raft.Peer{ID: "a"}, Body: raft.BootstrapProbe{ID: f.Probe, List: listNamed("abc")},
	}})
	assert.Equal(t, []raft.TraceEventKind{raft.TraceRefused}, traced(out))
}

// The connections of the first members open before entry 1 names their incarnations. Their versions count nevertheless.
func TestBootstrap_RemembersWhoIsOfAnEarlierRelease(t *testing.T) {
	c, probe := bootstrapper(t)
	for _, incarnation := range []raft.Incarnation{1, peer("b").Incarnation} { // the disk was emptied between the two
		c.step(raft.PeerUp{ID: "b", Incarnation: incarnation, Protocol: raft.ProtocolMembership - 1})
	}
	c.answerProbe("b", uninitializedWith(probe, "abc"))
	c.answerProbe("c", uninitializedWith(probe, "abc"))
	probe = bootstrapOf(t, c).Probe
	c.persist()
	c.held("b", probe)
	c.held("c", probe)
	c.persist()
	says := func(body raft.Body) raft.Output {
		m := c.from("c", 1, body)
		m.Message.Cluster = c.Status().Cluster
		return c.step(m)
	}
	says(raft.VoteReply{Granted: true})
	require.Equal(t, raft.Leader, c.Leadership().Role)
	c.persist()
	says(raft.AppendReply{Match: c.Status().Last.Index})
	c.change(addLearner("d"))
	var earlier *raft.EarlierReleaseError
	c.assertRefused(raft.RefusedEarlierRelease, &earlier)
	require.NotNil(t, earlier)
	assert.Equal(t, []raft.NodeID{"b"}, earlier.IDs)
}

// uninitialized returns the result of Load for an uninitialized store that was formatted for member a.
func uninitialized(change func(*raft.Stored)) raft.Stored {
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 1}
	change(&stored)
	return stored
}

func TestInitialize_SaysWhatALoadWouldReturn(t *testing.T) {
	store := storage.NewMemory()
	identity := raft.Identity{Cluster: "test", ID: "a", Fresh: peer("a").Incarnation, Nonce: 1}
	stored, err := store.Load(t.Context(), identity)
	require.NoError(t, err)
	w, err := stored.Initialize("a", clusterOfTheTests, raft.NewConfiguration(membersNamed("cab")))
	require.NoError(t, err)
	require.NoError(t, store.Write(w))
	loaded, err := store.Reopen().Load(t.Context(), identity)
	require.NoError(t, err)
	assert.Equal(t, stored.Hard, loaded.Hard)
	assert.Equal(t, stored.Log, loaded.Log)
	assert.Equal(t, raft.NewConfiguration(membersNamed("abc")), loaded.Log.Bootstrap.Configuration)

	again := loaded
	w, err = again.Initialize("a", clusterOfTheTests, raft.NewConfiguration(membersNamed("abc")))
	require.NoError(t, err)
	assert.Zero(t, w, "nothing is written to an initialized store")
	assert.Equal(t, loaded, again)
}

// Every member writes the same entry 1, whatever the order of the members in the list.
func TestInitialize_WritesTheSameEntryEverywhere(t *testing.T) {
	a, b := uninitialized(func(*raft.Stored) {}), raft.Stored{Incarnation: peer("b").Incarnation, StartCount: 5}
	ofA, err := a.Initialize("a", clusterOfTheTests, raft.NewConfiguration(membersNamed("abc")))
	require.NoError(t, err)
	ofB, err := b.Initialize("b", clusterOfTheTests, raft.Configuration{Members: membersNamed("bca")})
	require.NoError(t, err)
	assert.Equal(t, ofA.Log.Entries[0].Record(), ofB.Log.Entries[0].Record())
}

// A crash may leave only the first part of the write: the term without the entry. A second call completes the write.
func TestInitialize_GoesOnAfterACrash(t *testing.T) {
	stored := uninitialized(func(s *raft.Stored) { s.Hard.Term = 1 })
	w, err := stored.Initialize("a", clusterOfTheTests, raft.NewConfiguration(membersNamed("abc")))
	require.NoError(t, err)
	assert.Len(t, w.Log.Entries, 1)
	assert.Equal(t, raft.HardState{Term: 1}, *w.Hard)
}

func TestInitialize_RefusesAStoreThatIsInitialized(t *testing.T) {
	for rule, change := range map[string]func(*raft.Stored){
		"it is of another cluster": func(s *raft.Stored) {
			_, err := s.Initialize("a", raft.ClusterID{9}, raft.NewConfiguration(membersNamed("abc")))
			require.NoError(t, err)
		},
		"it has voted":         func(s *raft.Stored) { s.Hard = raft.HardState{Term: 1, Vote: peer("b")} },
		"it was in a term":     func(s *raft.Stored) { s.Hard.Term = 2 },
		"its log begins later": func(s *raft.Stored) { s.Hard.Term = 1; s.Log.Last = id(7, 1) },
	} {
		stored := uninitialized(change)
		before := stored
		w, err := stored.Initialize("a", clusterOfTheTests, raft.NewConfiguration(membersNamed("abc")))
		assert.ErrorIs(t, err, raft.ErrInitialized, rule)
		assert.Zero(t, w, rule)
		assert.Equal(t, before, stored, rule)
	}
	marked := uninitialized(func(s *raft.Stored) { s.Mark = &raft.Mark{Kind: raft.MarkStaleImage} })
	_, err := marked.Initialize("a", clusterOfTheTests, raft.NewConfiguration(membersNamed("abc")))
	var stale *raft.StaleImageError
	assert.ErrorAs(t, err, &stale)
}

func TestInitialize_RefusesWhatIsNoCluster(t *testing.T) {
	for _, row := range []struct {
		rule    string
		id      raft.NodeID
		cluster raft.ClusterID
		members []raft.Member
		says    string
	}{
		{"the store has another incarnation", "b", clusterOfTheTests, membersNamed("abc"), "Identity.Fresh"},
		{"this member is not named", "d", clusterOfTheTests, membersNamed("abc"), `"d"`},
		{"an incarnation is missing", "a", clusterOfTheTests, listNamed("abc").Members, "incarnation"},
		{"the cluster has no id", "a", raft.ClusterID{}, membersNamed("abc"), "cluster id"},
		{"there are no members", "a", clusterOfTheTests, nil, "no voter"},
		{"a member is listed twice", "a", clusterOfTheTests, membersNamed("aab"), "twice"},
	} {
		stored := uninitialized(func(*raft.Stored) {})
		w, err := stored.Initialize(row.id, row.cluster, raft.Configuration{Members: row.members})
		var config *raft.ConfigError
		require.ErrorAs(t, err, &config, row.rule)
		assert.ErrorContains(t, err, row.says, row.rule)
		assert.Zero(t, w, row.rule)
		assert.Equal(t, uninitialized(func(*raft.Stored) {}), stored, row.rule)
	}
}

// A member that gets its list while it runs behaves as if it had been started with it.
func TestInitialGiven_BeginsTheBootstrap(t *testing.T) {
	c := begin(t, coreConfig(), raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3})
	require.Empty(t, c.out.Send)
	out := c.step(raft.InitialGiven{Initial: listNamed("cab")})
	require.NotNil(t, out.Config, "whom to dial")
	assert.Equal(t, listNamed("abc"), *out.Config)
	assert.Equal(t, listNamed("abc"), c.Status().Config)
	assert.Equal(t, bootstrapperSends(t), out.Send)

	out = c.step(raft.InitialGiven{Initial: listNamed("abd")})
	assert.Nil(t, out.Config, "the first list stays")
	assert.Empty(t, out.Send)
	assert.Equal(t, listNamed("abc"), c.Status().Config)

	probe := c.Status().Missing
	assert.Len(t, probe, 2)
	call := bootstrapperSends(t)[0].Body.(raft.BootstrapProbe)
	c.answerProbe("b", uninitializedWith(call.ID, "abc"))
	out = c.answerProbe("c", uninitializedWith(call.ID, "abc"))
	require.NotNil(t, out.Write.Log, "entry 1")
	out = c.step(raft.InitialGiven{Initial: listNamed("ab")})
	assert.Zero(t, out.Write, "a member that holds entry 1 has its list")
	assert.Equal(t, raft.NewConfiguration(membersNamed("abc")), c.Status().Config)
}

// bootstrapperSends returns what a member sends that is started with the list abc.
func bootstrapperSends(t *testing.T) []raft.Message {
	c, _ := bootstrapper(t)
	return c.out.Send
}

// Before, the member says that it has no list. Afterwards, it answers and takes part like the others.
func TestInitialGiven_OfAMemberThatIsProbed(t *testing.T) {
	c := begin(t, coreConfig(), raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 1})
	call := raft.Received{Message: raft.Message{
		From: peer("B"), To: raft.Peer{ID: "a"}, Body: raft.BootstrapProbe{ID: raft.RPCID{StartCount: 5, Counter: 1}, List: listNamed("Bac")},
	}}
	result := func(out raft.Output) raft.ProbeResult { return out.Send[0].Body.(raft.BootstrapProbeReply).Result }
	assert.Equal(t, raft.ProbeNoInitial, result(c.step(call)))
	assert.Empty(t, c.step(raft.InitialGiven{Initial: listNamed("Bac")}).Send, "only the first voter probes")
	assert.Equal(t, raft.ProbeUninitialized, result(c.step(call)))
	m := requestOf("Bac", raft.RPCID{StartCount: 5, Counter: 1}, clusterOfTheTests)
	assert.NotNil(t, c.step(raft.Received{Message: m}).Write.Log, "it takes entry 1")
}

// A loop gives only a list that CoreConfig.Validate accepts.
func TestInitialGiven_TheListWasChecked(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(*raft.CoreConfig)
		list   raft.Configuration
	}{
		{"it names this member", func(*raft.CoreConfig) {}, listNamed("bc")},
		{"it is not empty", func(*raft.CoreConfig) {}, raft.Configuration{}},
		{"it names no incarnations", func(*raft.CoreConfig) {}, raft.NewConfiguration(membersNamed("abc"))},
		{"there is an id for the cluster", func(c *raft.CoreConfig) { c.NewCluster = raft.ClusterID{} }, listNamed("abc")},
	} {
		cfg := coreConfig()
		row.change(&cfg)
		c := begin(t, cfg, raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3})
		assert.PanicsWithError(t, "raft: broken invariant: a list of initial members is checked before it is given", func() {
			c.step(raft.InitialGiven{Initial: row.list})
		}, row.rule)
	}
	c := replicating(t, 2, 1)
	assert.Nil(t, c.step(raft.InitialGiven{Initial: listNamed("bc")}).Config, "a member of a cluster needs none")
}
