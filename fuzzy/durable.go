package fuzzy

import (
	"sort"

	"github.com/coxswain/raft"
)

// saved is the part of a disk that holds the state of a DurableFSM.
type saved struct {
	machine  *machine
	applied  raft.EntryID // the entry that the state machine reports: the last command in it, or restored if that is later
	restored raft.EntryID // the entry at which the state was last restored
	torn     bool         // a restoration was cut short: the state belongs to no entry until it is restored again
}

// clone returns a copy for an image of the disk.
func (s *saved) clone() saved {
	c := *s
	c.machine = s.machine.clone()
	return c
}

// syncsEvery is the mean number of batches per sync of the state.
const syncsEvery = 4

// save sometimes syncs the state of a DurableFSM.
func (n *node) save() {
	if n.c.profile.Node.Durable && n.random.IntN(syncsEvery) == 0 {
		n.disk.saved.machine.become(n.machine)
		n.disk.saved.applied = n.told(n.applied)
	}
}

// told returns the entry that a DurableFSM reports after it has applied the entries up to i. A DurableFSM receives only
// commands, so it knows nothing about entries after the last command.
func (n *node) told(i raft.Index) raft.EntryID {
	restored := n.disk.saved.restored
	for ; i > restored.Index; i-- {
		if e := n.log[i-1].entry; isCommand(e) {
			return e.ID()
		}
	}
	return restored
}

// savedUpTo returns the index up to which the disk of a DurableFSM has the effects of all entries. Only commands have
// effects.
func (n *node) savedUpTo() raft.Index {
	i := n.disk.saved.applied.Index
	for i < n.applied && !isCommand(n.log[i].entry) {
		i++
	}
	return i
}

// restoredSynced ends a restoration: the state that the core waits for is now durable.
func (n *node) restoredSynced() {
	s := n.vault.restore
	n.disk.saved.machine.become(n.machine)
	n.disk.saved.applied, n.disk.saved.restored, n.disk.saved.torn = s.ID, s.ID, false
	n.serveRestored()
}

// keepEffects keeps the effects of some of the entries that were applied after the last sync, as a crash may.
func (d *disk) keepEffects(n *node) {
	switch {
	case !n.c.profile.Node.Durable:
		return
	case n.vault.restore != nil:
		d.tear(n)
		return
	}
	from := d.saved.applied.Index
	to := from + raft.Index(d.random.IntN(int(n.applied-from)+1))
	for _, s := range n.log[from:to] {
		if d.saved.machine.take(&s); isCommand(s.entry) {
			d.saved.applied = s.entry.ID()
		}
	}
}

// tear leaves one of the states that a crash during a restoration may leave. These are the former state, no state, and a
// damaged state that passes for the former one. Once the sync has begun, the whole new state is also possible.
func (d *disk) tear(n *node) {
	s := &d.saved
	switch kept := d.random.IntN(4); {
	case kept == 1:
		s.applied, s.restored, s.torn = raft.EntryID{}, raft.EntryID{}, false
		s.machine.reset()
	case kept == 2:
		s.torn = true
		s.machine.history++
	case kept == 3 && n.vault.syncing:
		s.applied, s.restored, s.torn = n.vault.restore.ID, n.vault.restore.ID, false
		s.machine.become(n.machine)
	}
}

// resumeState gives the machine of a new process the state found at its start.
func (n *node) resumeState() {
	n.machine.become(n.disk.saved.machine)
	n.applied, n.applyTo = n.disk.saved.applied.Index, n.disk.saved.applied
	if !n.disk.saved.torn {
		n.c.check.checkState(n)
	}
}

// compact compacts the log on a disk before a start. It compacts up to an entry that the member's state machine has applied
// durably, and that every other member also holds. Without the second condition, no leader could bring a member up to date
// that lacks the entry.
func (n *node) compact() {
	if !n.c.profile.Node.Durable || !n.random.Chance(n.c.profile.Node.Compact) {
		return
	}
	base := n.disk.base.ID.Index
	most := min(n.disk.saved.applied.Index, n.c.heldByEach())
	if base = max(base, 1); most <= base { // no log begins after entry 1, which has no term
		return
	}
	n.disk.base = n.disk.baseAt(base + 1 + raft.Index(n.random.IntN(int(most-base))))
	n.compactSegments(false)
	n.c.check.checkBase(n)
	n.c.stats.Compactions++
}

// baseAt returns the base of a log after its entries up to an index are compacted.
func (d *disk) baseAt(i raft.Index) raft.Base {
	first, _ := d.bootstrap()
	e, config := d.log[i-1].entry, d.log[i-1].config
	return raft.Base{
		ID: e.ID(), Time: e.Time, Cluster: d.cluster(), Bootstrapper: first.Bootstrapper,
		ConfigIndex: config.index, Config: config.Configuration,
	}
}

// heldByEach returns the index up to which every disk holds the committed entries permanently. Lost disks do not count,
// because no leader brings their members up to date any more.
func (c *cluster) heldByEach() raft.Index {
	least := c.check.committed()
	for _, n := range c.nodes {
		if d := &n.disk; !d.damaged && len(d.ghosts) == 0 {
			least = min(least, d.holdsOf(c.check.canonical))
		}
	}
	return least
}

// holdsOf returns the index up to which a disk holds the committed entries permanently. An entry does not count if the member
// has not reached the term in which the entry was committed, because the member may still truncate it.
func (d *disk) holdsOf(canonical []committedEntry) raft.Index {
	most := min(len(d.log), len(canonical))
	return raft.Index(sort.Search(most, func(i int) bool {
		return d.log[i].hash != canonical[i].hash || d.hard.Term < canonical[i].by
	}))
}
