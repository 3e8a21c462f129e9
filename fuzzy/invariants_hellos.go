package fuzzy

import (
	"fmt"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/handshake"
	"github.com/coxswain/raft/internal/sim"
)

// The invariants of hellos, including late ones and those of strangers.
//
//	I3  A member marks its store if a peer durably remembers a later term of its disk, or a later start that its lineage would have to contain. This holds only if the member's configuration, or one to which it may be rolled back, names that peer.
//	I4  A member remembers the start and the term that an admitted peer has shown. Its memory of its peers, and its knowledge of what they remember of it, never goes back. Neither is forgotten in favour of strangers, nor while the removal of the peers may be rolled back.
//	I5  A lineage whose start counts do not rise one by one is rejected.
//	I6  While its term is 0, a member that holds entry 1 rejects the bootstrapper if its disk was emptied.
//	I7  A disk is rejected as a copy if its Hello names a confirmed start that differs from the start that was seen, although both have the same count. This holds even if the disk's lineage does not reach back that far.
//	I8  Only a committed removal rejects an incarnation, and the rejection names the index of its entry. The removed member believes it only from a member that its configuration names, or one to which it may be rolled back. About entries that it knows to be committed, a member believes only itself: if none of them has removed it, it marks its store.
//	I9  Once it or the peer has a term of its cluster, a member rejects no peer because its configuration names another incarnation. It then rejects no voter of the newest committed configuration because of a removal.
//	I10 Exactly the stores without a cluster, and those of this cluster, may join it, unless their incarnation was removed.
//	I11 A member remembers the address that the newest start of a peer has announced, and dials that address first. No earlier start's address replaces it.
//	I12 A start is too long ago to judge only if 64 later starts have followed, and it was not confirmed.

// lateHello is a Hello that arrives after later hellos of its sender.
type lateHello struct {
	hello raft.Hello
	to    uint32 // the life of the receiver plus 1; 0: there is no late hello
}

// These constants are chances, one in so many. With the first, a Hello arrives a second time, late. With the second, a forged
// Hello arrives.
const (
	lateHellos   = 6
	forgedHellos = 16
)

// deliverLate sometimes delivers an earlier Hello of a peer to the same life of a node, and keeps the present Hello for
// later. Sometimes it also delivers a forged Hello.
func (n *node) deliverLate(peer *node, hello *raft.Hello) {
	before, random := &peer.hands.late[n.index], n.disk.hands
	if random.IntN(forgedHellos) == 0 {
		n.c.check.tryForgedLineage(n, *hello)
		n.c.check.tryCopy(n, *hello)
		n.c.check.tryNewcomer(n, *hello)
		n.c.check.tryForgedRemoval(n, peer, *hello)
		n.c.check.checkJoins(n, *hello)
	}
	if random.IntN(lateHellos) > 0 {
		return
	}
	if before.to == n.life+1 {
		n.hears(peer, &before.hello, late)
	}
	*before = lateHello{*hello, n.life + 1}
}

// checkVerdict checks the verdict on a Hello.
func (k *checker) checkVerdict(n *node, h *handshake.View, hello *raft.Hello, verdict *handshake.Verdict) {
	emptied := !begun(h, hello) && h.Bootstrapper.ID == hello.From.ID && h.Bootstrapper.Incarnation != hello.From.Incarnation
	if emptied && verdict.Rejection == nil {
		k.broken("I6", "%s admits %s, whose disk was emptied after it bootstrapped the cluster", n, k.c.title(hello.From))
	}
	if r := verdict.Rejection; r != nil {
		k.checkRejection(n, h, hello, r)
	} else if slices.ContainsFunc(h.Removed, func(r raft.Removal) bool { return r.Peer == hello.From }) {
		k.broken("I8", "%s admits %s, but remembers that it was removed", n, k.c.title(hello.From))
	}
	after := &h.Memory
	if m := verdict.Memory; m != nil {
		after = m
		k.checkMemory(n, h, m)
		k.checkPlaces(n, m)
	}
	if is := after.SeenOf(hello.From); verdict.Rejection == nil && (is.Start != hello.Lineage.Last() || is.Term != hello.Term) {
		k.broken("I4", "%s admits %s in term %d, but remembers %v in term %d", n, k.c.title(hello.From), hello.Term, is.Start, is.Term)
	}
}

