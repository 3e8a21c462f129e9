package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// founder is "a", blank, the first of the list abc; it has called the roll.
func founder(t *testing.T) (*core, raft.RequestID) {
	c := blank(t, "abc")
	require.Len(t, c.out.Send, 2)
	return c, c.out.Send[0].Body.(raft.RollCall).ID
}

// answers the roll: a member that is blank and has no cluster yet.
func (c *core) answerRoll(sender raft.NodeID, r raft.RollReply) raft.Output {
	m := c.from(sender, 0, r)
	m.Message.Cluster = raft.ClusterID{}
	return c.step(m)
}

func blankWith(roll raft.RequestID, list string) raft.RollReply {
	return raft.RollReply{ID: roll, Verdict: raft.RollBlank, List: listNamed(list)}
}

// founded is a founder whose members have all answered; it has written entry 1.
func founded(t *testing.T) *core {
	c, roll := founder(t)
	c.answerRoll("b", blankWith(roll, "abc"))
	c.answerRoll("c", blankWith(roll, "abc"))
	require.NotNil(t, c.out.Write.Log)
	return c
}

// held says that entry 1 of this founder's roll is durable at the sender.
func (c *core) held(sender raft.NodeID, roll raft.RequestID) raft.Output {
	m := c.from(sender, 0, raft.FoundReply{ID: roll})
	m.Message.Cluster = c.Status().Cluster
	return c.step(m)
}

func TestFounding_FirstOfTheListCallsTheRoll(t *testing.T) {
	c, roll := founder(t)
	call := raft.RollCall{ID: roll, List: listNamed("abc")}
	envelope := func(to raft.NodeID) raft.Message {
		return raft.Message{From: peer("a"), To: raft.Peer{ID: to}, Body: call}
	}
	assert.Equal(t, []raft.Message{envelope("b"), envelope("c")}, c.out.Send, "the receiver's incarnation is open")
	assert.Equal(t, []string{"b has not answered the roll call", "c has not answered the roll call"}, c.Status().Missing)

	assert.Len(t, c.after(electionTimeout).Send, 2, "again, until they answer")
	other := blank(t, "abc")
	other.answerRoll("b", blankWith(roll, "abc"))
	assert.Len(t, other.after(electionTimeout).Send, 1, "who has answered is not asked again")

	cfg := coreConfig()
	cfg.ID, cfg.Initial = "b", listNamed("abc")
	_, out, err := raft.NewCore(cfg, raft.Stored{Incarnation: peer("b").Incarnation, Boot: 1}, raft.Now{})
	require.NoError(t, err)
	assert.Empty(t, out.Send, "the others wait")
}

// Only when every other member has answered "blank" with the same list is entry 1 written.
func TestFounding_EntryOneIsWrittenWhenAllAreBlank(t *testing.T) {
	c, roll := founder(t)
	c.answerRoll("b", blankWith(roll, "abc"))
	require.Nil(t, c.out.Write.Log)
	for why, r := range map[string]raft.RollReply{
		"c has not answered the roll call":                   blankWith(raft.RequestID{Boot: 2, Counter: 9}, "abc"),
		"c was started with another list of initial members": {ID: roll, Verdict: raft.RollDiffers, List: listNamed("acd")},
		"c was started without a list of initial members":    {ID: roll, Verdict: raft.RollNoInitial},
		"c already belongs to a cluster, founded by z (incarnation 000000000000007a), in term 0": {
			ID: roll, Verdict: raft.RollNotBlank, Founder: peer("z")},
	} {
		c.answerRoll("c", r)
		assert.Contains(t, c.Status().Missing, why)
		require.Nil(t, c.out.Write.Log)
		c.step(raft.PeerUp{ID: "c", Incarnation: 1}) // another life of c: its answer is forgotten
	}

	out := c.answerRoll("c", blankWith(roll, "abc"))
	require.NotNil(t, out.Write.Log)
	f, err := raft.DecodeFounding(out.Write.Log.Entries[0].Data)
	require.NoError(t, err)
	assert.Equal(t, raft.NewConfiguration(membersNamed("abc")), f.Configuration, "with everyone's incarnation")
	assert.Equal(t, peer("a"), f.Founder)
	assert.Equal(t, roll, f.Roll)
	assert.Equal(t, id(1, 0), c.Status().Last)
	assert.Empty(t, out.Send, "it leaves when it is durable here")
	assert.Len(t, c.persist().Send, 2)
}

