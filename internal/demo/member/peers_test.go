package member

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/stretchr/testify/assert"
)

// All members have moved, and the operator has corrected --peers. But only the first start of a member reads --peers.
func TestPeers_OnAStoreThatHasAConfigurationTheyAreCompared(t *testing.T) {
	now := node.Members{Index: 7, Configuration: raft.NewConfiguration([]raft.Member{
		{ID: "n1", Address: "h:1"}, {ID: "n2", Address: "h:2"}, {ID: "n3", Address: "h:3"},
	})}
	moved := []raft.Member{{ID: "n1", Address: "h:1"}, {ID: "n2", Address: "g:2"}, {ID: "n3", Address: "g:3"}, {ID: "n9", Address: "g:9"}}
	assert.Equal(t, "configuration 7, in the store, counts, and has n2 at h:2 instead of g:2, n3 at h:3 instead of g:3; if these members have "+
		"moved, start each with --seeds and the present --raft-addr of all, in place of --peers", Options{}.unusedPeers(moved, now))
	assert.Empty(t, Options{}.unusedPeers(moved[:1], now), "n1 has not moved, and another member was removed")
	alone := Options{ID: "n2", RaftAddr: "g:2"}
	assert.Contains(t, alone.unusedPeers(nil, now), "has n2 at h:2 instead of g:2", "a member without --peers has moved")
	for _, told := range []Options{{ID: "n2", RaftAddr: "g:2", Advertise: "g:2"}, {ID: "n2", RaftAddr: "g:2", Join: []string{"http://h"}}, {ID: "n2", RaftAddr: ":2"}} {
		assert.Empty(t, told.unusedPeers(nil, now), "it corrects its entry, or may be reached elsewhere")
	}
	first := node.Members{Configuration: now.Configuration}
	assert.Empty(t, Options{}.unusedPeers(moved, first), "before the bootstrap the list is the configuration")
}
