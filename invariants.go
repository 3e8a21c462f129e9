package raft

import "fmt"

// assert panics with an *InvariantError if the core's state is impossible. The panic ends the node, not the process. The
// sentence is a constant, so an assertion that holds costs nothing.
func assert(holds bool, sentence string) {
	if !holds {
		panic(&InvariantError{Rule: sentence})
	}
}

// checkStep checks what must hold after every Step. In builds with -race or the tag invariants it also checks
// every invariant of the state.
func (c *Core) checkStep(out *Output) {
	assert(out.WakeAt >= c.now.Mono, "the next deadline is not in the past")
	assert(len(c.step.sends) == 0, "every message of the step is in Send, in Write.Then or dropped")
	assert(c.hard == c.step.hard, "every change of term and vote is in a write")
	assert(c.hard.Term >= c.disk.hard.Term, "memory is never behind the disk")
	assert(c.disk.hard.Cluster == ClusterID{} || c.hard.Cluster == c.disk.hard.Cluster, "a member never leaves the cluster of a recovery")
	for i := range out.Send {
		assert(out.Send[i].Term <= c.disk.hard.Term, "no message leaves with a term above the durable one")
	}
	assert(out.Restore == nil || out.Restore.File == c.disk.snapshot.File, "what is restored is recorded durably")
	assert(out.Keep == nil || out.Keep.Take == nil || out.Keep.Take.ID.Index == c.log.applying, "a snapshot is taken of the last entry that is applied")
	if checkAll {
		c.checkState()
	}
}

// checkState checks the invariants of one member (Figure 3, as far as one member can see it).
func (c *Core) checkState() {
	l := &c.log
	assert(l.applied <= l.applying, "only what was being applied is applied")
	assert(l.applying <= l.commit, "only what is committed is being applied")
	assert(l.commit <= l.Last.Index, "only what is in the log is committed")
	assert(c.disk.persisted <= l.Last.Index, "only what is in the log is durable")
	assert(l.Last.Term <= c.hard.Term, "no entry is newer than the current term")
	c.checkBase()
	c.checkConfigs()
	assert(c.leader == nil || c.candidate == nil, "a member has one role")
	assert(c.leader == nil || c.termLeader.peer == c.self, "a leader knows that it leads")
	assert(c.leader != nil || c.termLeader.peer != c.self, "nobody follows itself")
	assert(!c.suspected() || c.leader == nil && c.candidate == nil, "who may run on an older image neither campaigns nor leads")
	assert((c.termLeader.peer == Peer{}) || c.termLeader.elected == Peer{} || c.termLeader.isHeard(), "whom a member follows leads its term")
	assert(c.bootstrapper == nil || c.hard.Term == 0, "a cluster is bootstrapped before its first term")
	assert(c.hard.Term > 0 || c.leader == nil && c.candidate == nil, "nobody campaigns or leads in term 0")
	for i := 1; i < len(l.Runs); i++ {
		assert(l.Runs[i-1].Term < l.Runs[i].Term, "terms rise along the log")
		assert(l.Runs[i-1].First < l.Runs[i].First, "each term's run holds an entry")
	}
	for i := 1; i < len(c.disk.pending); i++ {
		assert(c.disk.pending[i-1].seq < c.disk.pending[i].seq, "writes are numbered in order")
	}
	if c.candidate != nil {
		assert(c.candidate.pre || c.hard.Vote == c.self, "a candidate votes for itself")
	}
	if c.leader != nil {
		c.checkLeader()
	}
}

// checkBase checks how the log begins.
func (c *Core) checkBase() {
	l, base, s := &c.log, c.log.Base.ID, &c.snaps
	assert(base.Index <= l.provenCommit && l.provenCommit <= l.commit, "what is compacted is committed")
	assert(base.Index <= l.applying || s.restoring != nil, "what is compacted is being applied")
	assert(base.Index <= c.disk.persisted || s.writing != nil, "the log is durable from its base on")
	assert(base.Index <= s.covered.Index || s.restoring != nil, "what is compacted is covered by a snapshot, or synced by the FSM")
	assert(s.restoring == nil || s.restoring.ID.Index > l.applied, "no snapshot is restored of what is applied")
	assert(s.restoring == nil || s.taking == nil, "no snapshot is taken while one is restored")
	assert((base.Index == 0 && l.Last.Index > 0) == (l.Bootstrap != nil), "entry 1 is the bootstrap of the cluster")
	origin, _ := c.origin()
	assert((l.Last.Index == 0) == (origin == ClusterID{}), "a member with an entry knows its cluster")
	assert((l.Last == base) == (len(l.Runs) == 0), "each run of a log holds an entry")
	assert(len(l.Runs) == 0 || l.Runs[0].First == base.Index+1, "the log begins behind its base")
}