// The founder campaigns, in term 1, only when all hold entry 1.
func TestFounding_FounderCampaignsWhenAllHold(t *testing.T) {
	c := founded(t)
	roll := foundingOf(t, c).Roll
	c.persist()
	c.held("b", roll)
	assert.Equal(t, raft.Leadership{}, c.Leadership())
	assert.Equal(t, []string{"c has not yet stored the founding entry"}, c.Status().Missing)
	c.held("c", raft.RequestID{Boot: 1, Counter: 1})
	assert.Equal(t, raft.Leadership{}, c.Leadership(), "an answer to another roll does not count")

	out := c.held("c", roll)
	assert.Equal(t, raft.Leadership{Term: 1, Role: raft.Candidate}, c.Leadership())
	assert.Equal(t, &raft.HardState{Term: 1, Vote: peer("a")}, out.Write.Hard)
	assert.Len(t, out.Write.Then, 2)
}

func foundingOf(t *testing.T, c *core) raft.Founding {
	f, err := raft.DecodeFounding(c.out.Write.Log.Entries[0].Data)
	require.NoError(t, err)
	return f
}

func TestFounding_SingleMemberFoundsAlone(t *testing.T) {
	c := blank(t, "a")
	assert.NotNil(t, c.out.Write.Log)
	c.persist()
	assert.Equal(t, raft.Leadership{Term: 1, Role: raft.Candidate}, c.Leadership())
	c.persist()
	assert.Equal(t, raft.Leadership{Term: 1, Leader: "a", Role: raft.Leader}, c.Leadership())
}

// While its durable term is 0 the founder may call the roll again; answers to the earlier one do not
// count any more.
func TestFounding_IsRedone(t *testing.T) {
	c := founded(t)
	first := foundingOf(t, c)
	c.persist()
	c.held("b", first.Roll)

	out := c.step(raft.PeerUp{ID: "c", Incarnation: 1})
	roll := bodies(out.Send, "c")[0].(raft.RollCall).ID
	assert.True(t, first.Roll.Less(roll), "c has come back with an empty disk: the roll is called again")
	c.held("c", first.Roll)
	assert.Equal(t, raft.Leadership{}, c.Leadership())

	c.answerRoll("b", blankWith(roll, "abc"))
	emptied := c.from("c", 0, blankWith(roll, "abc"))
	emptied.Message.From.Incarnation, emptied.Message.Cluster = 1, raft.ClusterID{}
	c.step(emptied)
	second := foundingOf(t, c)
	assert.Equal(t, raft.EntryID{}, c.out.Write.Log.After, "entry 1 is replaced")
	assert.NotEqual(t, first.Cluster, second.Cluster)
	m, _ := second.Configuration.Member("c")
	assert.EqualValues(t, 1, m.Incarnation)
}

func TestFounding_IsRedoneWhenAMemberDoesNotHoldItInTime(t *testing.T) {
	c := founded(t)
	c.persist()
	for range 9 {
		assert.IsType(t, raft.FoundRequest{}, c.after(electionTimeout).Send[0].Body)
	}
	c.after(electionTimeout)
	assert.IsType(t, raft.RollCall{}, c.out.Send[0].Body)

	roll := c.out.Send[0].Body.(raft.RollCall).ID // their disks may be slow: they get twice the time
	c.answerRoll("b", blankWith(roll, "abc"))
	c.answerRoll("c", blankWith(roll, "abc"))
	c.persist()
	for range 19 {
		assert.IsType(t, raft.FoundRequest{}, c.after(electionTimeout).Send[0].Body)
	}
	assert.IsType(t, raft.RollCall{}, c.after(electionTimeout).Send[0].Body)
}

// A founder that restarts at term 0 calls the roll again; one that restarts in a term does not.
func TestFounding_RestartedFounder(t *testing.T) {
	c := restart(t, membersNamed("abc"), raft.HardState{})
	assert.IsType(t, raft.RollCall{}, c.out.Send[0].Body)
	assert.Equal(t, listNamed("abc"), c.out.Send[0].Body.(raft.RollCall).List, "the list that entry 1 names")
	c = restart(t, membersNamed("abc"), raft.HardState{Term: 1})
	assert.Empty(t, c.out.Send)
	c.timeout()
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role)
}

