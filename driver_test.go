package raft_test

import (
	"slices"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/stretchr/testify/require"
)

// core is one member of a cluster, "a", which a test drives through its exported methods. To bring it into a
// state, a test starts it on a log and then steps the events that lead to the state.
type core struct {
	*raft.Core
	t    *testing.T
	now  raft.Time
	wall int64       // wall clock minus monotonic clock
	out  raft.Output // output of the last step
	seq  raft.Seq    // last write issued

	round raft.RPCID // of the last pre-vote that it asked for
	asked raft.Term  // the term in which it asked
	beat  raft.RPCID // the last heartbeat round that it began
}

const (
	ms                  = raft.Time(time.Millisecond)
	electionTimeout     = 150 * ms
	heartbeatPace       = 50 * ms
	afterAnyTimeout     = 2*electionTimeout + ms
	requestIDOfTheTests = raft.RequestID(7)
)

var clusterOfTheTests = raft.ClusterID{1, 2, 3}

// peer returns one of the members a to e; its incarnation is its letter.
func peer(id raft.NodeID) raft.Peer {
	return raft.Peer{ID: id, Incarnation: raft.Incarnation(id[0])}
}

// membersNamed returns voters with these one-letter ids.
func membersNamed(ids string) []raft.Member {
	var members []raft.Member
	for _, r := range ids {
		id := raft.NodeID(string(r))
		members = append(members, raft.Member{ID: id, Address: string(id) + ":1", Incarnation: peer(id).Incarnation})
	}
	return members
}

// leaving returns the two configurations of a change by which a member of abc loses its vote. The entry at index removes the
// member.
func leaving(id raft.NodeID, index raft.Index) (joint, left raft.Configuration) {
	joint = raft.NewConfiguration(membersNamed("abc"))
	at := slices.IndexFunc(joint.Members, func(m raft.Member) bool { return m.ID == id })
	joint.Members[at].Kind, joint.Level = raft.Leaving, 1
	joint.Outgoing = []raft.Peer{peer("a"), peer("b"), peer("c")}
	left = raft.NewConfiguration(slices.Delete(membersNamed("abc"), at, at+1))
	left.Level, left.Removed = 1, []raft.Removal{{Peer: peer(id), Index: index}}
	return joint, left
}

func bootstrapEntry(members []raft.Member) raft.Entry {
	f := raft.Bootstrap{
		Cluster: clusterOfTheTests, Bootstrapper: members[0].Peer(), Probe: raft.RPCID{StartCount: 1, Counter: 1},
		Configuration: raft.NewConfiguration(members),
	}
	return raft.Entry{Index: 1, Kind: raft.EntryBootstrap, Data: f.Encode()}
}

// entries returns command entries from an index on, one for each term.
func entries(first raft.Index, terms ...raft.Term) []raft.Entry {
	var list []raft.Entry
	for i, term := range terms {
		list = append(list, raft.Entry{
			Index: first + raft.Index(i), Term: term, Kind: raft.EntryCommand, Data: []byte{byte(term)},
		})
	}
	return list
}

func id(index raft.Index, term raft.Term) raft.EntryID { return raft.EntryID{Term: term, Index: index} }

// coreConfig returns the configuration of every core of these tests.
func coreConfig() raft.CoreConfig {
	return raft.CoreConfig{
		ID: "a", NewCluster: clusterOfTheTests,
		ElectionTimeout: time.Duration(electionTimeout), HeartbeatInterval: time.Duration(heartbeatPace), Seed: 1, DiskStallMax: time.Second,
		Limits: raft.Limits{
			CommandBytesMax: 1 << 10, ProposalsMax: 128, ProposalBytesMax: 1 << 16, UnappliedMax: 1 << 10,
			AppendBytesMax: 1 << 16, InflightMax: 4, InflightBytesMax: 1 << 18,
		},
	}
}

// restart returns a member that has restarted with this hard state. Its log holds entry 1 and, from index 2 on, one entry for
// each term.
func restart(t *testing.T, members []raft.Member, hard raft.HardState, terms ...raft.Term) *core {
	t.Helper()
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: hard}
	require.NoError(t, stored.Log.Observe(bootstrapEntry(members)))
	for _, e := range entries(2, terms...) {
		require.NoError(t, stored.Log.Observe(e))
	}
	return begin(t, coreConfig(), stored)
}

// baseOf returns the base of a log of abc that begins after the entry.
func baseOf(last raft.EntryID) raft.Base {
	members := membersNamed("abc")
	return raft.Base{
		ID: last, Time: 5, Cluster: clusterOfTheTests, Bootstrapper: members[0].Peer(), ConfigIndex: 1,
		Config: raft.NewConfiguration(members),
	}
}

