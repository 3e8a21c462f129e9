package handshake

import (
	"slices"
	"testing"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// start returns a start of the store in these tests; copied returns a start of a copy of that store.
func start(n uint64) raft.StartID  { return raft.StartID{Count: n, Nonce: 1000 + n} }
func copied(n uint64) raft.StartID { return raft.StartID{Count: n, Nonce: 2000 + n} }

func starts(from, to uint64) (l raft.Lineage) {
	for startCount := from; startCount <= to; startCount++ {
		l = append(l, start(startCount))
	}
	return l
}

// If a peer has seen a start, this decides whether the store continues from that start. If the start is too old, it decides
// nothing.
func TestLineage_TellsADescendantFromAnOlderImage(t *testing.T) {
	kept := starts(41, 104) // the last 64 of 104 starts
	for _, row := range []struct {
		rule            string
		lineage         raft.Lineage
		seen, confirmed raft.StartID
		want            descent
	}{
		{"nothing was seen", kept, raft.StartID{}, raft.StartID{}, descends},
		{"the present start", kept, start(104), raft.StartID{}, descends},
		{"an earlier start", kept, start(99), raft.StartID{}, descends},
		{"the oldest start that is kept", kept, start(41), raft.StartID{}, descends},
		{"the start that was confirmed, older than all that are kept", kept, start(5), start(5), descends},
		{"a later start: the image has the number before", kept, start(105), raft.StartID{}, contradicts},
		{"a start of the same number: the image counts on", kept, copied(104), raft.StartID{}, contradicts},
		{"an earlier number, with another nonce: more restarts than were seen", kept, copied(60), raft.StartID{}, contradicts},
		{"the number of the confirmed start, with another nonce", kept, copied(5), start(5), contradicts},
		{"older than all that are kept", kept, start(40), raft.StartID{}, untold},
		{"older than all that are kept, newer than the confirmed one", kept, start(40), start(5), untold},
		{"older than the confirmed one", kept, start(4), start(5), untold},
		{"a store without starts has none of them", nil, start(1), raft.StartID{}, contradicts},
	} {
		expect.Equal(t, row.want, descentFrom(row.lineage, row.seen, row.confirmed), row.rule)
	}
}

// aMeeting returns the view of n2, which knows n3, and a Hello of n3 that n2 accepts.
func aMeeting() (View, raft.Hello) {
	v := View{
		Self: n2, ClusterName: "blue", Cluster: ours, Term: 5, Bootstrapper: n1, Config: threeMembers(11, 22, 33),
		Lineage: starts(1, 9), Memory: raft.Sightings{Seen: []raft.Sighting{{Peer: n3, Start: start(7), Term: 4}}},
	}
	h := raft.Hello{
		ClusterName: "blue", Cluster: ours, From: n3, Expected: n2, StartCount: 8, Lineage: starts(1, 8), Term: 4,
		Bootstrapper: n1, Remembers: raft.Sighting{Peer: n2, Start: start(9), Term: 5},
	}
	return v, h
}

func TestHandshake_FindsOutAnOlderImage(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(v *View, h *raft.Hello)
		want   raft.RejectReason // 0 = accepted
		mark   bool
	}{
		{"a restarted member is accepted", func(*View, *raft.Hello) {}, 0, false},
		{"a member that returns in the same start is accepted", func(v *View, h *raft.Hello) { v.Memory.Seen[0].Start = start(8) }, 0, false},
		{"a peer that has gone back", func(v *View, h *raft.Hello) { h.StartCount, h.Lineage = 6, starts(1, 6) }, raft.RejectStaleStart, false},
		{"a peer that has gone back by one start, and counted on", func(v *View, h *raft.Hello) {
			h.StartCount, h.Lineage = 7, append(starts(1, 6), copied(7))
		}, raft.RejectStaleStart, false},
		{"a peer that has gone back and was started often", func(v *View, h *raft.Hello) {
			h.StartCount, h.Lineage = 10, append(starts(1, 6), copied(7), copied(8), copied(9), copied(10))
		}, raft.RejectStaleStart, false},
		{"a peer whose term has fallen", func(v *View, h *raft.Hello) { h.Term = 3 }, raft.RejectStaleStart, false},
		{"its Hello was late", func(v *View, h *raft.Hello) { v.Memory.Seen[0].Start, h.Term = start(8), 3 }, raft.RejectLate, false},
		{"a peer that was restarted too often since", func(v *View, h *raft.Hello) { h.StartCount, h.Lineage = 80, starts(17, 80) }, raft.RejectUnknownStart, false},
		{"a peer that was started as often, and knows what we remember", func(v *View, h *raft.Hello) {
			h.StartCount, h.Lineage, h.Confirmed = 80, starts(17, 80), start(7)
		}, 0, false},
		{"a peer whose earlier start is connected", func(v *View, h *raft.Hello) { v.Live = start(7) }, raft.RejectTwin, false},
		{"a second connection in one start", func(v *View, h *raft.Hello) { v.Live = start(8) }, 0, false},
		{"a peer without starts", func(v *View, h *raft.Hello) { h.Lineage = nil }, raft.RejectMalformed, false},
		{"a peer whose number is not that of its last start", func(v *View, h *raft.Hello) { h.StartCount = 9 }, raft.RejectMalformed, false},
		{"starts that do not count up", func(v *View, h *raft.Hello) { h.Lineage = append(starts(1, 6), start(8)) }, raft.RejectMalformed, false},

		{"it has seen a later start of ours", func(v *View, h *raft.Hello) { h.Remembers.Start = start(10) }, raft.RejectOwnImage, true},
		{"it has seen another start of ours with this number", func(v *View, h *raft.Hello) { h.Remembers.Start = copied(9) }, raft.RejectOwnImage, true},
		{"it has seen a term here that is not on our disk", func(v *View, h *raft.Hello) { h.Remembers.Term = 6 }, raft.RejectOwnImage, true},
		{"it has seen an earlier start of ours", func(v *View, h *raft.Hello) { h.Remembers.Start = start(2) }, 0, false},
		{"it remembers another incarnation of ours", func(v *View, h *raft.Hello) {
			h.Remembers = raft.Sighting{Peer: peer("n2", 21), Start: start(50), Term: 50}
		}, 0, false},
		{"a stranger that says so is not believed", func(v *View, h *raft.Hello) { h.From, h.Remembers.Start = peer("n4", 44), start(10) }, raft.RejectOwnImage, false},
		{"nor anybody while no configuration names them", func(v *View, h *raft.Hello) {
			v.Config, v.Cluster, v.Term, h.Remembers.Term, h.Remembers.Start = raft.Configuration{}, raft.ClusterID{}, 0, 0, start(10)
		}, raft.RejectOwnImage, false},
		{"what it has seen of us is older than all that we keep", func(v *View, h *raft.Hello) {
			v.Lineage, h.Remembers.Start = starts(41, 104), start(9)
		}, raft.RejectUnknownStart, false},
		{"older, and we know that it remembers that", func(v *View, h *raft.Hello) {
			v.Lineage, h.Remembers.Start = starts(41, 104), start(9)
			v.Memory.Confirmed = []raft.Sighting{{Peer: n3, Start: start(9)}}
		}, 0, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			v, h := aMeeting()
			row.change(&v, &h)
			verdict := v.Judge(h)
			expect.Equal(t, row.mark, verdict.Mark != nil)
			if row.mark {
				expect.Equal(t, raft.MarkStaleImage, verdict.Mark.Kind)
				expect.Equal(t, h.From, verdict.Mark.By)
			}
			if row.want == 0 {
				require.Nil(t, verdict.Rejection)
				return
			}
			require.NotNil(t, verdict.Rejection)
			expect.Equal(t, row.want, verdict.Rejection.Reason, verdict.Rejection.Error())
			expect.Nil(t, verdict.Memory, "nothing is remembered of whom we refuse")
			if h.From == n3 {
				expect.Equal(t, v.Memory.Seen[0], verdict.Rejection.Seen, "the refused can judge for itself")
			}
		})
	}
}

