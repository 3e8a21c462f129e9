package member

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/internal/testca"
	"github.com/coxswain/raft/joining"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// patience is the longest time that these tests wait for something that takes a few seconds at most.
const patience = time.Minute

// found is a cluster whose members have one configuration, but for their id and where they are.
type found struct {
	t       *testing.T
	seeds   []string
	cfg     []Config
	members []*Member

	tries, writes uint64 // so far; writes were acknowledged
}

// newFound returns the settings of members n1, n2 and so on, of which the first three are the founders and the seeds.
func newFound(t *testing.T, n int) *found {
	t.Helper()
	leaks.Check(t)
	f := &found{t: t, members: make([]*Member, n)}
	for i := range n {
		f.cfg = append(f.cfg, Config{ID: raft.NodeID("n" + string(rune('1'+i))), Cluster: "test", Dir: t.TempDir(), Listen: freeAddress(t),
			Founders: []raft.NodeID{"n1", "n2", "n3"}, Node: node.Config{ElectionTimeout: 300 * time.Millisecond}})
	}
	f.seed(0, 1, 2)
	t.Cleanup(func() {
		for i := range f.members {
			f.end(i)
		}
	})
	return f
}

// seed makes the addresses of these members the seeds of all.
func (f *found) seed(of ...int) {
	f.seeds = nil
	for _, i := range of {
		f.seeds = append(f.seeds, f.cfg[i].Listen)
	}
	for i := range f.cfg {
		f.cfg[i].Seeds, f.cfg[i].Meta = Addresses(f.seeds...), "http://"+f.cfg[i].Listen
	}
}

func (f *found) start(which ...int) {
	f.t.Helper()
	for _, i := range which {
		m, err := Start(f.t.Context(), f.cfg[i], &counter{})
		require.NoError(f.t, err)
		f.members[i] = m
	}
}

func (f *found) end(i int) {
	if m := f.members[i]; m != nil {
		f.members[i] = nil
		if err := m.Close(); !errors.Is(err, raft.ErrRemoved) {
			assert.NoError(f.t, err)
		}
	}
}

// await waits until the members are voters (or, with learners, of another kind) of a configuration that the cluster has committed, and ready.
func (f *found) await(what string, which []int, holds func(m *Member) bool) {
	f.t.Helper()
	for _, i := range which {
		if !assert.Eventually(f.t, func() bool { return holds(f.members[i]) }, patience, 5*time.Millisecond, "%s: %v", f.cfg[i].ID, what) {
			for _, m := range f.members {
				if m != nil {
					s := m.Status()
					f.t.Logf("%s: missing: %s\nleader: %s\nmembers: %+v", s.ID, strings.Join(s.Missing, "\n"), s.LeaderReason, m.Members())
				}
			}
			f.t.FailNow()
		}
	}
}

// awaitEnd waits until the member has ended by itself.
func (f *found) awaitEnd(i int) {
	f.t.Helper()
	select {
	case <-f.members[i].Done():
	case <-time.After(patience):
		f.t.Fatal(f.cfg[i].ID, "still runs")
	}
}

// votes reports whether the member is a voter of the committed configuration, with a leader.
func votes(m *Member) bool {
	s, of := m.Status(), m.Members()
	self, named := of.Peer(raft.Peer{ID: s.ID, Incarnation: s.Incarnation})
	return named && self.Kind == raft.Voter && of.Committed && !of.Joint() && !of.Changing() && s.Leader != ""
}

// write proposes until a command is acknowledged, and checks that the state has all writes, and no others.
func (f *found) write(i int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for {
		f.tries++
		result, err := f.members[i].Propose(ctx, []byte(increment))
		if err == nil {
			f.writes++
			total := binary.BigEndian.Uint64(result.Data)
			assert.GreaterOrEqual(f.t, total, f.writes, "every write that was acknowledged is there")
			assert.LessOrEqual(f.t, total, f.tries, "a try whose outcome is unknown may count")
			return
		}
		require.NoError(f.t, ctx.Err(), "%v", err)
	}
}

