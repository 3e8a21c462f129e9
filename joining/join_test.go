package joining_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
)

// in returns the state of a member that knows the leader n8 and a committed configuration with the others.
func in(others ...raft.Member) joining.State {
	r := serving("n8", others...)
	return joining.State{Cluster: r.Cluster, Term: r.Term, Leader: "n8", Index: r.Index, Committed: true,
		Config: raft.Configuration{Members: r.Members, Level: 1}}
}

func entry(id raft.NodeID) raft.Member {
	return raft.Member{ID: id, Incarnation: peer(id).Incarnation, Address: "h" + string(id[1]) + ":1", Meta: "meta " + string(id)}
}

func TestSeeker_WhenItAsksToJoin(t *testing.T) {
	learner, twin := entry("n5"), entry("n5")
	learner.Kind = raft.Learner
	twin.Incarnation++
	waits := learner
	waits.Next = raft.NextVoter
	pending := serving("n8")
	pending.Committed = false
	elsewhere, lost := learner, waits
	elsewhere.Address, lost.Address = "h6:1", "h6:1"
	for _, row := range []struct {
		rule string
		r    raft.WhoReply
		asks bool
	}{
		{"the leader does not name it", serving("n8"), true},
		{"… in a configuration that may be rolled back", pending, true}, // the leader says what to wait for
		{"it votes", serving("n8", entry("n5")), false},
		{"somebody has made it a learner", serving("n8", learner), false},
		{"it is about to vote", serving("n8", waits, twin), false},
		{"it is a learner beside another store of its id", serving("n8", learner, twin), true},
		{"another store has its id", serving("n8", twin), true},
		{"it has moved before it got the log", serving("n8", lost), true},
		{"… and the change was given up", serving("n8", elsewhere), true},
		{"a follower answers", serving("n7"), false},
	} {
		w := newWorld(t, of("n5"), "s:1")
		w.answers["s:1"] = row.r
		w.step()
		assert.Equal(t, row.asks, len(w.petitions()) > 0, row.rule)
	}
}

func TestSeeker_ThePetition(t *testing.T) {
	cfg := of("n5")
	cfg.Learner = true
	w := newWorld(t, cfg, "h8:1")
	w.answers["h8:1"] = serving("n8")
	w.step()
	require.Len(t, w.asked, 2)
	q := w.asked[1]
	assert.Equal(t, raft.Who{ClusterName: "c", From: peer("n5"), Address: "h5:1", Petition: &raft.Petition{Meta: "meta n5", Learner: true}}, q.Who)
	assert.Equal(t, joining.PetitionMax, q.Timeout)
	assert.Nil(t, w.asked[0].Who.Petition, "who leads is asked first")
	w.run(5 * time.Second)
	assert.InDelta(t, 6, len(w.petitions()), 4, "it is repeated with each round")

	w.st = in(entry("n5"))
	w.step()
	asked := len(w.asked)
	w.run(time.Minute)
	assert.Len(t, w.asked, asked, "a member with a leader asks nobody")
	assert.Empty(t, w.missing())
}

func TestSeeker_OnePetitionAtATime(t *testing.T) {
	w := newWorld(t, of("n5"), "h8:1")
	s := w.s
	s.Next(0, w.st)
	s.Resolved(0, w.seeds, nil)
	q := s.Next(0, w.st).Ask[0]
	s.Answered(q, serving("n8"), nil)
	a := s.Next(0, w.st)
	require.Len(t, a.Ask, 1)
	petition := a.Ask[0]
	for now := raft.Time(0); now < 10*second; now += second / 10 {
		a := s.Next(now, w.st)
		if a.Resolve {
			s.Resolved(now, w.seeds, nil)
		}
		for _, q := range a.Ask {
			assert.Nil(t, q.Who.Petition)
			s.Answered(q, serving("n8"), nil)
		}
	}
	s.Answered(petition, raft.WhoReply{}, errors.New("broken"))
	assert.Contains(t, strings.Join(s.Missing(w.st), "\n"), "the petition to h8:1 failed: broken")
	a = s.Next(10*second, w.st)
	require.Len(t, a.Ask, 1)
	assert.NotNil(t, a.Ask[0].Who.Petition)
}