// Each side remembers the other side's start, and which of its own starts the other side remembers.
func TestHandshake_RemembersBothWays(t *testing.T) {
	v, h := aMeeting()
	v.Memory.Confirmed = []raft.Sighting{{Peer: n1, Start: start(3)}, {Peer: peer("n9", 99), Start: start(3)}}
	m := v.Judge(h).Memory
	require.NotNil(t, m)
	expect.Equal(t, []raft.Sighting{{Peer: n3, Start: start(8), Term: 4}}, m.Seen)
	expect.Equal(t, []raft.Sighting{{Peer: n1, Start: start(3)}, {Peer: peer("n9", 99), Start: start(3)}, {Peer: n3, Start: start(9)}}, m.Confirmed,
		"the configuration that does not name n9 any longer may be rolled back")
	v.Memory = *m
	expect.Nil(t, v.Judge(h).Memory, "there is nothing new in it")
	h.Remembers.Start = start(4)
	expect.Nil(t, v.Judge(h).Memory, "what was confirmed does not fall")
	h.Term = 5
	expect.Equal(t, raft.Term(5), v.Judge(h).Memory.Seen[0].Term)
	h.Term, h.Address = 4, "moved:1"
	expect.Equal(t, "moved:1", v.Judge(h).Memory.Seen[0].Address, "it is dialed there from now on")

	back := v.Hello(n3, 0)
	expect.Equal(t, raft.Sighting{Peer: n3, Start: start(8), Term: 4}, back.Remembers)
	expect.Equal(t, start(9), back.Confirmed)
	expect.Equal(t, v.Lineage, back.Lineage)
}