// increment is a command that nothing else in a store looks like.
const increment = "one more, please"

// holds waits until the members have applied all writes.
func (f *found) holds(which ...int) {
	for _, i := range which {
		_, err := f.members[i].ReadIndex(f.t.Context())
		require.NoError(f.t, err)
	}
}

// empty gives the member a disk without a store.
func (f *found) empty(i int) { f.cfg[i].Dir = f.t.TempDir() }

func (f *found) move(which ...int) {
	for _, i := range which {
		f.cfg[i].Listen = freeAddress(f.t)
	}
}

var all = []int{0, 1, 2}

func TestFounding_ThreeEmptyMachines(t *testing.T) {
	f := newFound(t, 3)
	f.start(2, 1)
	assert.NotContains(t, f.members[1].Status().LeaderReason, "no list of initial members")
	require.Eventually(t, func() bool {
		return strings.Contains(strings.Join(f.members[1].Status().Missing, "\n"), "founder n1 has not been found: looked for at "+f.cfg[0].Listen)
	}, patience, 5*time.Millisecond)
	began := time.Now()
	f.start(0)
	f.write(0)
	t.Logf("the first write came %v after the last start", time.Since(began).Round(time.Millisecond))
	f.await("votes", all, votes)
	members := f.members[1].Members()
	for i, m := range members.Configuration.Members {
		assert.Equal(t, f.cfg[i].Listen, m.Address, "each founder's own word")
		assert.Equal(t, "http://"+f.cfg[i].Listen, m.Meta)
	}
	f.await("misses nothing", all, func(m *Member) bool { return len(m.Status().Missing) == 0 })

	// The same configuration starts it again.
	for _, i := range all {
		f.end(i)
	}
	f.start(all...)
	f.write(2)
}

func TestFounding_OneMachine(t *testing.T) {
	f := newFound(t, 3)
	f.cfg[0].Founders, f.cfg[0].Seeds = []raft.NodeID{"n1"}, Seeds{}
	f.start(0)
	f.write(0)
}

func TestFounding_AFurtherMemberJoins(t *testing.T) {
	f := newFound(t, 5)
	f.cfg[4].Learner = true
	f.start(3, 4) // they wait for a cluster
	f.start(all...)
	f.write(0)
	f.await("votes", []int{3}, votes)
	f.await("learns", []int{4}, func(m *Member) bool {
		self, _ := m.Members().Peer(raft.Peer{ID: "n5", Incarnation: m.Status().Incarnation})
		return self.Kind == raft.Learner && m.Members().Committed && m.Status().Leader != ""
	})
	f.await("knows n4", all, func(m *Member) bool {
		member, _ := m.Members().Member("n4")
		return member.Address == f.cfg[3].Listen && member.Meta == "http://"+f.cfg[3].Listen
	})
	f.write(3)
}

func TestFounding_AnEmptiedDiskIsReplaced(t *testing.T) {
	f := newFound(t, 3)
	f.start(all...)
	f.write(0)
	f.await("votes", all, votes)
	for _, i := range []int{0, 2} { // the founder with the lowest id, too
		cluster := f.members[1].Status().Cluster
		f.end(i)
		f.empty(i)
		began := time.Now()
		f.start(i)
		require.NoError(t, f.members[i].Ready(t.Context()), "it waits until it has joined")
		f.await("votes again", []int{i}, votes)
		t.Logf("%s counts again %v after its start", f.cfg[i].ID, time.Since(began).Round(time.Millisecond))
		assert.Equal(t, cluster, f.members[i].Status().Cluster)
		assert.Len(t, f.members[i].Members().Configuration.Members, 3)
	}
	f.write(1)
}

