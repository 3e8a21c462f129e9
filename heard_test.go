package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var heardOfBlue = raft.Heard{Cluster: raft.ClusterID{0xb1, 15: 0xe0}, From: "z"}

// probe delivers a probe of the first member of the list, and returns the answer.
func (c *core) probe(t *testing.T, list string, id raft.RPCID) raft.BootstrapProbeReply {
	members := listNamed(list)
	out := c.step(raft.Received{Message: raft.Message{
		From: peer(members.Members[0].ID), To: raft.Peer{ID: "a"}, Body: raft.BootstrapProbe{ID: id, List: members},
	}})
	require.Len(t, out.Send, 1)
	return out.Send[0].Body.(raft.BootstrapProbeReply)
}

// A bootstrapper that has heard of a cluster sends no probe any more, and counts no answer to its last one.
func TestHeard_EndsTheBootstrap(t *testing.T) {
	c, probe := bootstrapper(t)
	c.answerProbe("b", uninitializedWith(probe, "abc"))
	out := c.step(heardOfBlue)
	assert.Equal(t, []raft.TraceEventKind{raft.TraceHeard}, traced(out))
	assert.Equal(t, "told by z of cluster b10000000000000000000000000000e0: bootstrap none", out.Trace[0].String())
	assert.EqualValues(t, 3600e9, out.WakeAt-c.now, "it has nothing to wait for")

	out = c.answerProbe("c", uninitializedWith(probe, "abc"))
	assert.Zero(t, out.Write, "an answer that was under way")
	assert.Empty(t, c.after(100*electionTimeout).Send)
	assert.Empty(t, c.step(raft.PeerUp{ID: "b", Incarnation: peer("b").Incarnation}).Send)
	assert.Empty(t, c.step(raft.PeerUp{ID: "c", Incarnation: 1}).Send)
	assert.Equal(t, heardOfBlue, c.Status().Heard)
	assert.Equal(t, []string{"this member was told by z of cluster b10000000000000000000000000000e0: it bootstraps none, and waits to be " +
		"added; if that cluster no longer exists, restart this member, which forgets it"}, c.Status().Missing)
}

// The last news counts, and is traced only if it is another.
func TestHeard_AgainAndOfAnother(t *testing.T) {
	c, _ := bootstrapper(t)
	c.step(heardOfBlue)
	first := c.Status().HeardAt
	c.after(electionTimeout)
	assert.Empty(t, traced(c.step(heardOfBlue)))
	assert.Equal(t, first+int64(electionTimeout), c.Status().HeardAt, "when it was last told so")
	other := raft.Heard{From: "y"}
	assert.Len(t, traced(c.step(other)), 1)
	assert.Equal(t, other, c.Status().Heard)
	assert.Contains(t, c.Status().Missing[0], "told by y of a cluster:")
}

// A founder that has heard says so to every bootstrapper, for the rest of this start, whatever list it has or gets.
func TestHeard_IsTheAnswerToEachProbe(t *testing.T) {
	noList := func() *core {
		return begin(t, coreConfig(), raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 1})
	}
	for _, row := range []struct {
		rule string
		make func() *core
		list string
		then []raft.Event
	}{
		{"with the same list", func() *core { return newUninitialized(t, "Bac") }, "Bac", nil},
		{"with another list", func() *core { return newUninitialized(t, "Bad") }, "Bac", nil},
		{"without a list", noList, "Bac", nil},
		{"with a list that it gets later", noList, "Bac", []raft.Event{raft.InitialGiven{Initial: listNamed("Bac")}}},
		{"as a bootstrapper of another list", func() *core { return newUninitialized(t, "acd") }, "Bac", nil},
	} {
		c := row.make()
		c.step(heardOfBlue)
		for _, e := range row.then {
			assert.Empty(t, c.step(e).Send, row.rule)
		}
		for counter := range uint64(3) {
			reply := c.probe(t, row.list, raft.RPCID{StartCount: 5, Counter: counter})
			assert.Equal(t, raft.ProbeInitialized, reply.Result, row.rule)
			assert.Equal(t, heardOfBlue, raft.Heard{Cluster: reply.HeardOf, From: reply.HeardFrom}, row.rule)
			assert.Zero(t, reply.Bootstrapper, row.rule)
		}
	}
}

