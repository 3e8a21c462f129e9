package kv

import (
	"hash/maphash"
	"iter"

	"github.com/coxswain/raft"
)

// Item is a key with its value and the raft index of its last change. Items share the bytes of Value, so never change these
// bytes.
type Item struct {
	Key      string
	Value    []byte
	Revision raft.Index
}

// treeSeed makes the shape of this process's trees unpredictable. Therefore no choice of keys can make a tree deep. The shape
// is not part of the state.
var treeSeed = maphash.MakeSeed()

// tree is a persistent treap: a search tree by key and a heap by priority. A change copies the path to the changed key and
// shares everything else. The old tree stays unchanged, so a snapshot or a reader only needs a root. The zero value is the
// empty tree.
type tree struct {
	root  *node
	size  int
	bytes int64 // of all items in a snapshot
}

type node struct {
	Item
	priority    uint64 // derived from the key: equal keys have equal priorities
	left, right *node
}

func newNode(item Item) *node {
	return &node{Item: item, priority: maphash.String(treeSeed, item.Key)}
}

// get returns the item with this key.
func (t tree) get(key string) (Item, bool) {
	for n := t.root; n != nil; {
		switch {
		case key == n.Key:
			return n.Item, true
		case key < n.Key:
			n = n.left
		default:
			n = n.right
		}
	}
	return Item{}, false
}

// put returns the tree with the item in it.
func (t tree) put(item Item) tree {
	size, bytes := t.size+1, t.bytes+item.snapshotBytes()
	if before, found := t.get(item.Key); found {
		size, bytes = size-1, bytes-before.snapshotBytes()
	}
	return tree{t.root.put(newNode(item)), size, bytes}
}

// delete returns the tree without the key.
func (t tree) delete(key string) tree {
	item, found := t.get(key)
	if !found {
		return t
	}
	return tree{t.root.delete(key), t.size - 1, t.bytes - item.snapshotBytes()}
}

// from returns the items with keys at or above the given one, in order.
func (t tree) from(key string) iter.Seq[Item] {
	return func(yield func(Item) bool) { t.root.visit(key, yield) }
}

func (n *node) put(added *node) *node {
	if n == nil {
		return added
	}
	// All priorities below n are at most the priority of n. A key with a higher priority is therefore not below n yet.
	if added.priority > n.priority {
		added.left, added.right = n.split(added.Key)
		return added
	}
	c := *n
	switch {
	case added.Key == n.Key:
		c.Item = added.Item
	case added.Key < n.Key:
		c.left = n.left.put(added)
	default:
		c.right = n.right.put(added)
	}
	return &c
}

// split returns a tree of the keys that are less than the given key, and a tree of all other keys.
func (n *node) split(key string) (below, above *node) {
	if n == nil {
		return nil, nil
	}
	c := *n
	if n.Key < key {
		c.right, above = n.right.split(key)
		return &c, above
	}
	below, c.left = n.left.split(key)
	return below, &c
}

func (n *node) delete(key string) *node {
	if n.Key == key {
		return merge(n.left, n.right)
	}
	c := *n
	if key < n.Key {
		c.left = n.left.delete(key)
	} else {
		c.right = n.right.delete(key)
	}
	return &c
}

// merge joins two trees. Every key of the first must be less than every key of the second.
func merge(below, above *node) *node {
	switch {
	case below == nil:
		return above
	case above == nil:
		return below
	case below.priority > above.priority:
		c := *below
		c.right = merge(below.right, above)
		return &c
	}
	c := *above
	c.left = merge(below, above.left)
	return &c
}

// visit yields the items with keys at or above from, in order. It returns false if yield returned false.
func (n *node) visit(from string, yield func(Item) bool) bool {
	if n == nil {
		return true
	}
	if n.Key < from {
		return n.right.visit(from, yield)
	}
	return n.left.visit(from, yield) && yield(n.Item) && n.right.visit(from, yield)
}

// builder builds a tree from items that come in the order of their keys. It makes no copies, and its time is linear in the
// number of items. The zero value has no items.
type builder struct {
	// right is the path from the root along the right children. Only these nodes can still change, because the next item
	// comes to the right of all other items.
	right []*node
	size  int
	bytes int64
}

// add adds an item. Its key must be above the keys of all earlier items.
func (b *builder) add(item Item) {
	added := newNode(item)
	end := len(b.right)
	for end > 0 && b.right[end-1].priority < added.priority {
		end--
		added.left = b.right[end]
	}
	if end > 0 {
		b.right[end-1].right = added
	}
	b.right = append(b.right[:end], added)
	b.size++
	b.bytes += item.snapshotBytes()
}

// tree returns the tree of all items. Nothing may be added afterwards.
func (b *builder) tree() tree {
	if b.size == 0 {
		return tree{}
	}
	return tree{b.right[0], b.size, b.bytes}
}