// A pod comes back elsewhere, without its disk. Nobody answers at its old address.
func TestFounding_AnEmptiedDiskAtAnotherAddress(t *testing.T) {
	f := newFound(t, 3)
	f.start(all...)
	f.write(0)
	f.await("votes", all, votes)
	f.end(2)
	f.empty(2)
	f.move(2)
	began := time.Now()
	f.start(2)
	f.await("votes again", []int{2}, votes)
	took := time.Since(began)
	t.Logf("n3 counts again %v after its start", took.Round(time.Millisecond))
	assert.Greater(t, took, time.Second, "its addresses have to refuse for a while")
	m, _ := f.members[2].Members().Member("n3")
	assert.Equal(t, f.cfg[2].Listen, m.Address)
}

func TestFounding_AllAddressesChangeAtOnce(t *testing.T) {
	f := newFound(t, 3)
	f.start(all...)
	f.write(0)
	f.await("votes", all, votes)
	for _, i := range all {
		f.end(i)
	}
	f.move(all...)
	f.seed(all...)
	f.start(0, 1)
	began := time.Now()
	f.start(2)
	f.write(0)
	t.Logf("the first write came %v after the last start", time.Since(began).Round(time.Millisecond))
	f.await("has all new addresses", all, func(m *Member) bool {
		right := 0
		for i, of := range m.Members().Configuration.Members {
			if of.Address == f.cfg[i].Listen && of.Meta == "http://"+f.cfg[i].Listen {
				right++
			}
		}
		return right == 3
	})
}

// Two members have swapped their addresses: no change of one alone is possible.
func TestFounding_TwoMembersSwapTheirAddresses(t *testing.T) {
	f := newFound(t, 3)
	f.start(all...)
	f.write(0)
	f.await("votes", all, votes)
	f.end(1)
	f.end(2)
	f.cfg[1].Listen, f.cfg[2].Listen = f.cfg[2].Listen, f.cfg[1].Listen
	f.start(1, 2)
	f.await("has swapped the addresses", all, func(m *Member) bool {
		of := m.Members().Configuration.Members
		return of[1].Address == f.cfg[1].Listen && of[2].Address == f.cfg[2].Listen
	})
	f.write(1)
}

func TestFounding_ARemovedMemberStaysOutUntilItRejoins(t *testing.T) {
	f := newFound(t, 4)
	f.start(all...)
	f.write(0)
	f.start(3)
	f.await("votes", []int{3}, votes)
	f.end(3)
	require.Eventually(t, func() bool {
		_, err := f.members[0].node.RemoveMember(t.Context(), "n4", node.ChangeOptions{})
		return err == nil
	}, patience, 50*time.Millisecond)
	// Its own log does not have the removal: it is told, at each start.
	var removed *raft.RemovedError
	for range 2 {
		f.start(3)
		f.awaitEnd(3)
		require.ErrorAs(t, f.members[3].Err(), &removed)
		f.end(3)
	}
	f.cfg[3].Rejoin = removed.Index + 1
	f.start(3)
	f.awaitEnd(3)
	require.ErrorIs(t, f.members[3].Err(), raft.ErrRemoved, "Rejoin names another removal")
	f.end(3)

	f.cfg[3].Rejoin = removed.Index
	f.start(3)
	f.await("votes again", []int{3}, votes)
	f.end(3)
	aside, err := filepath.Glob(filepath.Join(f.cfg[3].Dir, "aside-*"))
	require.NoError(t, err)
	assert.Len(t, aside, 1, "nothing is deleted")
	require.Eventually(t, func() bool {
		_, err := f.members[0].node.RemoveMember(t.Context(), "n4", node.ChangeOptions{})
		return err == nil
	}, patience, 50*time.Millisecond)
	f.start(3)
	f.awaitEnd(3)
	assert.ErrorIs(t, f.members[3].Err(), raft.ErrRemoved, "the same Rejoin does not count for the next removal")
}

