package joining_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
)

func TestMayDiscard(t *testing.T) {
	stale := &raft.StaleImageError{}
	for _, row := range []struct {
		rule   string
		change func(why *error, s *joining.Store, r *raft.WhoReply)
		says   string // "": it may be set aside
	}{
		{"an older image", func(*error, *joining.Store, *raft.WhoReply) {}, ""},
		{"damage", func(why *error, _ *joining.Store, _ *raft.WhoReply) {
			*why = fmt.Errorf("start: %w", &raft.CorruptError{File: "f", Where: "x", Reason: errors.New("r")})
		}, ""},
		{"a store that contradicts others", func(why *error, _ *joining.Store, _ *raft.WhoReply) { *why = &raft.ContradictedError{} }, "needs the remedy"},
		{"… that is an older image as well", func(why *error, _ *joining.Store, _ *raft.WhoReply) {
			*why = errors.Join(stale, &raft.ContradictedError{})
		}, "needs the remedy"},
		{"a later format", func(why *error, _ *joining.Store, _ *raft.WhoReply) {
			*why = errors.Join(stale, &raft.LaterVersionError{})
		}, "needs the remedy"},
		{"an earlier format", func(why *error, _ *joining.Store, _ *raft.WhoReply) {
			*why = errors.Join(stale, &raft.EarlierVersionError{})
		}, "needs the remedy"},
		{"a directory that is locked", func(why *error, _ *joining.Store, _ *raft.WhoReply) { *why = errors.Join(stale, raft.ErrLocked) }, "needs the remedy"},
		{"a removed member", func(why *error, _ *joining.Store, _ *raft.WhoReply) { *why = &raft.RemovedError{} }, "needs the remedy"},
		{"a store without a cluster id", func(_ *error, s *joining.Store, r *raft.WhoReply) {
			s.Cluster, r.Cluster = raft.ClusterID{}, raft.ClusterID{}
		}, "cannot tell"},
		{"another cluster", func(_ *error, _ *joining.Store, r *raft.WhoReply) { r.Cluster[0] = 9 }, "correct the seeds"},
		{"a cluster of another name", func(_ *error, _ *joining.Store, r *raft.WhoReply) { r.ClusterName = "d" }, `n1 is of cluster "d", not of "c"`},
		{"only a follower answers", func(_ *error, _ *joining.Store, r *raft.WhoReply) { r.Leader = "n2" }, "wait for a leader"},
		{"a leader without a quorum", func(_ *error, _ *joining.Store, r *raft.WhoReply) { r.Confirmed = false }, "wait for a leader"},
		{"a configuration that may be rolled back", func(_ *error, _ *joining.Store, r *raft.WhoReply) { r.Committed = false }, "not committed yet"},
		{"a configuration without this id", func(_ *error, _ *joining.Store, r *raft.WhoReply) { r.Members = r.Members[:1] }, "does not name n3"},
	} {
		cluster := raft.ClusterID{1}
		var why error = stale
		s := joining.Store{ID: "n3", ClusterName: "c", Cluster: cluster}
		r := raft.WhoReply{From: raft.Peer{ID: "n1", Incarnation: 1}, ClusterName: "c", Cluster: cluster, Term: 3, Leader: "n1",
			Members: configured(raft.Member{ID: "n3", Incarnation: 8}).Members, Index: 7, Committed: true, Confirmed: true}
		row.change(&why, &s, &r)
		err := joining.MayDiscard(why, s, r)
		if row.says == "" {
			assert.NoError(t, err, row.rule)
			continue
		}
		var kept *joining.KeptError
		assert.ErrorAs(t, err, &kept, row.rule)
		assert.Equal(t, strings.HasPrefix(row.says, "needs") || row.says == "cannot tell", kept.Final, row.rule)
		assert.ErrorContains(t, err, row.says, row.rule)
		assert.ErrorIs(t, err, why, row.rule)
	}
}