func TestHandshake_TheRefusedJudgesForItself(t *testing.T) {
	v, _ := aMeeting()
	seen := func(by raft.Peer, s raft.Sighting) *raft.Mark {
		return v.Told(raft.Rejection{Reason: raft.RejectStaleStart, From: by, Seen: s})
	}
	mark := seen(n3, raft.Sighting{Peer: n2, Start: copied(9), Term: 5})
	require.NotNil(t, mark)
	expect.Equal(t, n3, mark.By)
	expect.Contains(t, mark.Err().Error(), "start 9")
	expect.Nil(t, seen(n3, raft.Sighting{Peer: n2, Start: start(9), Term: 5}), "that is this start")
	expect.Nil(t, seen(n3, raft.Sighting{}), "it says so, and shows nothing")
	expect.Nil(t, seen(peer("n4", 44), raft.Sighting{Peer: n2, Start: copied(9), Term: 5}), "a stranger")
	expect.Nil(t, seen(peer("n3", 34), raft.Sighting{Peer: n2, Start: copied(9), Term: 5}), "another life of a member")
	v.Lineage = starts(41, 104)
	expect.Nil(t, seen(n3, raft.Sighting{Peer: n2, Start: start(20), Term: 5}), "too long ago to tell")
}

// removesN3 returns this member's side of a meeting with n3. Its configuration has removed n3.
func removesN3(committed bool) (View, raft.Hello) {
	v, h := aMeeting()
	v.Config = raft.Configuration{Members: slices.DeleteFunc(slices.Clone(v.Config.Members), func(m raft.Member) bool { return m.Peer() == n3 })}
	v.Config.Removed = []raft.Removal{{Peer: n3, Index: 9}}
	if committed {
		v.Removed = v.Config.Removed
	}
	return v, h
}

// An older image may hold a configuration that removed a voter and was rolled back later. That voter may be the only peer
// that remembers a later start of the disk.
func TestHandshake_APeerIsBelievedUntilItsRemovalIsCommitted(t *testing.T) {
	later := raft.Sighting{Peer: n2, Start: copied(9), Term: 5}
	v, h := removesN3(false)
	expect.NotNil(t, v.Told(raft.Rejection{Reason: raft.RejectStaleStart, From: n3, Seen: later}))
	h.Remembers = later
	expect.NotNil(t, v.Judge(h).Mark)
	v, _ = removesN3(true)
	expect.Nil(t, v.Told(raft.Rejection{Reason: raft.RejectStaleStart, From: n3, Seen: later}), "it is a stranger")
}

// The memory of strangers is bounded. Strangers do not displace a member from it.
func TestHandshake_TheMemoryIsBounded(t *testing.T) {
	v, h := aMeeting()
	for i := range sightingsMax + 100 {
		h.From = peer("n4", raft.Incarnation(1000+i))
		v.Memory = *v.Judge(h).Memory
	}
	expect.Len(t, v.Memory.Seen, sightingsMax)
	expect.Equal(t, raft.Sighting{Peer: n3, Start: start(7), Term: 4}, v.Memory.SeenOf(n3))
	expect.Equal(t, raft.Incarnation(1000+sightingsMax+99), lastSeen(v.Memory.Seen, "n4").Peer.Incarnation)
}

// Strangers do not displace a member whose removal may still be rolled back. Otherwise an older image of that member's disk
// would pass for a new member, and vote.
func TestHandshake_AMemberIsRememberedUntilItsRemovalIsCommitted(t *testing.T) {
	for _, committed := range []bool{false, true} {
		v, h := removesN3(committed)
		for i := range sightingsMax {
			h.From = peer("n4", raft.Incarnation(1000+i))
			v.Memory = *v.Judge(h).Memory
		}
		expect.Equal(t, committed, v.Memory.SeenOf(n3) == raft.Sighting{})
	}
}