// storedBehind returns the store of a member of abc. Its log begins after base and holds one entry for each term. Its FSM has
// applied everything up to the base.
func storedBehind(t *testing.T, term raft.Term, base raft.EntryID, terms ...raft.Term) raft.Stored {
	t.Helper()
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: term}, Applied: base}
	stored.Log.Begin(baseOf(base))
	for _, e := range entries(base.Index+1, terms...) {
		require.NoError(t, stored.Log.Observe(e))
	}
	return stored
}

// compacted returns a follower of abc that started on such a log.
func compacted(t *testing.T, term raft.Term, base raft.EntryID, terms ...raft.Term) *core {
	t.Helper()
	return begin(t, coreConfig(), storedBehind(t, term, base, terms...))
}

func begin(t *testing.T, cfg raft.CoreConfig, stored raft.Stored) *core {
	t.Helper()
	now := raft.Now{Mono: 1000 * ms, Wall: 1}
	inner, out, err := raft.NewCore(cfg, stored, now)
	require.NoError(t, err)
	c := &core{Core: inner, t: t, now: now.Mono}
	c.took(out)
	return c
}

// newUninitialized returns a member with an empty store and this list of initial members.
func newUninitialized(t *testing.T, initial string) *core {
	t.Helper()
	cfg := coreConfig()
	cfg.Initial = listNamed(initial)
	return begin(t, cfg, raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3})
}

// listNamed is a node.Config.Initial.
func listNamed(ids string) raft.Configuration {
	members := membersNamed(ids)
	for i := range members {
		members[i].Incarnation = 0
	}
	return raft.NewConfiguration(members)
}

// follower returns a member of abc that restarted in this term without a vote.
func follower(t *testing.T, term raft.Term, terms ...raft.Term) *core {
	t.Helper()
	return restart(t, membersNamed("abc"), raft.HardState{Term: term}, terms...)
}

// candidateOf returns a member of the cluster that won its pre-vote and campaigns in this term. Its vote for itself is not
// durable yet.
func candidateOf(t *testing.T, members string, term raft.Term, terms ...raft.Term) *core {
	t.Helper()
	c := restart(t, membersNamed(members), raft.HardState{Term: term - 1}, terms...)
	c.timeout()
	for _, m := range membersNamed(members)[1:] {
		if c.Leadership().Role == raft.PreCandidate {
			c.grantPreVote(m.ID)
		}
	}
	require.Equal(t, raft.Leadership{Term: term, Role: raft.Candidate}, c.Leadership())
	return c
}

// leaderOf returns a leader of the cluster in this term. Its log holds its no-op, which is not yet durable.
func leaderOf(t *testing.T, members string, term raft.Term, terms ...raft.Term) *core {
	t.Helper()
	c := candidateOf(t, members, term, terms...)
	c.persist()
	for _, m := range membersNamed(members)[1:] {
		if c.Leadership().Role == raft.Candidate {
			c.receive(m.ID, term, raft.VoteReply{Granted: true})
		}
	}
	require.Equal(t, raft.Leadership{Term: term, Leader: "a", LeaderIncarnation: 'a', Role: raft.Leader}, c.Leadership())
	return c
}

// replicating returns a leader of abc in this term. Its no-op is durable here, acknowledged by both other members, and
// committed.
func replicating(t *testing.T, term raft.Term, terms ...raft.Term) *core {
	t.Helper()
	c := leaderOf(t, "abc", term, terms...)
	c.persist()
	for _, other := range []raft.NodeID{"b", "c"} {
		c.receive(other, term, raft.AppendReply{Match: c.Status().Last.Index})
	}
	require.Equal(t, c.Status().Last.Index, c.Status().Commit)
	return c
}

func (c *core) took(out raft.Output) raft.Output {
	c.out = out
	if out.Write.Seq != 0 {
		c.seq = out.Write.Seq
	}
	for _, m := range append(out.Send, out.Write.Then...) {
		if r, ok := m.Body.(raft.PreVoteRequest); ok {
			c.round, c.asked = r.ID, m.Term
		}
		if h, ok := m.Body.(raft.Heartbeat); ok && c.beat.Less(h.Round) {
			c.beat = h.Round
		}
	}
	return out
}

func (c *core) step(events ...raft.Event) raft.Output {
	return c.took(c.Step(raft.Now{Mono: c.now, Wall: int64(c.now) + c.wall}, events...))
}

// after lets time pass, and steps without an event.
func (c *core) after(d raft.Time) raft.Output {
	c.now += d
	return c.step()
}

// timeout lets the election timeout run out.
func (c *core) timeout() raft.Output {
	c.now = max(c.now, c.out.WakeAt)
	return c.step()
}

// persist makes every write durable.
func (c *core) persist() raft.Output { return c.step(raft.Persisted{Seq: c.seq}) }