func TestSeeker_AChangeThatWasGivenUpHasLeftALearner(t *testing.T) {
	w := newWorld(t, of("n5"), "h8:1")
	w.answers["h8:1"] = serving("n8")
	w.step()
	learner := entry("n5")
	learner.Kind = raft.Learner
	w.answers["h8:1"], w.st = serving("n8", learner), in(learner)
	asked := len(w.petitions())
	w.run(time.Minute)
	assert.Greater(t, len(w.petitions()), asked, "it has asked for a vote in this run")

	w.answers["h8:1"], w.st = serving("n8", entry("n5")), in(entry("n5"))
	w.run(time.Minute)
	w.answers["h8:1"], w.st = serving("n8", learner), in(learner)
	asked = len(w.petitions())
	w.run(time.Minute)
	assert.Len(t, w.petitions(), asked, "it has voted since, so it was demoted on purpose")
}

func TestSeeker_WhichClusterItJoins(t *testing.T) {
	other := serving("n7")
	other.Leader, other.Cluster = "n7", raft.ClusterID{2}
	w := newWorld(t, of("n5"), "h7:1", "h8:1")
	w.answers["h7:1"], w.answers["h8:1"] = other, serving("n8")
	w.st.Term, w.st.Cluster = 2, raft.ClusterID{1}
	w.step()
	assert.Equal(t, []string{"h8:1"}, w.petitions(), "that of its store")
	w = newWorld(t, of("n5"), "h7:1")
	w.answers["h7:1"] = other
	w.st.Term, w.st.Cluster = 2, raft.ClusterID{1}
	w.step()
	assert.Empty(t, w.petitions())
	assert.Contains(t, w.missing(), "the store of this member is of cluster 01")

	w = newWorld(t, of("n5"), "h7:1", "h8:1")
	w.answers["h7:1"], w.answers["h8:1"] = other, serving("n8")
	w.step()
	assert.NotContains(t, w.petitions(), "h8:1", "two clusters have its name")
	assert.Contains(t, w.missing(), "two clusters answer")

	earlier := serving("n7")
	earlier.Leader, earlier.Term = "n7", 2
	w = newWorld(t, of("n5"), "h7:1", "h8:1")
	w.answers["h8:1"], w.answers["h7:1"] = serving("n8"), earlier
	w.run(time.Second)
	assert.Equal(t, "h8:1", w.petitions()[len(w.petitions())-1], "the leader of the later term")
}

func TestSeeker_AMemberThatLosesItsLeaderLooksForItsCluster(t *testing.T) {
	w := newWorld(t, of("n5"), "h7:1")
	w.answers["h7:1"] = serving("n7", entry("n5"))
	w.st = in(entry("n5"))
	w.run(time.Minute)
	assert.Empty(t, w.asked)
	w.st.Leader = ""
	w.run(1900 * time.Millisecond)
	assert.Empty(t, w.asked, "an election takes a while")
	w.run(time.Second)
	assert.NotEmpty(t, w.asked)
	assert.Equal(t, []string{"h7:1"}, w.s.Addresses("n7"))
	assert.Empty(t, w.petitions())
	w.st.Leader = "n8"
	w.step()
	assert.Empty(t, w.s.Addresses("n7"), "it may have moved since")
	w.run(time.Minute)
	w.st.Leader, w.asked = "", nil
	w.run(1900 * time.Millisecond)
	assert.Empty(t, w.asked, "nor does a second election bring a question at once")

	w = newWorld(t, of("n5"), "h7:1")
	w.answers["h7:1"], w.st = serving("n7", entry("n5")), in(entry("n5"))
	w.st.Leader = ""
	w.step()
	assert.NotEmpty(t, w.asked, "at its start it looks at once")
}

func TestSeeker_CorrectsItsEntryOnce(t *testing.T) {
	moved := entry("n5")
	moved.Address = "old:1"
	w := newWorld(t, of("n5"))
	w.st = in(moved)
	w.step()
	address := "h5:1"
	assert.Equal(t, &raft.Change{Update: []raft.Update{{Peer: peer("n5"), Address: &address}}}, w.change)
	assert.Equal(t, raft.Index(7), w.index)
	w.change = nil
	w.run(time.Minute)
	assert.Nil(t, w.change, "while it is asked for")
	w.s.Changed(w.now, nil)
	w.st = in(entry("n5"))
	w.step()
	w.st = in(moved)
	w.run(time.Minute)
	assert.Nil(t, w.change, "somebody has changed it since")
}

