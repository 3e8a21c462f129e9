package raft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// brokenRule returns the sentence of the invariant that f breaks.
func brokenRule(t *testing.T, f func()) (rule string) {
	t.Helper()
	defer func() {
		broken, ok := recover().(*InvariantError)
		require.True(t, ok, "no invariant was found broken")
		rule = broken.Rule
	}()
	f()
	return ""
}

// leadingWorld returns a cluster of three with a leader that has entries in its log.
func leadingWorld(t *testing.T) (*world, *member) {
	w := newWorld(t, 1, "a", "b", "c")
	w.startAll()
	w.run(2 * time.Second)
	lead := w.leader()
	require.NotNil(t, lead)
	lead.propose("x")
	w.settle()
	lead.propose("y")
	return w, lead
}

// Each check fails on a hand-made violation of its sentence.
func TestInvariants_CheckState(t *testing.T) {
	for rule, damage := range map[string]func(c *Core){
		"only what was being applied is applied":                           func(c *Core) { c.log.applied = c.log.applying + 1 },
		"only what is committed is being applied":                          func(c *Core) { c.log.applying, c.log.applied = c.log.commit+1, 0 },
		"only what is in the log is committed":                             func(c *Core) { c.log.commit = c.log.Last.Index + 1 },
		"only what is in the log is durable":                               func(c *Core) { c.disk.persisted = c.log.Last.Index + 1 },
		"no entry is newer than the current term":                          func(c *Core) { c.hard.Term-- },
		"entry 1 is the bootstrap of the cluster":                          func(c *Core) { c.log.Bootstrap = nil },
		"what is compacted is committed":                                   func(c *Core) { c.log.provenCommit = c.log.commit + 1 },
		"what is compacted is being applied":                               func(c *Core) { c.log.Base.ID.Index, c.log.applying, c.log.applied = 1, 0, 0 },
		"the log is durable from its base on":                              func(c *Core) { c.log.Base.ID.Index, c.disk.persisted = 1, 0 },
		"a member with an entry knows its cluster":                         func(c *Core) { c.log.Bootstrap.Cluster = ClusterID{} },
		"what is compacted is covered by a snapshot, or synced by the FSM": func(c *Core) { c.log.Base.ID.Index = 1 },
		"no snapshot is restored of what is applied":                       func(c *Core) { c.snaps.restoring = &Snapshot{} },
		"no snapshot is taken while one is restored": func(c *Core) {
			c.snaps.restoring, c.snaps.taking = &Snapshot{Base: Base{ID: EntryID{1, 99}}}, &Take{}
		},
		"the base's configuration is one of the base's entries": func(c *Core) { c.log.Base.ConfigIndex = 1 },
		"entry 1 holds the first configuration":                 func(c *Core) { c.log.Configs = nil },
		"each configuration is held by an entry of the log": func(c *Core) {
			c.log.Configs = append(c.log.Configs, ConfigRun{Index: c.log.Last.Index + 1})
		},
		"configurations are in the log's order":                     func(c *Core) { c.log.Configs = append(c.log.Configs, c.log.Configs[0]) },
		"what is too large for a follower is brought by a snapshot": func(c *Core) { c.leader.peers[0].oversized.id.Index = 1 },
		"each run of a log holds an entry":                          func(c *Core) { c.log.Runs = nil },
		"the log begins behind its base":                            func(c *Core) { c.log.Runs[0].First = 2 },
		"a member has one role":                                     func(c *Core) { c.candidate = &candidate{} },
		"a leader knows that it leads":                              func(c *Core) { c.termLeader.peer = Peer{ID: "z"} },
		"nobody follows itself":                                     func(c *Core) { c.leader = nil },
		"whom a member follows leads its term":                      func(c *Core) { c.leader, c.termLeader.peer = nil, Peer{ID: "z"} },
		"a cluster is bootstrapped before its first term":           func(c *Core) { c.bootstrapper = &bootstrapper{} },
		"terms rise along the log":                                  func(c *Core) { c.log.Runs[1].Term = 0 },
		"each term's run holds an entry":                            func(c *Core) { c.log.Runs[1].First = 1 },
		"writes are numbered in order":                              func(c *Core) { c.disk.pending = []pendingWrite{{seq: 2}, {seq: 2}} },
		"a candidate votes for itself": func(c *Core) {
			c.leader, c.termLeader.peer, c.candidate, c.hard.Vote = nil, Peer{}, &candidate{}, Peer{}
		},
		"a leader voted for itself":                    func(c *Core) { c.hard.Vote = Peer{} },
		"a leader's term is durable":                   func(c *Core) { c.disk.hard.Vote = Peer{} },
		"what was being applied is not pending":        func(c *Core) { c.leader.pending[0].id.Index = 1 },
		"proposals are in the log's order":             func(c *Core) { c.leader.pending = append(c.leader.pending, c.leader.pending[0]) },
		"the pending bytes are counted right":          func(c *Core) { c.leader.bytes++ },
		"the next entry to send is above what matches": func(c *Core) { c.leader.peers[0].next = c.leader.peers[0].match },
		"the next entry to send is not compacted": func(c *Core) {
			c.log.compact(c.baseAt(1))
			c.snaps.covered = c.log.Base.ID
			c.leader.peers[0].match, c.leader.peers[0].next = 0, 1
		},
		"nobody matches beyond the log":                func(c *Core) { c.leader.peers[0].match, c.leader.peers[0].next = 99, 100 },
		"nothing is sent beyond the log":               func(c *Core) { c.leader.peers[0].next = 99 },
		"appends are in flight only while replicating": func(c *Core) { c.leader.peers[0].state = probe },
	} {
		_, lead := leadingWorld(t)
		lead.core.checkState()
		damage(lead.core)
		require.Equal(t, rule, brokenRule(t, lead.core.checkState))
	}
}

