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
	assert.Equal(t, "configuration 7, in the store, has n2 at h:2 instead of g:2, n3 at h:3 instead of g:3; if these members have all moved, "+
		"start each with --via n2=g:2,n3=g:3, until raftkv members shows them there", Options{}.unusedPeers(moved, now))
	assert.Empty(t, Options{}.unusedPeers(moved[:1], now), "n1 has not moved, and another member was removed")
	assert.Empty(t, Options{Via: []string{"n2=g:2", "h:3=g:3"}}.unusedPeers(moved, now), "--via says it")
	first := node.Members{Configuration: now.Configuration}
	assert.Empty(t, Options{}.unusedPeers(moved, first), "before the bootstrap the list is the configuration")
}
