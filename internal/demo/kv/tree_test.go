package kv

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/require"
)

// check checks the order of the keys, the order of the priorities and the size, and returns the depth.
func (t tree) check(tb testing.TB) int {
	tb.Helper()
	size, last := 0, ""
	var depth func(n *node) int
	depth = func(n *node) int {
		if n == nil {
			return 0
		}
		left := depth(n.left)
		if n.Key <= last {
			tb.Fatalf("key %q is behind %q", n.Key, last)
		}
		size, last = size+1, n.Key
		for _, child := range []*node{n.left, n.right} {
			if child != nil && child.priority > n.priority {
				tb.Fatalf("%q is below %q and has a higher priority", child.Key, n.Key)
			}
		}
		return 1 + max(left, depth(n.right))
	}
	d := depth(t.root)
	require.Equal(tb, t.size, size)
	return d
}

func TestBuilder_BuildsWhatPutBuilds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, keys := range []int{0, 1, 2, 3, 10, 300} {
		var built builder
		var want tree
		for i := range keys {
			built.add(Item{Key: fmt.Sprintf("%06d", i), Revision: raft.Index(i)})
		}
		for _, i := range random.Perm(keys) {
			want = want.put(Item{Key: fmt.Sprintf("%06d", i), Revision: raft.Index(i)})
		}
		got := built.tree()
		require.Equal(t, want, got)
		for range keys { // it can be changed like any other
			item := Item{Key: fmt.Sprintf("%06d", random.IntN(2*keys))}
			if random.IntN(2) == 0 {
				got = got.delete(item.Key)
			} else {
				got = got.put(item)
			}
			got.check(t)
		}
	}
}

// For a random tree of n keys, the expected depth is at most about 3 times the logarithm of n to the base 2.
func TestTree_IsShallowWhateverTheOrder(t *testing.T) {
	const keys = 1 << 14
	var ascending tree
	var built builder
	for i := range keys {
		item := Item{Key: fmt.Sprintf("%06d", i)}
		ascending = ascending.put(item)
		built.add(item)
	}
	require.Less(t, ascending.check(t), 5*14)
	require.Less(t, built.tree().check(t), 5*14)
}