// The certificates name the ids: a stranger gets no answer.
func TestFounding_WithCertificates(t *testing.T) {
	f := newFound(t, 4)
	ca, other := testca.New(t), testca.New(t)
	for i := range f.cfg {
		by := ca
		if i == 3 {
			by = other
		}
		f.cfg[i].TLS = TLSFiles(by.Files(t, t.TempDir(), "test", f.cfg[i].ID))
		f.cfg[i].Seeds = DNS("localhost:" + f.cfg[0].Listen[strings.LastIndex(f.cfg[0].Listen, ":")+1:])
	}
	f.cfg[0].Seeds = Addresses(f.seeds...)
	f.start(0, 1, 2, 3)
	f.write(0)
	f.await("votes", all, votes)
	require.Eventually(t, func() bool {
		return strings.Contains(strings.Join(f.members[3].Status().Missing, "\n"), "certificate")
	}, patience, 5*time.Millisecond)
	assert.Len(t, f.members[0].Members().Configuration.Members, 3)
}

// Whatever the seeds are, nothing is lost and nothing is half joined: the cluster has its members alone.
func TestFounding_BadSeeds(t *testing.T) {
	f := newFound(t, 4)
	stranger := newFound(t, 3)
	for i := range stranger.cfg {
		stranger.cfg[i].Cluster = "other"
	}
	f.start(all...)
	stranger.start(0)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	garbage := httptest.NewServer(http.NotFoundHandler())
	defer garbage.Close()
	f.write(0)
	for _, row := range []struct {
		rule  string
		seeds Seeds
		says  string
	}{
		{"unresolvable", DNS("jobs.invalid:7000"), `seeds: "jobs.invalid:7000" has no address: `},
		{"of another cluster", Addresses(stranger.cfg[0].Listen), `"other"`},
		{"garbage", Addresses(garbage.Listener.Addr().String()), garbage.Listener.Addr().String() + " ("},
		{"silent", Addresses(silent.Addr().String()), silent.Addr().String() + " (no answer"},
		{"itself by a name", DNS("localhost:" + f.cfg[3].Listen[strings.LastIndex(f.cfg[3].Listen, ":")+1:]), "(this member itself)"},
	} {
		f.cfg[3].Seeds = row.seeds
		f.start(3)
		ok := assert.Eventually(t, func() bool {
			return strings.Contains(strings.Join(f.members[3].Status().Missing, "\n"), row.says)
		}, patience, 5*time.Millisecond, row.rule)
		if !ok {
			t.Log(strings.Join(f.members[3].Status().Missing, "\n"))
		}
		assert.Equal(t, raft.Index(0), f.members[3].Members().Index, row.rule)
		f.end(3)
	}
	assert.Len(t, f.members[0].Members().Configuration.Members, 3)
	f.cfg[3].Seeds = Addresses(silent.Addr().String(), f.seeds[1], f.seeds[1])
	f.start(3)
	f.await("votes", []int{3}, votes)
}

func TestFounding_AnIDInUseIsKept(t *testing.T) {
	f := newFound(t, 4)
	f.start(all...)
	f.write(0)
	f.await("votes", all, votes)
	f.cfg[3].ID = "n3" // a copied command line
	f.start(3)
	require.Eventually(t, func() bool {
		return strings.Contains(strings.Join(f.members[3].Status().Missing, "\n"), "n3 is a member already, at "+f.cfg[2].Listen)
	}, patience, 5*time.Millisecond)
	f.write(2)
	assert.Len(t, f.members[0].Members().Configuration.Members, 3)
}

func TestFounding_FoundersThatDiffer(t *testing.T) {
	f := newFound(t, 3)
	f.cfg[2].Founders = []raft.NodeID{"n1", "n3"}
	f.start(all...)
	require.Eventually(t, func() bool {
		return strings.Contains(strings.Join(f.members[0].Status().Missing, "\n"), "was started with the founders [n1 n3], and this member with [n1 n2 n3]")
	}, patience, 5*time.Millisecond)
	f.end(2)
	f.cfg[2].Founders = []raft.NodeID{"n3", "n2", "n1"}
	f.start(2)
	f.write(1)
}