func TestSeeker_AnEntryThatWasRightBeforeTheAnswerCame(t *testing.T) {
	moved := entry("n5")
	moved.Address = "old:1"
	w := newWorld(t, of("n5"))
	w.st = in(moved)
	w.step()
	require.NotNil(t, w.change)
	w.change, w.st = nil, in(entry("n5"))
	w.step()
	w.st = in(moved)
	w.step()
	w.s.Changed(w.now, errors.New("no answer"))
	w.run(time.Minute)
	assert.Nil(t, w.change, "somebody has changed it since")
}

func TestSeeker_AMemberWithoutSeedsOnlyCorrectsItsEntry(t *testing.T) {
	moved := entry("n5")
	moved.Address, moved.Meta = "old:1", "kept"
	cfg := of("n5")
	cfg.EntryOnly, cfg.Meta = true, ""
	w := newWorld(t, cfg, "h7:1")
	w.st = joining.State{}
	w.run(time.Minute)
	assert.Empty(t, w.asked)
	assert.Empty(t, w.s.Missing(w.st))
	w.st = in(moved)
	w.step()
	address := "h5:1"
	assert.Equal(t, &raft.Change{Update: []raft.Update{{Peer: peer("n5"), Address: &address}}}, w.change)
	assert.Empty(t, w.asked)
}

func TestSeeker_WhenItCorrectsNothing(t *testing.T) {
	moved := entry("n5")
	moved.Address = "old:1"
	for _, row := range []struct {
		rule   string
		change func(*joining.State)
	}{
		{"no leader", func(st *joining.State) { st.Leader = "" }},
		{"not committed", func(st *joining.State) { st.Committed = false }},
		{"a change runs", func(st *joining.State) { st.Config.Members[0].Next = raft.NextLearner }},
		{"the voters change", func(st *joining.State) { st.Config.Outgoing = []raft.Peer{peer("n5")} }},
		{"it is not named", func(st *joining.State) { *st = in() }},
		{"it is right", func(st *joining.State) { *st = in(entry("n5")) }},
		{"the list of initial members", func(st *joining.State) { st.Index = 0 }},
	} {
		w := newWorld(t, of("n5"))
		w.st = in(moved)
		row.change(&w.st)
		w.run(time.Second)
		assert.Nil(t, w.change, row.rule)
	}
}

func TestSeeker_YieldsToALaterChange(t *testing.T) {
	moved := entry("n5")
	moved.Address, moved.Meta = "old:1", "old"
	w := newWorld(t, of("n5"))
	w.st = in(moved)
	w.step()
	w.s.Changed(w.now, errors.New("no quorum"))
	assert.Contains(t, w.missing(), "the entry of this member is not right yet: no quorum")
	later := moved
	later.Address = "gateway:1"
	w.st, w.change = in(later), nil
	w.run(time.Minute)
	require.NotNil(t, w.change)
	assert.Nil(t, w.change.Update[0].Address, "somebody has given it an address since it first asked")
	assert.Equal(t, "meta n5", *w.change.Update[0].Meta)

	later = moved
	later.Meta = "by hand"
	w = newWorld(t, of("n5"))
	w.st = in(moved)
	w.step()
	w.s.Changed(w.now, errors.New("no quorum"))
	w.st, w.change = in(later), nil
	w.run(time.Minute)
	require.NotNil(t, w.change)
	assert.Equal(t, "h5:1", *w.change.Update[0].Address)
	assert.Nil(t, w.change.Update[0].Meta, "somebody has given it a Meta since it first asked")

	w = newWorld(t, of("n5"))
	w.st = in(moved)
	w.step()
	w.s.Changed(w.now, &raft.ConfigChangedError{})
	w.st, w.change = in(later), nil
	w.run(time.Second)
	require.NotNil(t, w.change)
	assert.Equal(t, "h5:1", *w.change.Update[0].Address, "the configuration had changed before it first asked")
}

func TestSeeker_PausesBetweenRequests(t *testing.T) {
	moved := entry("n5")
	moved.Address = "old:1"
	w := newWorld(t, of("n5"))
	w.st = in(moved)
	requests := 0
	for range 1200 {
		w.step()
		if w.now += second / 10; w.change != nil {
			requests++
			w.s.Changed(w.now, errors.New("no quorum"))
			w.change = nil
		}
	}
	assert.InDelta(t, 8, requests, 3, "in two minutes")
	requests = 0
	for range 100 {
		w.step()
		if w.now += second / 10; w.change != nil {
			requests++
			w.s.Changed(w.now, nil)
			w.change = nil
		}
	}
	assert.LessOrEqual(t, requests, 11, "also if the entry does not become right in ten seconds")
}

