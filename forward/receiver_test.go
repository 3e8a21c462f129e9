package forward

import (
	"math"
	"testing"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// The members of these tests. n1 leads in term 5, at its third start. n2 forwards, at its seventh start.
var (
	n1, n2, n3 = peer("n1", 11), peer("n2", 22), peer("n3", 33)
	members    = raft.NewConfiguration([]raft.Member{member(n1), member(n2), member(n3)})
	leading    = State{Term: 5, Committed: members}
	limits     = Limits{Requests: 2, Bytes: 10}
)

func peer(id raft.NodeID, incarnation raft.Incarnation) raft.Peer {
	return raft.Peer{ID: id, Incarnation: incarnation}
}

func member(p raft.Peer) raft.Member {
	return raft.Member{ID: p.ID, Incarnation: p.Incarnation, Address: string(p.ID) + ":1"}
}

// aRequest returns a request of n2 to n1 that n1 carries out.
func aRequest(counter uint64) (raft.Message, raft.Forward) {
	f := raft.Forward{StartCount: 7, Counter: counter, ToStart: 3, Kind: raft.ForwardPropose, Data: []byte("x")}
	return raft.Message{From: n2, To: n1, Term: 5, Body: f}, f
}

// Each clause of the rule. A request is the first one of its sender.
func TestReceiver_Decides(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(m *raft.Message, f *raft.Forward, s *State)
		want   Verdict
	}{
		{"a request of a member to the leader of its term", func(*raft.Message, *raft.Forward, *State) {}, CarryOut},
		{"for another start of this member", func(_ *raft.Message, f *raft.Forward, _ *State) { f.ToStart = 2 }, Silent},
		{"for another incarnation of this member", func(m *raft.Message, _ *raft.Forward, _ *State) { m.To.Incarnation = 10 }, Silent},
		{"for another member", func(m *raft.Message, _ *raft.Forward, _ *State) { m.To = n3 }, Silent},
		{"without a counter", func(_ *raft.Message, f *raft.Forward, _ *State) { f.StartCount, f.Counter = 0, 0 }, Silent},
		{"this member does not lead", func(_ *raft.Message, _ *raft.Forward, s *State) { s.Term = 0 }, NotLeader},
		{"no term, to a member that does not lead", func(m *raft.Message, _ *raft.Forward, s *State) { m.Term, s.Term = 0, 0 }, NotLeader},
		{"for the leader of an earlier term", func(m *raft.Message, _ *raft.Forward, _ *State) { m.Term = 4 }, NotLeader},
		{"for the leader of a later term", func(m *raft.Message, _ *raft.Forward, _ *State) { m.Term = 6 }, NotLeader},
		{"without a term", func(m *raft.Message, _ *raft.Forward, _ *State) { m.Term = 0 }, NotLeader},
		{"a stranger", func(m *raft.Message, _ *raft.Forward, _ *State) { m.From = peer("n4", 44) }, Stranger},
		{"a member whose disk was emptied", func(m *raft.Message, _ *raft.Forward, _ *State) { m.From.Incarnation = 23 }, Stranger},
		{"a removed member", func(_ *raft.Message, _ *raft.Forward, s *State) {
			s.Committed = raft.NewConfiguration([]raft.Member{member(n1), member(n3)})
		}, Stranger},
		{"a member that is being added", func(_ *raft.Message, _ *raft.Forward, s *State) {
			s.Committed, s.InForce = raft.NewConfiguration([]raft.Member{member(n1), member(n3)}), members
		}, Pending},
		{"a member that is being removed", func(_ *raft.Message, _ *raft.Forward, s *State) {
			s.InForce = raft.NewConfiguration([]raft.Member{member(n1), member(n3)})
		}, CarryOut},
		{"nothing is known to be committed yet", func(_ *raft.Message, _ *raft.Forward, s *State) {
			s.Committed, s.InForce = raft.Configuration{}, members
		}, Pending},
		{"nothing is known to be committed, and nothing names it", func(_ *raft.Message, _ *raft.Forward, s *State) { s.Committed = raft.Configuration{} }, Stranger},
		{"the leader transfers its leadership", func(_ *raft.Message, _ *raft.Forward, s *State) { s.Transferring = true }, Transferring},
		{"the deadline has passed", func(_ *raft.Message, f *raft.Forward, _ *State) { f.Left = -1 }, Late},
		{"the deadline is near", func(_ *raft.Message, f *raft.Forward, _ *State) { f.Left = 1 }, CarryOut},
		{"this member takes no requests of others", func(_ *raft.Message, _ *raft.Forward, s *State) { s.NoForward = true }, Off},
		{"a change of the members", func(_ *raft.Message, f *raft.Forward, _ *State) { f.Kind = raft.ForwardChange }, CarryOut},
		{"a change, but only proposals are taken", func(_ *raft.Message, f *raft.Forward, s *State) {
			f.Kind, s.NoRemoteChanges = raft.ForwardChange, true
		}, NoChanges},
		{"a transfer, but only proposals are taken", func(_ *raft.Message, f *raft.Forward, s *State) {
			f.Kind, s.NoRemoteChanges = raft.ForwardTransfer, true
		}, NoChanges},
		{"a proposal, and only proposals are taken", func(_ *raft.Message, _ *raft.Forward, s *State) { s.NoRemoteChanges = true }, CarryOut},
		{"a kind of a later release", func(_ *raft.Message, f *raft.Forward, _ *State) { f.Kind = 99 }, Malformed},
		{"a counter that jumps", func(_ *raft.Message, f *raft.Forward, _ *State) { f.Counter = math.MaxUint64 }, CarryOut},
	} {
		m, f := aRequest(1)
		s := leading
		row.change(&m, &f, &s)
		expect.Equal(t, row.want, NewReceiver(n1, 3, limits).Receive(m, f, s), row.rule)
	}
}