// A founder that does not exist keeps the others from beginning a cluster. They say who is missing, and where they have looked.
func TestFounding_AFounderThatIsAStranger(t *testing.T) {
	f := newFound(t, 3)
	for i := range f.cfg {
		f.cfg[i].Founders = []raft.NodeID{"n1", "n2", "n9"}
	}
	f.start(0, 1)
	f.await("misses n9", []int{0}, func(m *Member) bool {
		return strings.Contains(strings.Join(m.Status().Missing, "\n"), "founder n9 has not been found: looked for at ")
	})
	f.await("says it first", []int{0, 1}, func(m *Member) bool {
		return strings.HasPrefix(m.Status().LeaderReason, "no cluster yet: founder n9 has not been found")
	})
	for _, m := range f.members[:2] {
		assert.NotContains(t, m.Status().LeaderReason, "empty all stores", "n1 answers")
		assert.Zero(t, m.Status().Cluster)
		assert.Zero(t, m.Status().Term)
	}
}

// A member whose own founders lack it begins no cluster, and joins that of the founders.
func TestFounding_TheFoundersLackTheMember(t *testing.T) {
	f := newFound(t, 3)
	for i := range f.cfg {
		f.cfg[i].Founders = []raft.NodeID{"n2", "n3"}
	}
	f.start(0)
	f.await("misses a leader", []int{0}, func(m *Member) bool {
		return strings.Contains(strings.Join(m.Status().Missing, "\n"), "no leader of the cluster answers")
	})
	assert.Zero(t, f.members[0].Status().Cluster)
	f.start(1, 2)
	f.await("votes", all, votes)
	f.write(0)
}

func TestConfig_FoundersAndSeeds(t *testing.T) {
	valid := Config{ID: "n1", Cluster: "test", Dir: "d", Listen: "h1:7000", Founders: []raft.NodeID{"n1", "n2"}, Seeds: DNS("jobs:7000"), SetAside: true}
	require.NoError(t, valid.Validate())
	own := transport.NewNetwork().Join("n1")
	for _, row := range []struct {
		field, says string
		edit        func(*Config)
	}{
		{"Seeds", "missing: name addresses of the other members", func(c *Config) { c.Seeds, c.SetAside = Seeds{}, false }},
		{"Seeds", "missing: name addresses of the other members", func(c *Config) {
			c.Seeds, c.SetAside, c.Founders = Seeds{}, false, []raft.NodeID{"n2"}
		}},
		{"Seeds", `"h1:7000", which is this member itself`, func(c *Config) { c.Seeds = Addresses("h1:7000", "h1:7000") }},
		{"Seeds", `seed "jobs" is no "host:port"`, func(c *Config) { c.Seeds = DNS("jobs") }},
		{"Seeds", `seed "0.0.0.0:1" names no machine`, func(c *Config) { c.Seeds = Addresses("h2:1", "0.0.0.0:1") }},
		{"Seeds", "256 addresses; the limit is 255", func(c *Config) { c.Seeds = Addresses(make([]string, 256)...) }},
		{"Founders", `"n1" is listed twice`, func(c *Config) { c.Founders = []raft.NodeID{"n1", "n1"} }},
		{"Advertise", "missing", func(c *Config) { c.Listen = ":7000" }},
		{"Advertise", `"0.0.0.0:7000" names no machine`, func(c *Config) { c.Advertise = "0.0.0.0:7000" }},
		{"Learner", "founders vote", func(c *Config) { c.Learner = true }},
		{"Meta", "1025 bytes", func(c *Config) { c.Meta = strings.Repeat("m", 1025) }},
		{"Meta", "is no UTF-8", func(c *Config) { c.Meta = "\xff" }},
		{"Initial", `member n2: "[::]:7000" names no machine`, func(c *Config) {
			*c = Config{ID: "n1", Cluster: "c", Dir: "d", Listen: ":1", Initial: []raft.Member{{ID: "n1", Address: "h1:1"}, {ID: "n2", Address: "[::]:7000"}}}
		}},
		{"Initial", "must be empty with Founders or Seeds", func(c *Config) { c.Initial = []raft.Member{{ID: "n1", Address: "h1:7000"}} }},
		{"Storage", "must be empty with SetAside", func(c *Config) { c.Storage = storage.NewMemory() }},
		{"Transport", "cannot ask who is there", func(c *Config) { c.Transport, c.Listen, c.Advertise = struct{ raft.Transport }{own}, "", "h1:1" }},
		{"Rejoin", "needs Seeds or Founders", func(c *Config) { *c = Config{ID: "n1", Cluster: "c", Dir: "d", Listen: ":1", Rejoin: 3} }},
		{"SetAside", "needs Seeds or Founders", func(c *Config) { *c = Config{ID: "n1", Cluster: "c", Dir: "d", Listen: ":1", SetAside: true} }},
		{"SetAside", "needs Seeds, through which", func(c *Config) { c.Founders, c.Seeds = []raft.NodeID{"n1"}, Seeds{} }},
	} {
		c := valid
		row.edit(&c)
		err := c.Validate()
		var wrong *raft.ConfigError
		require.ErrorAs(t, err, &wrong, row.says)
		assert.Equal(t, row.field, wrong.Field, row.says)
		assert.ErrorContains(t, err, row.says)
		assert.Equal(t, 1, strings.Count(err.Error(), row.field+": "), "each problem once: %v", err)
	}
	assert.Equal(t, []raft.NodeID{"jobs-0", "jobs-1", "jobs-2"}, Ordinals("jobs", 3))
	assert.Empty(t, Ordinals("jobs", -1))
}

