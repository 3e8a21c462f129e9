package handshake

import (
	"fmt"
	"slices"

	"github.com/coxswain/raft"
)

// This file finds out in handshakes that a store is an older image of a disk. A member learns this from a peer of its
// configuration, in a Hello (checkOwnStart) or a Rejection (Told), and gets a Mark. setMark (node/identity.go) keeps the mark
// for the writer (node/writer.go). The writer writes the mark to the store (StorageWrite.Mark) and then ends the node. Start
// refuses a store with a mark. The other way to find an older image is onLostLog (marked.go of package raft), by an append of
// the leader; its mark is part of Output.Write.

// sightingsMax bounds what a member remembers about its peers: as many as a configuration can name, and the same number of
// peers that it does not name now.
const sightingsMax = 2 * raft.MembersMax

// descent says how a store's lineage relates to a start that a peer has seen.
type descent uint8

const (
	descends    descent = iota // the lineage continues from that start
	contradicts                // the lineage does not contain it: it is that of an older image, or of a copy
	untold                     // the lineage does not reach back to it
)

// descentFrom compares a store's lineage with a start of the same store that a peer has seen. confirmed is the newest start
// that the peer is known to remember. It may be older than every start in the lineage.
func descentFrom(l raft.Lineage, seen, confirmed raft.StartID) descent {
	switch {
	case seen == (raft.StartID{}) || seen == confirmed || slices.Contains(l, seen):
		return descends
	case len(l) > 0 && seen.Count < l[0].Count && seen.Count != confirmed.Count:
		return untold
	}
	return contradicts
}

// ownDescent judges this member's own store by what a peer has seen of it. A durable term never falls. So a store with a
// lower term than the peer has seen is an older image, even if its lineage looks right.
func (v *View) ownDescent(by raft.Peer, seen raft.Sighting) (descent, string) {
	if seen.Peer != v.Self {
		return descends, ""
	}
	if seen.Term > v.Term {
		return contradicts, fmt.Sprintf("it has seen term %d durable here, and this store is at term %d", seen.Term, v.Term)
	}
	d := descentFrom(v.Lineage, seen.Start, v.Memory.ConfirmedBy(by).Start)
	if d == descends {
		return d, ""
	}
	return d, fmt.Sprintf("it has seen %v of this member, and this is %v, %s", seen.Start, v.Lineage.Last(), parting(d))
}

func parting(d descent) string {
	if d == untold {
		return "whose record of its starts does not reach back so far"
	}
	return "which does not continue from there"
}

// Told judges a rejection by a peer. It returns a mark if the rejection shows that this member's store is an older image, and
// nil otherwise. It ignores rejections by peers that the configuration does not name.
func (v *View) Told(r raft.Rejection) *raft.Mark {
	if d, detail := v.ownDescent(r.From, r.Seen); d == contradicts && v.names(r.From) {
		return &raft.Mark{Kind: raft.MarkStaleImage, By: r.From, Detail: detail}
	}
	return v.contradictedBy(r)
}

// names reports whether the configuration names the peer with its incarnation. It also returns true if the configuration has
// removed the peer but may still be rolled back.
func (v *View) names(p raft.Peer) bool {
	_, included := v.Config.Peer(p)
	r, removed := removalOf(v.Config.Removed, p)
	return p.Incarnation != 0 && (included || removed && !slices.Contains(v.Removed, r))
}

// checkOwnStart checks that the peer has not seen a later start of this member.
func (v *View) checkOwnStart(h raft.Hello) (verdict Verdict) {
	d, detail := v.ownDescent(h.From, h.Remembers)
	switch d {
	case contradicts:
		verdict.Rejection = v.Reject(h, raft.RejectOwnImage, "%s", detail)
		if v.names(h.From) {
			verdict.Mark = &raft.Mark{Kind: raft.MarkStaleImage, By: h.From, Detail: detail}
		}
	case untold:
		verdict.Rejection = v.Reject(h, raft.RejectUnknownStart, "%s", detail)
	}
	return verdict
}

// checkLineage checks that this member has not seen a later start of the peer, and that no other start of the peer is connected.
func (v *View) checkLineage(h raft.Hello) (verdict Verdict) {
	now, seen := h.Lineage.Last(), v.Memory.SeenOf(h.From)
	if now.Count != h.StartCount || now.Count == 0 || h.Lineage.Check() != nil {
		verdict.Rejection = v.Reject(h, raft.RejectMalformed, "start %d, and a record of starts that ends at %v", h.StartCount, now)
		return verdict
	}
	d := descentFrom(h.Lineage, seen.Start, h.Confirmed)
	switch {
	case h.Term < seen.Term:
		reason := raft.RejectStaleStart
		if now == seen.Start { // it may have been made before that term
			reason = raft.RejectLate
		}
		verdict.Rejection = v.Reject(h, reason, "term %d of %q was seen, and this is %v in term %d",
			seen.Term, h.From.ID, now, h.Term)
	case d == contradicts:
		verdict.Rejection = v.Reject(h, raft.RejectStaleStart, "%v of %q was seen, and this is %v, %s",
			seen.Start, h.From.ID, now, parting(d))
	case d == untold:
		verdict.Rejection = v.Reject(h, raft.RejectUnknownStart, "%v of %q was seen, and this is %v, %s",
			seen.Start, h.From.ID, now, parting(d))
	case v.Live != (raft.StartID{}) && v.Live != now:
		verdict.Rejection = v.Reject(h, raft.RejectTwin, "%v of %q is connected, and this is %v", v.Live, h.From.ID, now)
	}
	return verdict
}

// remember returns the memory with what the Hello of an accepted peer adds to it. It returns nil if the Hello adds nothing.
// It keeps what peers have confirmed even if the configuration no longer names them, because a rollback may restore a
// configuration that names such a peer. If this member had forgotten what the peer confirmed, the peer could not distinguish
// this store from an older image.
func (v *View) remember(h raft.Hello) *raft.Sightings {
	m, changed := v.Memory, false
	now := raft.Sighting{Peer: h.From, Start: h.Lineage.Last(), Term: h.Term, Address: h.Address}
	if m.SeenOf(h.From) != now {
		m.Seen, changed = v.bounded(with(m.Seen, now)), true
	}
	said := raft.Sighting{Peer: h.From, Start: h.Remembers.Start}
	before := m.ConfirmedBy(h.From)
	if h.Remembers.Peer == v.Self && said.Start.Count > before.Start.Count && (v.names(h.From) || v.uninitialized()) {
		m.Confirmed, changed = v.bounded(with(m.Confirmed, said)), true
	}
	if !changed {
		return nil
	}
	return &m
}

// bounded drops sightings until they are within the limit. It drops the oldest sightings of peers that the configuration does
// not name.
func (v *View) bounded(all []raft.Sighting) []raft.Sighting {
	for len(all) > sightingsMax {
		i := max(0, slices.IndexFunc(all, func(s raft.Sighting) bool { return !v.names(s.Peer) }))
		all = slices.Delete(all, i, i+1)
	}
	return all
}

// with returns a copy of the sightings with s at the end. s replaces an earlier sighting of the same peer.
func with(all []raft.Sighting, s raft.Sighting) []raft.Sighting {
	others := make([]raft.Sighting, 0, len(all)+1)
	for _, other := range all {
		if other.Peer != s.Peer {
			others = append(others, other)
		}
	}
	return append(others, s)
}

// lastSeen returns the latest sighting under an id, whatever its incarnation.
func lastSeen(all []raft.Sighting, id raft.NodeID) (last raft.Sighting) {
	for _, s := range all {
		if s.Peer.ID == id {
			last = s
		}
	}
	return last
}
