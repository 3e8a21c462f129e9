package processes

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/local"
)

// someone returns a member of a world with this wanted place.
func someone(id string, p place) *member {
	return &member{Node: local.Node{ID: id, HTTPAddr: id + ":80"}, addresses: []string{id + ":1", id + ":2"}, place: p}
}

func TestLeft_IsWhatMakesTheMembersThoseThatAreWanted(t *testing.T) {
	at := func(id, incarnation, kind string) admin.ClusterMember {
		return admin.ClusterMember{ID: id, Incarnation: incarnation, Kind: kind, Address: id + ":1"}
	}
	n1, n2 := at("n1", "a", voter), at("n2", "b", voter)
	gone := loss{incarnation: "b"}
	for _, row := range []struct {
		rule   string
		wanted place // wanted place of n2
		now    []admin.ClusterMember
		left   []order
		waits  bool
	}{
		{"everything is as wanted", place{role: voter}, []admin.ClusterMember{n1, n2}, nil, false},
		{"a member is missing", place{role: voter}, []admin.ClusterMember{n1}, []order{{"add", "n2", "n2:1", "http://n2:80"}}, false},
		{"a member joins by itself", place{role: voter, joins: true}, []admin.ClusterMember{n1}, nil, true},
		{"a member is to leave", place{}, []admin.ClusterMember{n1, n2}, []order{{"remove", "n2"}}, false},
		{"a member has left", place{}, []admin.ClusterMember{n1}, nil, false},
		{"a disk is lost", place{role: voter, loss: gone}, []admin.ClusterMember{n1, n2}, []order{{"replace", "n2"}}, false},
		{"a replacement was given up", place{role: voter, loss: gone}, []admin.ClusterMember{n1, n2, at("n2", "c", learner)},
			[]order{{"replace", "n2"}}, false},
		{"the disk is replaced", place{role: voter, loss: gone}, []admin.ClusterMember{n1, at("n2", "c", voter)}, nil, false},
		{"a vote is to be taken", place{role: learner}, []admin.ClusterMember{n1, n2}, []order{{"demote", "n2"}}, false},
		{"a vote is to be given", place{role: voter}, []admin.ClusterMember{n1, at("n2", "b", learner)}, []order{{"add", "n2"}}, false},
		{"a member has moved", place{role: voter, slot: 1}, []admin.ClusterMember{n1, n2}, []order{{"address", "n2", "n2:2"}}, false},
		{"another member is to take its place", place{by: "n3"}, []admin.ClusterMember{n1, n2},
			[]order{{"replace", "n2", "n3", "n3:1", "http://n3:80"}}, false},
	} {
		w := &world{members: []*member{someone("n1", place{role: voter}), someone("n2", row.wanted), someone("n3", place{out: true})}}
		if row.wanted.by != "" {
			w.members[2].place = place{role: voter}
		}
		left, waits := w.left(admin.Members{Members: row.now})
		assert.Equal(t, row.left, left, row.rule)
		assert.Equal(t, row.waits, waits, row.rule)
	}
}

func TestPick_AimsAtTheLeader(t *testing.T) {
	w := &world{members: []*member{someone("n1", place{}), someone("n2", place{}), someone("n3", place{})}}
	now := admin.Members{Leader: "n2"}
	for _, m := range w.members {
		now.Members = append(now.Members, admin.ClusterMember{ID: m.ID, Kind: voter})
	}
	ids := func(f Fault) (ids []string) {
		for _, m := range w.pick(f, now) {
			ids = append(ids, m.ID)
		}
		return ids
	}
	assert.Equal(t, []string{"n2", "n3", "n1"}, ids(Fault{Leader: true}))
	assert.Equal(t, []string{"n3", "n1", "n2"}, ids(Fault{Node: 5}))
}