// requestOf is the founding of b, "the first of the list".
func requestOf(ids string, roll raft.RequestID, cluster raft.ClusterID) raft.Message {
	members := membersNamed(ids)
	f := raft.Founding{
		Cluster: cluster, Founder: members[0].Peer(), Roll: roll, Configuration: raft.NewConfiguration(members),
	}
	e := raft.Entry{Index: 1, Kind: raft.EntryFounding, Data: f.Encode()}
	return raft.Message{From: members[0].Peer(), To: peer("a"), Cluster: cluster, Body: raft.FoundRequest{Entry: e}}
}

// Every member makes entry 1 durable before it acknowledges.
func TestFounding_MemberHoldsEntryOneThenSaysSo(t *testing.T) {
	c := blank(t, "Bac")
	roll := raft.RequestID{Boot: 1, Counter: 1}
	out := c.step(raft.Received{Message: requestOf("Bac", roll, clusterOfTheTests)})
	assert.Empty(t, out.Send)
	require.Len(t, out.Write.Then, 1)
	assert.Equal(t, raft.FoundReply{ID: roll}, out.Write.Then[0].Body)
	assert.Len(t, out.Write.Log.Entries, 1)
	assert.False(t, c.Status().Blank)

	c.persist()
	out = c.step(raft.Received{Message: requestOf("Bac", roll, clusterOfTheTests)})
	assert.Len(t, out.Send, 1, "the doubled one is acknowledged again")
	assert.Zero(t, out.Write)
	assert.EqualValues(t, 3600e9, c.out.WakeAt-c.now, "a non-founder at term 0 never campaigns")
}

// A holder at term 0 takes the same founder's founding again if its roll is newer, and no other.
func TestFounding_HolderTakesARedoneFounding(t *testing.T) {
	other := raft.ClusterID{9}
	for _, row := range []struct {
		rule string
		hard raft.HardState
		ids  string
		roll raft.RequestID
		want bool
	}{
		{"the same founder, a newer roll", raft.HardState{}, "Bac", raft.RequestID{Boot: 1, Counter: 2}, true},
		{"a later boot", raft.HardState{}, "Bac", raft.RequestID{Boot: 2, Counter: 1}, true},
		{"an older roll", raft.HardState{}, "Bac", raft.RequestID{Boot: 0, Counter: 9}, false},
		{"another founder", raft.HardState{}, "Aa", raft.RequestID{Boot: 9, Counter: 9}, false},
		{"after a term", raft.HardState{Term: 1}, "Bac", raft.RequestID{Boot: 1, Counter: 2}, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := restart(t, membersNamed("Bac"), row.hard)
			m := requestOf(row.ids, row.roll, other)
			out := c.step(raft.Received{Message: m})
			assert.Equal(t, row.want, out.Write.Log != nil)
			assert.Equal(t, !row.want, len(noted(out)) == 1 && noted(out)[0] == raft.NoteRefused)
		})
	}
}

func TestFounding_AnswersToTheRoll(t *testing.T) {
	roll := raft.RequestID{Boot: 5, Counter: 1}
	call := func(c *core, list string) raft.RollReply {
		first := listNamed(list).Members[0].ID
		out := c.step(raft.Received{Message: raft.Message{
			From: peer(first), To: raft.Peer{ID: "a"}, Body: raft.RollCall{ID: roll, List: listNamed(list)},
		}})
		require.Len(t, out.Send, 1)
		assert.Zero(t, out.Write, "the answer promises nothing")
		return out.Send[0].Body.(raft.RollReply)
	}
	noList := func() *core { return begin(t, coreConfig(), raft.Stored{Incarnation: peer("a").Incarnation, Boot: 1}) }
	holder := func() *core { return restart(t, membersNamed("Bac"), raft.HardState{}) }
	voted := func() *core { return restart(t, membersNamed("Bac"), raft.HardState{Term: 1}) }

	for _, row := range []struct {
		rule string
		make func() *core
		list string
		want raft.RollVerdict
	}{
		{"blank, with the same list", func() *core { return blank(t, "Bac") }, "Bac", raft.RollBlank},
		{"blank, with another list", func() *core { return blank(t, "Bad") }, "Bac", raft.RollDiffers},
		{"blank, without a list", noList, "Bac", raft.RollNoInitial},
		{"a holder at term 0, asked by its founder", holder, "Bac", raft.RollBlank},
		{"a holder at term 0, asked by another", holder, "Aac", raft.RollNotBlank},
		{"from the first term on, never again", voted, "Bac", raft.RollNotBlank},
	} {
		t.Run(row.rule, func(t *testing.T) {
			reply := call(row.make(), row.list)
			assert.Equal(t, row.want, reply.Verdict)
			assert.Equal(t, roll, reply.ID)
			if row.want == raft.RollNotBlank {
				assert.Equal(t, peer("B"), reply.Founder)
			}
		})
	}
}