// begun reports whether a member knows from a Hello, if not by itself, that its cluster has a term.
func begun(h *handshake.View, hello *raft.Hello) bool {
	return h.Term > 0 || hello.Term > 0 && hello.Cluster == h.Cluster
}

// tryNewcomer makes a node that knows no term yet judge another incarnation of a peer, which knows one.
func (k *checker) tryNewcomer(n *node, hello raft.Hello) {
	h := n.handshake(n.hands.memory)
	h.Term, hello.Term = 0, max(hello.Term, 1)
	hello.From.Incarnation = ^hello.From.Incarnation
	if r := h.Judge(hello).Rejection; r != nil {
		k.checkRejection(n, h, &hello, r)
	}
}

// checkRejection checks a member's reason for rejecting a peer. The reason must not be the member's own configuration,
// because that may be out of date.
func (k *checker) checkRejection(n *node, h *handshake.View, hello *raft.Hello, r *raft.Rejection) {
	switch r.Reason {
	case raft.RejectNamedOther:
		if begun(h, hello) {
			k.broken("I9", "%s rejects %s in term %d, because its configuration names another incarnation", n, k.c.title(hello.From), hello.Term)
		}
	case raft.RejectRemoved:
		if !slices.Contains(h.Removed, raft.Removal{Peer: hello.From, Index: r.Index}) {
			k.broken("I8", "%s rejects %s, which entry %d has not removed", n, k.c.title(hello.From), r.Index)
		}
		if newest := committedConfig(k.canonical); newest != nil && votes(&newest.Configuration, hello.From) {
			k.broken("I9", "%s rejects %s, which votes in the configuration of entry %d", n, k.c.title(hello.From), newest.index)
		}
	case raft.RejectUnknownStart:
		seen, own := h.Memory.SeenOf(hello.From).Start, hello.Remembers.Start
		peers := tooLongAgo(hello.Lineage, seen, hello.Confirmed)
		if !peers && !tooLongAgo(h.Lineage, own, h.Memory.ConfirmedBy(hello.From).Start) {
			k.broken("I12", "%s rejects %s, but neither its %v nor our %v is too long ago to judge", n, k.c.title(hello.From), seen, own)
		}
	}
}

// lineageMax is the number of starts that a lineage remembers.
const lineageMax = 64

// tooLongAgo reports whether a store cannot know a start of its own that a peer has seen.
func tooLongAgo(l raft.Lineage, seen, confirmed raft.StartID) bool {
	return seen.Count > 0 && l.Last().Count >= seen.Count+lineageMax && seen.Count != confirmed.Count
}

// committedConfig returns the newest configuration that is committed; nil if there is none.
func committedConfig(canonical []committedEntry) *loggedConfig {
	if len(canonical) == 0 {
		return nil
	}
	return canonical[len(canonical)-1].slot.config
}

// checkMemory checks how a handshake changes a memory.
func (k *checker) checkMemory(n *node, h *handshake.View, after *raft.Sightings) {
	never := func(p raft.Peer) { // backwards
		was, is := h.Memory.SeenOf(p), after.SeenOf(p)
		if is.Start.Count < was.Start.Count || is.Term < was.Term {
			k.broken("I4", "%s remembers %v in term %d of %s, but remembered %v in term %d", n, is.Start, is.Term, k.c.title(p), was.Start, was.Term)
		}
	}
	for _, m := range h.Config.Members {
		never(m.Peer())
	}
	for _, r := range h.Config.Removed {
		if mayName(h, r.Peer) {
			never(r.Peer)
		}
	}
	for _, was := range h.Memory.Confirmed {
		i := slices.IndexFunc(after.Confirmed, func(s raft.Sighting) bool { return s.Peer == was.Peer })
		if i < 0 || after.Confirmed[i].Start.Count < was.Start.Count {
			k.broken("I4", "%s forgets that %s remembers %v", n, k.c.title(was.Peer), was.Start)
		}
	}
}

// mayName reports whether the configuration of a node names a peer, or has removed the peer in an entry that may be rolled
// back.
func mayName(h *handshake.View, p raft.Peer) bool {
	return includes(&h.Config, p) || slices.ContainsFunc(h.Config.Removed, func(r raft.Removal) bool {
		return r.Peer == p && !slices.Contains(h.Removed, r)
	})
}