// from returns a message to this member.
func (c *core) from(sender raft.NodeID, term raft.Term, body raft.Body) raft.Received {
	return raft.Received{Message: raft.Message{
		From: peer(sender), To: peer("a"), Cluster: clusterOfTheTests, Term: term, Body: body,
	}}
}

func (c *core) receive(sender raft.NodeID, term raft.Term, body raft.Body) raft.Output {
	return c.step(c.from(sender, term, body))
}

// append delivers an AppendEntries with entries of these terms after prev.
func (c *core) append(sender raft.NodeID, term raft.Term, prev raft.EntryID, commit raft.Index, terms ...raft.Term) raft.Output {
	list := entries(prev.Index+1, terms...)
	last := prev
	if len(list) > 0 {
		last = list[len(list)-1].ID()
	}
	return c.receive(sender, term, raft.AppendRequest{Prev: prev, Last: last, Commit: commit, Entries: list})
}

// grantPreVote answers the last pre-vote request.
func (c *core) grantPreVote(sender raft.NodeID) raft.Output {
	return c.receive(sender, c.asked, raft.PreVoteReply{ID: c.round, Granted: true})
}

// electedBy lets the election timeout pass, and this member win with the vote of one other.
func (c *core) electedBy(voter raft.NodeID) raft.Output {
	c.timeout()
	c.grantPreVote(voter)
	c.persist()
	return c.receive(voter, c.Leadership().Term, raft.VoteReply{Granted: true})
}

// echo answers the last heartbeat round.
func (c *core) echo(sender raft.NodeID, match raft.Index) raft.Output {
	return c.receive(sender, c.Leadership().Term, raft.HeartbeatReply{Round: c.beat, Match: match})
}

// to returns a message of this member in its present term. If a reply reports a clock and the body sets none, it reports the
// clocks of this step.
func (c *core) to(receiver raft.NodeID, body raft.Body) raft.Message {
	wall := int64(c.now) + c.wall
	switch reply := body.(type) {
	case raft.VoteReply:
		if reply.Granted && reply.Wall == 0 {
			reply.Wall = wall
		}
		body = reply
	case raft.HeartbeatReply:
		if reply.Wall == 0 {
			reply.Wall = wall
		}
		if reply.Moment == (raft.Moment{}) {
			reply.Moment = c.moment()
		}
		body = reply
	case raft.AppendReply:
		if reply.Moment == (raft.Moment{}) {
			reply.Moment = c.moment()
		}
		body = reply
	}
	return raft.Message{
		From: peer("a"), To: peer(receiver), Cluster: clusterOfTheTests, Term: c.Leadership().Term, Body: body,
	}
}

func (c *core) propose(commands ...string) raft.Output {
	var list []raft.Proposal
	for i, command := range commands {
		list = append(list, raft.Proposal{
			RequestID: requestIDOfTheTests + raft.RequestID(i), Kind: raft.EntryCommand, Data: []byte(command),
		})
	}
	return c.step(raft.Proposed{Proposals: list})
}

// bodies returns the bodies of the messages to a member.
func bodies(messages []raft.Message, to raft.NodeID) []raft.Body {
	var list []raft.Body
	for _, m := range messages {
		if m.To.ID == to {
			list = append(list, m.Body)
		}
	}
	return list
}

// appends returns the spans of the appends among the messages to a member.
func appends(messages []raft.Message, to raft.NodeID) []raft.Span {
	var spans []raft.Span
	for _, b := range bodies(messages, to) {
		if r, ok := b.(raft.AppendRequest); ok {
			spans = append(spans, raft.Span{After: r.Prev.Index, Last: r.Last.Index})
		}
	}
	return spans
}

// traced returns the kinds of the trace events of a step.
func traced(out raft.Output) []raft.TraceEventKind {
	var kinds []raft.TraceEventKind
	for _, n := range out.Trace {
		kinds = append(kinds, n.Kind)
	}
	return kinds
}

// diskReader reads entries from a disk.
type diskReader func(raft.Span, int) ([]raft.Entry, error)

func (s diskReader) Entries(span raft.Span, bytesMax int) ([]raft.Entry, error) {
	return s(span, bytesMax)
}

// testLog reads the log of a member of the harness.
type testLog struct {
	*pipeline.Cache
	pipeline.Log
}

func init() {
	raft.MergeWrites = pipeline.MergeWrites
	raft.NewTestLog = func(last raft.Index, bytesMax int, read func(raft.Span, int) ([]raft.Entry, error)) raft.TestLog {
		cache := pipeline.NewCache(last, bytesMax)
		return testLog{cache, pipeline.Log{Cache: cache, Storage: diskReader(read)}}
	}
}

// moment is the time of this step, as the member's answers report it.
func (c *core) moment() raft.Moment {
	return raft.Moment{StartCount: c.Status().StartCount, At: c.now}
}