// The store is marked as an older image. Any start refuses it, until it is set aside.
func TestFounding_AnOlderImageIsSetAside(t *testing.T) {
	t.Run("with the whole log", func(t *testing.T) { anOlderImageIsSetAside(t, func(*Member) {}) })
	t.Run("with a log that begins after a snapshot", func(t *testing.T) {
		anOlderImageIsSetAside(t, func(m *Member) {
			require.NoError(t, m.node.SetLimits(raft.Limits{SnapshotTailBytes: 1, SnapshotHoldBytes: 1}))
			_, err := m.Snapshot(t.Context())
			require.NoError(t, err)
			require.Eventually(t, func() bool { return m.Status().Base.Index > 0 }, patience, 5*time.Millisecond)
		})
	})
}

func anOlderImageIsSetAside(t *testing.T, before func(of *Member)) {
	f := newFound(t, 3)
	f.start(all...)
	f.write(0)
	f.await("votes", all, votes)
	before(f.members[2])
	f.end(2)
	earlier := t.TempDir()
	require.NoError(t, os.CopyFS(earlier, os.DirFS(f.cfg[2].Dir)))
	f.start(2)
	f.await("votes", []int{2}, votes)
	f.write(0)
	f.await("has seen the write", []int{2}, func(m *Member) bool { return m.Status().Applied >= f.members[0].Status().Applied })
	f.end(2)
	f.cfg[2].Dir = earlier
	f.start(2)
	f.awaitEnd(2)
	require.ErrorAs(t, f.members[2].Err(), new(*raft.StaleImageError))
	assert.Error(t, f.members[2].Close())
	f.members[2] = nil
	_, err := Start(t.Context(), f.cfg[2], &counter{})
	require.ErrorAs(t, err, new(*raft.StaleImageError))
	f.cfg[2].SetAside = true
	f.start(2)
	f.await("votes again", []int{2}, votes)
	f.write(2)
}