// checkOldImageMarks checks a node with an old disk after a handshake with a peer that durably knows a later life of the
// disk. The node must have marked its store.
func (k *checker) checkOldImageMarks(by, n *node) {
	if n.hands.mark != nil || !n.isOld(by) {
		return
	}
	h, seen := n.handshake(n.disk.memory), by.disk.memory.SeenOf(n.peer())
	reaches := seen.Start.Count >= n.disk.lineage[0].Count || n.disk.hard.Term < seen.Term
	if reaches && mayName(h, by.peer()) {
		k.broken("I3", "%s learns from %s about a later life of its disk, but does not mark its store", n, by)
	}
}

// tryForgedLineage makes a node judge a Hello with an impossible lineage.
func (k *checker) tryForgedLineage(n *node, hello raft.Hello) {
	hello.Lineage = append(slices.Clone(hello.Lineage), hello.Lineage.Last())
	if n.handshake(n.hands.memory).Judge(hello).Rejection == nil {
		k.broken("I5", "%s admits a lineage with the same start twice", n)
	}
}

// tryCopy makes a node judge the Hello of a copy of the peer's disk. The lineage of the copy no longer reaches back to the
// start at which the two disks diverged.
func (k *checker) tryCopy(n *node, hello raft.Hello) {
	seen := n.hands.memory.SeenOf(hello.From)
	if seen.Start == (raft.StartID{}) {
		return
	}
	now := raft.StartID{Count: seen.Start.Count + raft.LineageStartsMax, Nonce: ^seen.Start.Nonce}
	hello.Confirmed = raft.StartID{Count: seen.Start.Count, Nonce: ^seen.Start.Nonce}
	hello.Lineage, hello.StartCount, hello.Term = raft.Lineage{now}, now.Count, max(hello.Term, seen.Term)
	hello.Remembers = raft.Sighting{} // the judging node's own starts are not in question
	if r := n.handshake(n.hands.memory).Judge(hello).Rejection; r == nil || r.Reason == raft.RejectUnknownStart {
		k.broken("I7", "%s has seen %v of %s, which says that %v was confirmed, but does not reject it as a copy",
			n, seen.Start, k.c.title(hello.From), hello.Confirmed)
	}
}

// forgedRemoval is the index that forged removals usually give for their entry.
const forgedRemoval = 7

// removedBy returns the index of a forged removal by which a peer that remembers some removals was removed. Often it is at
// the edge of what the peer remembers.
func removedBy(removed []raft.Removal, random *sim.Stream) raft.Index {
	if len(removed) == 0 {
		return forgedRemoval
	}
	return sim.Pick(random, forgedRemoval, removed[0].Index, removed[0].Index+1, removed[len(removed)-1].Index)
}

// tryForgedRemoval makes a node judge a peer that a forged entry has removed.
func (k *checker) tryForgedRemoval(n, peer *node, hello raft.Hello) {
	h := n.handshake(n.hands.memory)
	if h.Judge(hello).Rejection != nil {
		return // rejected for another reason
	}
	told := peer.handshake(peer.hands.memory)
	by := removedBy(told.Removed, n.disk.hands)
	h.Config.Removed = []raft.Removal{{Peer: hello.From, Index: by}}
	if r := h.Judge(hello).Rejection; r != nil {
		k.broken("I8", "%s rejects %s (%v) for a removal that may be rolled back", n, peer, r.Reason)
	}
	h.Removed = h.Config.Removed
	r := h.Judge(hello).Rejection
	if r == nil || r.Reason != raft.RejectRemoved || r.Index != by {
		k.broken("I8", "%s admits %s, which was removed", n, peer)
		return
	}
	knows := h.Cluster == told.Cluster && mayName(told, r.From)
	if believed := told.ToldRemoval(*r); (believed == by) != (knows && told.Commit < by) || believed != 0 && !knows {
		k.broken("I8", "%s learns from %s about its removal by entry %d, but notes entry %d", peer, n, by, believed)
	}
	denies := told.Commit >= by && !peer.knowsRemoved(peer.peer()) && !forgets(told.Removed, by)
	r.Seen = raft.Sighting{}
	if m := told.Told(*r); (m != nil) != (knows && denies) || m != nil && m.Kind != raft.MarkContradicted {
		k.broken("I8", "%s learns from %s about its removal by entry %d, knows the log up to %d, and marks its store: %v", peer, n, by, told.Commit, m != nil)
	}
	if r.From.Incarnation = ^r.From.Incarnation; told.ToldRemoval(*r) != 0 {
		k.broken("I8", "%s believes a stranger that it was removed", peer)
	}
}