// A member that is given its list after it has heard takes the list, and does not probe.
func TestHeard_BeforeTheListIsGiven(t *testing.T) {
	c := begin(t, coreConfig(), raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3})
	c.step(heardOfBlue)
	out := c.step(raft.InitialGiven{Initial: listNamed("abc")})
	assert.NotNil(t, out.Config, "whom to dial")
	assert.Empty(t, out.Send)
	assert.Empty(t, c.after(10*electionTimeout).Send)

	c = begin(t, coreConfig(), raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3})
	assert.Empty(t, c.step(heardOfBlue, raft.InitialGiven{Initial: listNamed("a")}).Write, "nor does it bootstrap alone")
}

// A founder may have answered before it heard, so it takes entry 1. It then goes on like every holder.
func TestHeard_EntryOneIsStillTaken(t *testing.T) {
	c := newUninitialized(t, "Bac")
	probe := raft.RPCID{StartCount: 1, Counter: 1}
	assert.Equal(t, raft.ProbeUninitialized, c.probe(t, "Bac", probe).Result)
	c.step(heardOfBlue)
	out := c.step(raft.Received{Message: requestOf("Bac", probe, clusterOfTheTests)})
	require.NotNil(t, out.Write.Log)
	assert.Equal(t, raft.BootstrapReply{ID: probe}, out.Write.Then[0].Body)
	assert.Zero(t, c.Status().Heard)
	assert.Empty(t, c.Status().Missing)

	again := raft.RPCID{StartCount: 1, Counter: 2}
	reply := c.probe(t, "Bac", again)
	assert.Equal(t, raft.ProbeUninitialized, reply.Result, "a holder answers a redo")
	assert.Empty(t, reply.HeardFrom)
	reply = c.probe(t, "Aac", again)
	assert.Equal(t, raft.ProbeInitialized, reply.Result)
	assert.Equal(t, peer("B"), reply.Bootstrapper)
	assert.Empty(t, reply.HeardFrom, "it does not repeat what it has heard")
}

// A member that holds entry 1, even if its disk does not yet, goes on whatever it hears.
func TestHeard_IsLateForAMemberThatHoldsEntryOne(t *testing.T) {
	c := bootstrapped(t)
	probe := bootstrapOf(t, c).Probe
	c.step(heardOfBlue) // its write is under way
	assert.Zero(t, c.Status().Heard)
	assert.Len(t, c.persist().Send, 2)
	c.held("b", probe)
	c.held("c", probe)
	assert.Equal(t, raft.Candidate, c.Leadership().Role)

	c = bootstrapped(t)
	c.persist()
	out := c.step(raft.PeerUp{ID: "c", Incarnation: 1}) // it probes again
	probe = bodies(out.Send, "b")[0].(raft.BootstrapProbe).ID
	c.step(heardOfBlue)
	c.answerProbe("b", uninitializedWith(probe, "abc"))
	assert.NotNil(t, c.answerProbe("c", uninitializedWith(probe, "abc")).Write.Log, "the redo goes on")

	c = newUninitialized(t, "Bac")
	probe = raft.RPCID{StartCount: 1, Counter: 1}
	c.step(raft.Received{Message: requestOf("Bac", probe, clusterOfTheTests)})
	c.step(heardOfBlue)
	assert.Equal(t, raft.ProbeUninitialized, c.probe(t, "Bac", raft.RPCID{StartCount: 1, Counter: 2}).Result)

	c = restart(t, membersNamed("abc"), raft.HardState{Term: 1})
	assert.Empty(t, traced(c.step(heardOfBlue)))
	c.timeout()
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role)
}