// Two members have swapped their addresses. No change of one alone is possible.
func TestSeeker_AnAddressOfAnotherMember(t *testing.T) {
	mine, theirs := entry("n5"), entry("n6")
	mine.Address, theirs.Address = theirs.Address, mine.Address
	w := newWorld(t, of("n5"), "s:1")
	r := serving("n6")
	w.answers["s:1"], w.st = r, in(mine, theirs)
	w.run(time.Second)
	assert.Empty(t, w.asked)
	require.Len(t, w.change.Update, 1)
	w.change = nil
	w.s.Changed(w.now, &raft.AddressInUseError{ID: "n5", Address: "h5:1", By: "n6"})
	w.run(5 * time.Second)
	require.NotNil(t, w.change)
	require.Len(t, w.change.Update, 2, "the other one has said where it is now")
	assert.Equal(t, peer("n6"), w.change.Update[1].Peer)
	assert.Equal(t, "h6:1", *w.change.Update[1].Address)
	assert.NoError(t, w.change.ValidateFor(raft.ConfigRun{Index: 7, Config: w.st.Config}))
	assert.Empty(t, w.petitions())
	assert.Contains(t, w.missing(), "n5 cannot be at h5:1: that is the address of n6")
	w.st = in(entry("n5"), entry("n6"))
	w.s.Changed(w.now, nil)
	w.step()
	assert.Empty(t, w.missing())

	w = newWorld(t, of("n5"), "s:1")
	r.From.Incarnation++
	w.answers["s:1"], w.st = r, in(mine, theirs)
	w.step()
	w.s.Changed(w.now, &raft.AddressInUseError{ID: "n5", Address: "h5:1", By: "n6"})
	w.change = nil
	w.run(5 * time.Second)
	require.NotNil(t, w.change)
	assert.Len(t, w.change.Update, 1, "another store of n6 is not the one whose entry has the address")
}

func TestConfig_Validate(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(*joining.Config)
		says   string
	}{
		{"a founder twice", func(c *joining.Config) { c.Founders = []raft.NodeID{"n1", "n1"} }, `Founders: "n1" is listed twice`},
		{"an empty founder", func(c *joining.Config) { c.Founders = []raft.NodeID{""} }, "Founders: member id"},
		{"too many founders", func(c *joining.Config) { c.Founders = make([]raft.NodeID, 256) }, "Founders: 256 ids"},
		{"no address", func(c *joining.Config) { c.Address = "" }, "Advertise: missing"},
		{"a wildcard", func(c *joining.Config) { c.Address = "0.0.0.0:7000" }, "Advertise: \"0.0.0.0:7000\" names no machine"},
		{"a wildcard in its long form", func(c *joining.Config) { c.Address = "[0:0:0:0:0:0:0:0]:7000" }, "names no machine"},
		{"a wildcard as an IPv4 address in IPv6", func(c *joining.Config) { c.Address = "[::ffff:0.0.0.0]:7000" }, "names no machine"},
		{"a wildcard with a zone", func(c *joining.Config) { c.Address = "[::%eth0]:7000" }, "names no machine"},
		{"a control character", func(c *joining.Config) { c.Address = "h\x07:7000" }, `"h\a:7000" has other characters`},
		{"no UTF-8", func(c *joining.Config) { c.Address = "h\xff:7000" }, `"h\xff:7000" has other characters`},
		{"a Meta that is no text", func(c *joining.Config) { c.Meta = "\xff" }, `Meta: "\xff" is no UTF-8`},
		{"a long Meta", func(c *joining.Config) { c.Meta = strings.Repeat("m", 1025) }, "Meta: 1025 bytes"},
		{"a founder that is to be a learner", func(c *joining.Config) { c.Learner = true }, "Learner: n1 is a founder"},
	} {
		c := of("n1", "n1", "n2")
		row.change(&c)
		assert.ErrorContains(t, c.Validate(), row.says, row.rule)
		assert.ErrorAs(t, c.Validate(), new(*raft.ConfigError), row.rule)
	}
	ok := of("n1", "n1", "n2")
	ok.Address = "[fe80::1]:7000"
	assert.NoError(t, ok.Validate())
}