func TestInvariants_CheckRoster(t *testing.T) {
	for rule, damage := range map[string]func(c *Core){
		"a leader counts itself where it votes":      func(c *Core) { c.leader.votes = 0 },
		"a leader counts each member where it votes": func(c *Core) { c.leader.peers[0].votes = OutgoingHalf },
		"the members are in order, each once":        func(c *Core) { c.leader.peers[1] = c.leader.peers[0] },
		"who is no member departs":                   func(c *Core) { c.leader.peers[0].departs = 1 },
		"a leader's list has all members":            func(c *Core) { c.leader.peers = c.leader.peers[:1] },
		"a leader has one configuration at a time that is not committed": func(c *Core) {
			run := c.log.config()
			for i := range Index(2) {
				run.Index = c.log.commit + 1 + i
				c.log.Last.Index = run.Index
				c.log.Configs = append(c.log.Configs, run)
			}
		},
	} {
		_, lead := leadingWorld(t)
		damage(lead.core)
		require.Equal(t, rule, brokenRule(t, lead.core.checkState))
	}
}

func TestInvariants_CheckStep(t *testing.T) {
	for rule, damage := range map[string]func(c *Core, out *Output){
		"the next deadline is not in the past":                           func(c *Core, out *Output) { out.WakeAt = c.now.Mono - 1 },
		"every message of the step is in Send, in Write.Then or dropped": func(c *Core, _ *Output) { c.step.sends = make([]outgoing, 1) },
		"every change of term and vote is in a write":                    func(c *Core, _ *Output) { c.hard.Vote = Peer{"z", 1} },
		"memory is never behind the disk":                                func(c *Core, _ *Output) { c.disk.hard.Term++ },
		"what is restored is recorded durably":                           func(_ *Core, out *Output) { out.Restore = &Snapshot{File: SnapshotID{1}} },
		"a snapshot is taken of the last entry that is applied":          func(_ *Core, out *Output) { out.Keep = &Keep{Take: &Take{}} },
		"no message leaves with a term above the durable one":            func(c *Core, out *Output) { out.Send = []Message{{Term: c.hard.Term + 1}} },
	} {
		_, lead := leadingWorld(t)
		out := Output{WakeAt: lead.core.now.Mono}
		lead.core.checkStep(&out)
		damage(lead.core, &out)
		require.Equal(t, rule, brokenRule(t, func() { lead.core.checkStep(&out) }))
	}
}

// After Step has panicked with *InvariantError, the core is dead.
func TestInvariants_CoreIsDeadAfterAPanic(t *testing.T) {
	for cause, step := range map[string]func(c *Core){
		"a write that was never issued":   func(c *Core) { c.Step(c.now, Persisted{99}) },
		"time that falls":                 func(c *Core) { c.Step(Now{Mono: c.now.Mono - 1}) },
		"an event that does not exist":    func(c *Core) { c.Step(c.now, nil) },
		"applied before it was committed": func(c *Core) { c.Step(c.now, Applied{EntryID{1, 99}}) },
	} {
		_, lead := leadingWorld(t)
		brokenRule(t, func() { step(lead.core) })
		rule := brokenRule(t, func() { lead.core.Step(lead.core.now) })
		require.Equal(t, "a core whose Step panicked is dead", rule, cause)
	}
}
