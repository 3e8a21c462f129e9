package raft

import (
	"testing"

	expect "github.com/stretchr/testify/assert"
)

func TestRefusal_NamesTheValueAndTheRemedy(t *testing.T) {
	for reason := RejectClusterName; reason < RejectReasons; reason++ {
		if reason == 6 { // unused
			continue
		}
		r := &Rejection{Reason: reason, From: Peer{ID: "n1"}, Named: 0xabc}
		expect.NotContains(t, reason.String(), "reason", "every reason has a name")
		expect.Contains(t, r.Error(), `"n1"`)
		expect.Contains(t, r.Error(), reason.String())
	}
	r := (&Rejection{Reason: RejectNamedOther, From: Peer{ID: "n1"}, Named: 0xabc}).Error()
	expect.Contains(t, r, Incarnation(0xabc).String())
	expect.Contains(t, r, "replace it (Node.ReplaceMember)")
	emptied, replaced := &Rejection{Reason: RejectWrongIncarnation, From: Peer{ID: "n1"}}, &Rejection{Reason: RejectWrongIncarnation, From: Peer{ID: "n1"}, Cluster: ClusterID{1}}
	expect.True(t, emptied.OfEmptiedDisk())
	expect.Contains(t, emptied.Error(), "was emptied: replace it")
	expect.False(t, replaced.OfEmptiedDisk())
	expect.Contains(t, replaced.Error(), "it has replaced the member that was called, which the caller does not know yet")
	expect.Equal(t, "reason 19", RejectReason(RejectReasons).String(), "the next one")
	expect.Equal(t, "reason 99", RejectReason(99).String())
}

func TestLineage_CountsUpAndKeepsTheLast64(t *testing.T) {
	start := func(n uint64) StartID { return StartID{n, 1000 + n} }
	starts := func(from, to uint64) (l Lineage) {
		for n := from; n <= to; n++ {
			l = append(l, start(n))
		}
		return l
	}
	var l Lineage
	for startCount := range uint64(LineageStartsMax + 10) {
		before := l
		l = l.Begin(1001 + startCount)
		expect.NoError(t, l.Check())
		expect.Equal(t, start(startCount+1), l.Last())
		expect.Equal(t, startCount, before.Last().Count, "the lineage before is left as it was")
	}
	expect.Equal(t, starts(11, LineageStartsMax+10), l)
	expect.Error(t, append(starts(1, 2), start(4)).Check(), "a gap")
	expect.Error(t, Lineage{{}}.Check(), "no start has the number 0")
	expect.Error(t, starts(1, LineageStartsMax+1).Check())
}