// All were down. A founder without its disk is the first to come back, and has its list before it hears of the cluster.
func TestFounding_AnEmptiedDiskComesBackFirst(t *testing.T) {
	f := newFound(t, 3)
	f.start(all...)
	f.write(0)
	f.await("votes", all, votes)
	for _, removed := range []bool{false, true} {
		if removed {
			require.Eventually(t, func() bool {
				_, err := f.members[0].node.RemoveMember(t.Context(), "n3", node.ChangeOptions{})
				return err == nil
			}, patience, 50*time.Millisecond)
		}
		for _, i := range all {
			f.end(i)
		}
		f.empty(2)
		f.start(2)
		f.await("has its list", []int{2}, func(m *Member) bool { return len(m.Members().Configuration.Members) == 3 })
		f.start(0, 1)
		f.await("votes again, and waits for nothing", []int{2}, func(m *Member) bool { return votes(m) && len(m.Status().Missing) == 0 })
	}
	f.write(2)
}

// The cluster has lost the disks of its majority. Founders that come back hear of it, and never begin another one.
func TestFounding_ALostMajorityIsNotReplaced(t *testing.T) {
	f := newFound(t, 3)
	f.start(all...)
	f.write(0)
	f.await("votes", all, votes)
	for _, i := range []int{0, 1} {
		f.end(i)
		f.empty(i)
	}
	f.await("leads no more, so that it sends them no log", []int{2}, func(m *Member) bool { return m.Status().Role != raft.Leader })
	f.start(0, 1)
	for _, i := range []int{0, 1} {
		require.Eventually(t, func() bool {
			return strings.Contains(strings.Join(f.members[i].Status().Missing, "\n"), "has heard of cluster "+f.members[2].Status().Cluster.String())
		}, patience, 5*time.Millisecond)
	}
	assert.Zero(t, f.members[0].Status().Term)
	assert.Zero(t, f.members[1].Status().Term)
}

// An address that leads elsewhere never gets into the configuration.
func TestFounding_AnAddressThatLeadsElsewhere(t *testing.T) {
	f := newFound(t, 4)
	f.start(all...)
	f.write(0)
	for _, row := range []struct{ advertise, says string }{
		{f.cfg[1].Listen, "n4 cannot be at " + f.cfg[1].Listen + ": that is the address of n2"},
		{freeAddress(t), "connection refused"},
	} {
		f.cfg[3].Advertise = row.advertise
		f.start(3)
		require.Eventually(t, func() bool {
			return strings.Contains(strings.Join(f.members[3].Status().Missing, "\n"), row.says)
		}, patience, 5*time.Millisecond, row.says)
		f.end(3)
	}
	assert.Len(t, f.members[0].Members().Configuration.Members, 3)
}

// What was found by asking may be out of date, and the configuration as well.
func TestFounding_AMemberIsDialedWhereItWasFoundAndWhereTheConfigurationSays(t *testing.T) {
	s := &seeker{node: new(node.Node), found: make(map[raft.NodeID]bool)}
	s.rules = joining.NewSeeker(joining.Config{Self: raft.Peer{ID: "n1", Incarnation: 1}, ClusterName: "test", Address: "h1:1"})
	s.rules.Resolved(0, []string{"found:1"}, nil)
	reply := raft.WhoReply{From: raft.Peer{ID: "n2", Incarnation: 2}, ClusterName: "test", Address: "found:1"}
	s.rules.Answered(joining.Question{Address: "found:1"}, reply, nil)
	for _, row := range []struct {
		m    raft.Member
		want [4]string
	}{
		{raft.Member{ID: "n2", Address: "named:1"}, [4]string{"found:1", "named:1", "found:1", "named:1"}},
		{raft.Member{ID: "n2"}, [4]string{"found:1", "found:1", "found:1", "found:1"}},
		{raft.Member{ID: "n3", Address: "named:1"}, [4]string{"named:1", "named:1", "named:1", "named:1"}},
	} {
		var dialed [4]string
		for i := range dialed {
			dialed[i] = s.resolve(row.m)
		}
		assert.Equal(t, row.want, dialed, "%+v", row.m)
	}
}