// A counter that was seen is never answered again, whatever the answer was and whatever has happened since.
func TestReceiver_ACounterIsAnsweredOnce(t *testing.T) {
	for _, first := range []State{
		leading, {Term: 6, Committed: members}, {Committed: members}, {Term: 5}, {Term: 5, Committed: members, Transferring: true},
		{Term: 5, Committed: members, NoForward: true},
	} {
		r := NewReceiver(n1, 3, limits)
		m, f := aRequest(4)
		require.NotEqual(t, Silent, r.Receive(m, f, first), "%+v", first)
		for _, counter := range []uint64{4, 3, 1, 0} {
			m, f := aRequest(counter)
			expect.Equal(t, Silent, r.Receive(m, f, leading), "%+v: %d", first, counter)
			m.Term = 9
			expect.Equal(t, Silent, r.Receive(m, f, State{Term: 9, Committed: members}), "in a later term")
			f.Kind = raft.ForwardChange
			expect.Equal(t, Silent, r.Receive(m, f, State{Term: 9, Committed: members, NoRemoteChanges: true}))
		}
		m, f = aRequest(9)
		expect.Equal(t, CarryOut, r.Receive(m, f, leading), "a higher one, which may jump")
		m, f = aRequest(8)
		expect.Equal(t, Silent, r.Receive(m, f, leading), "one that was overtaken")
	}
}

// Each start of each incarnation of a sender counts for itself. An earlier start has ended.
func TestReceiver_StartsOfASender(t *testing.T) {
	r := NewReceiver(n1, 3, limits)
	m, f := aRequest(5)
	require.Equal(t, CarryOut, r.Receive(m, f, leading))
	f.StartCount, f.Counter = 8, 1
	expect.Equal(t, CarryOut, r.Receive(m, f, leading), "a later start begins again")
	f.StartCount, f.Counter = 7, 6
	expect.Equal(t, Silent, r.Receive(m, f, leading), "an earlier start is answered no more")
	m.From, f.Counter = n3, 1
	expect.Equal(t, CarryOut, r.Receive(m, f, leading), "another sender")
	m.From = peer("n2", 23)
	expect.Equal(t, Stranger, r.Receive(m, f, leading), "another incarnation")
	expect.Equal(t, Silent, r.Receive(m, f, State{Term: 5, Committed: raft.NewConfiguration([]raft.Member{member(m.From)})}),
		"a refusal was an answer, also for one that has become a member since")
}

// The limits are those of one sender. A refusal uses the counter up.
func TestReceiver_LimitsOfOneSender(t *testing.T) {
	r := NewReceiver(n1, 3, limits)
	take := func(from raft.Peer, counter uint64, bytes int) (raft.Message, raft.Forward, Verdict) {
		m, f := aRequest(counter)
		m.From, f.Data = from, make([]byte, bytes)
		return m, f, r.Receive(m, f, leading)
	}
	m1, f1, v := take(n2, 1, 9)
	require.Equal(t, CarryOut, v)
	m2, f2, v := take(n2, 2, 100)
	require.Equal(t, CarryOut, v, "below the limit of bytes, any size")
	_, _, v = take(n2, 3, 0)
	expect.Equal(t, Overloaded, v, "two are open")
	_, _, v = take(n3, 1, 1)
	expect.Equal(t, CarryOut, v, "another sender")
	r.Finish(m1, f1)
	expect.Equal(t, 1, r.Open(n2))
	_, _, v = take(n2, 4, 0)
	expect.Equal(t, Overloaded, v, "100 bytes are open")
	r.Finish(m2, f2)
	_, _, v = take(n2, 3, 0)
	expect.Equal(t, Silent, v)
	_, _, v = take(n2, 5, 0)
	expect.Equal(t, CarryOut, v)
	expect.Zero(t, r.Open(peer("n9", 9)))
}

// What a receiver remembers is bounded. Strangers leave room for members.
func TestReceiver_RemembersABoundedNumberOfSenders(t *testing.T) {
	r := NewReceiver(n1, 3, limits)
	verdicts := map[Verdict]int{}
	for i := range PeersMax {
		m, f := aRequest(1)
		m.From = peer("s", raft.Incarnation(1000+i))
		verdicts[r.Receive(m, f, leading)]++
	}
	expect.Equal(t, map[Verdict]int{Stranger: PeersMax / 2, Silent: PeersMax / 2}, verdicts)
	m, f := aRequest(1)
	expect.Equal(t, CarryOut, r.Receive(m, f, leading))
	m.From = peer("s", 1000)
	expect.Equal(t, Silent, r.Receive(m, f, leading), "one that is remembered stays so")
}

func TestVerdict_OnlyAnAnswerBeforeTheCoreSaysNotApplied(t *testing.T) {
	for v := Silent; v <= Malformed; v++ {
		want := raft.ForwardRefused
		switch v {
		case Silent, CarryOut:
			want = raft.ForwardUnknown
		case NotLeader, Pending, Transferring, Late:
			want = raft.ForwardNotApplied
		}
		expect.Equal(t, want, v.Outcome(), v)
	}
}