// checkConfigs checks at which indexes the log's configurations are.
func (c *Core) checkConfigs() {
	l := &c.log
	assert(l.Base.ConfigIndex <= l.Base.ID.Index, "the base's configuration is one of the base's entries")
	assert((l.Bootstrap != nil) == (len(l.Configs) > 0 && l.Configs[0].Index == 1), "entry 1 holds the first configuration")
	for i, run := range l.Configs {
		assert(run.Index > l.Base.ID.Index && run.Index <= l.Last.Index, "each configuration is held by an entry of the log")
		assert(i == 0 || l.Configs[i-1].Index < run.Index, "configurations are in the log's order")
	}
}

func (c *Core) checkLeader() {
	assert(c.hard.Vote == c.self, "a leader voted for itself")
	assert(c.voteDurable(), "a leader's term is durable")
	bytes := 0
	for i, o := range c.leader.pending {
		bytes += o.bytes
		assert(o.id.Index > c.log.applying, "what was being applied is not pending")
		assert(i == 0 || c.leader.pending[i-1].id.Index < o.id.Index, "proposals are in the log's order")
	}
	assert(bytes == c.leader.bytes, "the pending bytes are counted right")
	c.checkRoster()
	for i := range c.leader.peers {
		p := &c.leader.peers[i]
		assert(p.match < p.next, "the next entry to send is above what matches")
		assert(p.next > c.log.Base.ID.Index || p.state == stale, "the next entry to send is not compacted")
		assert(p.match <= c.log.Last.Index, "nobody matches beyond the log")
		assert(p.next <= c.log.Last.Index+1, "nothing is sent beyond the log")
		assert(p.oversized.id.Index == 0 || p.state == snapshot, "what is too large for a follower is brought by a snapshot")
		assert(p.state == replicate || len(p.flow.inflight) == 0, "appends are in flight only while replicating")
		inflight := 0
		for _, f := range p.flow.inflight {
			inflight += f.bytes
		}
		assert(inflight == p.flow.bytes, "the bytes in flight are counted right")
	}
}

// checkRoster checks a leader's list of the other members.
func (c *Core) checkRoster() {
	l, config := c.leader, c.config()
	assert(l.votes == config.VotesIn(c.self), "a leader counts itself where it votes")
	others := 0
	for i := range l.peers {
		p := &l.peers[i]
		assert(i == 0 || l.peers[i-1].peer.compare(p.peer) < 0, "the members are in order, each once")
		assert(p.votes == config.VotesIn(p.peer), "a leader counts each member where it votes")
		assert(config.includes(p.peer) == (p.departs == 0), "who is no member departs")
		if p.departs == 0 {
			others++
		}
	}
	if config.includes(c.self) {
		others++
	}
	assert(others == len(config.Members), "a leader's list has all members")
	uncommitted := len(c.log.Configs) - c.log.configsUpTo(c.log.commit)
	assert(uncommitted <= 1 || !c.committedOwn(), "a leader has one configuration at a time that is not committed")
}

// State returns the core's state as text, for a bug report.
func (c *Core) State() string {
	return fmt.Sprintf("%v term=%d vote=%v leader=%v base=%v last=%v persisted=%d commit=%d applying=%d applied=%d durable=%+v pending=%d",
		c.role(), c.hard.Term, c.hard.Vote, c.termLeader.peer, c.log.Base.ID, c.log.Last, c.disk.persisted, c.log.commit,
		c.log.applying, c.log.applied, c.disk.hard, len(c.disk.pending))
}