// forgets reports whether a full list of removals may have dropped the removals by an entry.
func forgets(removed []raft.Removal, by raft.Index) bool {
	return len(removed) == raft.RemovedMax && by <= removed[0].Index
}

// checkJoins makes a node decide whether some stores may join its cluster.
func (k *checker) checkJoins(n *node, hello raft.Hello) {
	h := n.handshake(n.hands.memory)
	if h.Cluster == (raft.ClusterID{}) {
		return
	}
	h.Removed = []raft.Removal{{Peer: hello.From, Index: forgedRemoval}}
	for _, store := range []struct {
		incarnation raft.Incarnation
		cluster     raft.ClusterID
		joins       bool
	}{
		{^hello.From.Incarnation, raft.ClusterID{}, true}, {^hello.From.Incarnation, h.Cluster, true},
		{^hello.From.Incarnation, raft.ClusterID{1}, false},
		{hello.From.Incarnation, raft.ClusterID{}, false}, {hello.From.Incarnation, h.Cluster, false},
	} {
		hello.From.Incarnation, hello.Cluster = store.incarnation, store.cluster
		if err := h.MayJoin(hello); (err == nil) != store.joins {
			k.broken("I10", "%s decides about a store of cluster %v, removed %v: %v", n, store.cluster, hello.From == h.Removed[0].Peer, err)
		}
	}
	for count := removalsMax - 1; count <= removalsMax; count++ {
		h.Removed = slices.Repeat(h.Removed[:1], count)
		for last := range raft.Index(3) {
			hello.Cluster, hello.From.Incarnation = h.Cluster, ^h.Removed[0].Peer.Incarnation
			hello.NamedIndex = forgedRemoval - 1 + last
			if err := h.MayJoin(hello); (err == nil) != (count < removalsMax || hello.NamedIndex > forgedRemoval) {
				k.broken("I10", "%s knows %d removals, the first by entry %d, and decides about a store with the configuration of entry %d: %v",
					n, count, forgedRemoval, hello.NamedIndex, err)
			}
		}
	}
}

// checkJoiner checks that a store may join only if no committed entry has removed its member, as far as the deciding member
// knows. It may have forgotten the removal. A store that belongs to no cluster may join again.
func (k *checker) checkJoiner(by, n *node) {
	if by.status.Commit == 0 || len(n.disk.log) == 0 {
		return
	}
	newest := by.log[by.status.Commit-1].config
	for l := newest.before; l != nil; l = l.before {
		if includes(&l.Configuration, n.peer()) && !includes(&newest.Configuration, n.peer()) {
			k.broken("I10", "%s lets %s join, which was a member by entry %d", by, n, l.index)
		}
	}
}

// strangersMax is the number of unknown nodes in a crowd. It is larger than the number of sightings that a memory can hold.
const strangersMax = 2*raft.MembersMax + 8

// crowd makes a node judge hellos of strangers. These hellos name the node's cluster.
func (n *node) crowd(strangers int) {
	h := n.handshake(n.hands.memory)
	for i := range strangers {
		incarnation := raft.Incarnation(n.disk.hands.Uint64() | 1)
		hello := raft.Hello{
			ClusterName: h.ClusterName, Cluster: h.Cluster, From: raft.Peer{ID: raft.NodeID(fmt.Sprintf("stranger %d", i)), Incarnation: incarnation},
			Expected: n.peer(), StartCount: 1, Term: 1, Lineage: raft.Lineage{}.Begin(uint64(incarnation)),
		}
		verdict := h.Judge(hello)
		n.c.check.checkVerdict(n, h, &hello, &verdict)
		if verdict.Memory != nil {
			h.Memory = *verdict.Memory
		}
	}
	n.hands.memory = h.Memory
	n.keep()
}