// Nothing is stored: the next start bootstraps.
func TestHeard_IsForgottenByARestart(t *testing.T) {
	c, _ := bootstrapper(t)
	assert.Zero(t, c.step(heardOfBlue).Write)
	again := newUninitialized(t, "abc")
	assert.Len(t, again.out.Send, 2)
	assert.Zero(t, again.Status().Heard)
}

// A member that has heard of its cluster may become a member of it.
func TestHeard_ThenJoins(t *testing.T) {
	c := newUninitialized(t, "Bac")
	c.step(heardOfBlue)
	first := bootstrapEntry(membersNamed("bac"))
	c.receive("b", 2, raft.AppendRequest{Last: id(2, 1), Entries: append([]raft.Entry{first}, entries(2, 1)...)})
	assert.Equal(t, clusterOfTheTests, c.Status().Cluster)
	assert.Zero(t, c.Status().Heard)
	c.persist()
	reply := c.probe(t, "Bac", raft.RPCID{StartCount: 5, Counter: 1})
	assert.Equal(t, raft.ProbeInitialized, reply.Result)
	assert.Empty(t, reply.HeardFrom)
}

// The bootstrapper waits for a founder that has heard, and says why. A restarted founder answers the same probe anew.
func TestHeard_OfAFounderThatIsProbed(t *testing.T) {
	c, probe := bootstrapper(t)
	heard := raft.BootstrapProbeReply{ID: probe, Result: raft.ProbeInitialized, HeardOf: heardOfBlue.Cluster, HeardFrom: "z"}
	c.answerProbe("b", heard)
	c.answerProbe("c", heard)
	assert.Equal(t, []string{
		"b was told by z of cluster b10000000000000000000000000000e0, and takes part in no bootstrap until it is restarted: restart it if that cluster no longer exists",
		"c was told by z of cluster b10000000000000000000000000000e0, and takes part in no bootstrap until it is restarted: restart it if that cluster no longer exists",
	}, c.Status().Missing, "nobody says that nothing was ever committed")
	assert.Len(t, c.after(electionTimeout).Send, 2)
	assert.Zero(t, c.Status().Heard, "it has not heard of it from a member of that cluster")

	c.answerProbe("b", uninitializedWith(probe, "abc"))
	assert.NotNil(t, c.answerProbe("c", uninitializedWith(probe, "abc")).Write.Log)
}

func TestHeard_NamesWhoTold(t *testing.T) {
	c, _ := bootstrapper(t)
	assert.PanicsWithError(t, "raft: broken invariant: the member that told it is named", func() { c.step(raft.Heard{}) })
}

// The members' lists may leave addresses open. Entry 1 has those of the bootstrapper.
func TestBootstrap_ListsWithOpenAddresses(t *testing.T) {
	open := listNamed("Bac")
	for i := range open.Members {
		open.Members[i].Address = ""
	}
	cfg := coreConfig()
	cfg.Initial = open
	c := begin(t, cfg, raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 1})
	probe := raft.RPCID{StartCount: 1, Counter: 1}
	reply := c.probe(t, "Bac", probe)
	assert.Equal(t, raft.ProbeUninitialized, reply.Result)
	assert.Equal(t, open, reply.List)
	c.step(raft.Received{Message: requestOf("Bac", probe, clusterOfTheTests)})
	assert.Equal(t, raft.NewConfiguration(membersNamed("Bac")), c.Status().Config)

	b, probe := bootstrapper(t)
	open = listNamed("abc")
	open.Members[1].Address, open.Members[2].Address = "", ""
	b.answerProbe("b", raft.BootstrapProbeReply{ID: probe, Result: raft.ProbeUninitialized, List: open})
	b.answerProbe("c", raft.BootstrapProbeReply{ID: probe, Result: raft.ProbeUninitialized, List: open})
	assert.Equal(t, raft.NewConfiguration(membersNamed("abc")), bootstrapOf(t, b).Configuration)
}
