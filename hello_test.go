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
	expect.Equal(t, "reason 18", RejectReason(RejectReasons).String(), "the next one")
	expect.Equal(t, "reason 99", RejectReason(99).String())
}