// A blank member never campaigns and never votes; a vote request does not even raise its term.
func TestFounding_BlankMemberTakesNoPartInElections(t *testing.T) {
	c := blank(t, "Bac")
	for _, body := range []raft.Body{
		raft.VoteRequest{Last: id(9, 9)}, raft.PreVoteRequest{Last: id(9, 9)}, raft.Heartbeat{Commit: 1}, raft.TimeoutNow{},
		raft.VoteReply{Granted: true}, raft.PreVoteReply{Granted: true}, raft.HeartbeatReply{}, raft.AppendReply{Match: 9},
	} {
		out := c.receive("c", 9, body)
		assert.Equal(t, []raft.NoteKind{raft.NoteRefused}, noted(out), "%T", body)
		assert.Zero(t, out.Write)
		assert.True(t, c.Status().Blank)
	}
	c.after(100 * electionTimeout)
	assert.Equal(t, raft.Leadership{}, c.Leadership())
}

// It takes an append that names its incarnation and begins with the founding of the cluster.
func TestFounding_BlankMemberTakesAnAppend(t *testing.T) {
	c := begin(t, coreConfig(), raft.Stored{Incarnation: peer("a").Incarnation, Boot: 1})
	first := foundingEntry(membersNamed("bac"))
	out := c.receive("b", 2, raft.AppendRequest{Last: id(2, 1), Entries: append([]raft.Entry{first}, entries(2, 1)...)})
	assert.Equal(t, []raft.Message{c.to("b", raft.AppendReply{Match: 2})}, out.Write.Then)
	assert.Equal(t, clusterOfTheTests, c.Status().Cluster)
	assert.Equal(t, raft.NewConfiguration(membersNamed("bac")), *out.Config)
}

// A founder that was wiped during the founding is refused by whoever holds entry 1: if all others are
// at term 0, nothing was ever committed.
func TestFounding_WipedFounderIsToldTheCure(t *testing.T) {
	c, roll := founder(t)
	for _, other := range []raft.NodeID{"b", "c"} {
		c.answerRoll(other, raft.RollReply{ID: roll, Verdict: raft.RollNotBlank, Founder: raft.Peer{ID: "a", Incarnation: 1}})
	}
	assert.Contains(t, c.Status().Missing, "nothing was ever committed: empty all stores and start again")
}

func TestFounding_OnlyTheFirstOfTheListFounds(t *testing.T) {
	c, _ := founder(t)
	members := membersNamed("abc")
	f := raft.Founding{
		Cluster: clusterOfTheTests, Founder: peer("b"), Roll: raft.RequestID{Boot: 9, Counter: 9},
		Configuration: raft.NewConfiguration(members),
	}
	out := c.receive("b", 0, raft.FoundRequest{Entry: raft.Entry{Index: 1, Kind: raft.EntryFounding, Data: f.Encode()}})
	assert.Equal(t, []raft.NoteKind{raft.NoteRefused}, noted(out))
	assert.True(t, c.Status().Blank)
	out = c.step(raft.Received{Message: raft.Message{
		From: peer("b"), To: raft.Peer{ID: "a"}, Body: raft.RollCall{ID: f.Roll, List: listNamed("abc")},
	}})
	assert.Equal(t, []raft.NoteKind{raft.NoteRefused}, noted(out))
}
