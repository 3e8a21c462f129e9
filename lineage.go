package raft

import (
	"fmt"
	"slices"
)

// StartID names one start of one store. An older image of a disk repeats a Count, but not the random Nonce.
type StartID struct{ Count, Nonce uint64 }

func (b StartID) String() string { return fmt.Sprintf("start %d (%x)", b.Count, b.Nonce) }

// Lineage holds the latest starts of a store, the present one last. If a peer has seen a start that is missing here, this
// store is an older image.
type Lineage []StartID

// Begin returns the lineage with the next start, which Load must make durable.
func (l Lineage) Begin(nonce uint64) Lineage {
	l = append(slices.Clone(l), StartID{Count: l.Last().Count + 1, Nonce: nonce})
	return l[max(0, len(l)-LineageStartsMax):]
}

// Last returns the present start; zero if there was none yet.
func (l Lineage) Last() StartID {
	if len(l) == 0 {
		return StartID{}
	}
	return l[len(l)-1]
}

// Check returns an error if the counts do not rise one by one or are too many.
func (l Lineage) Check() error {
	if len(l) > LineageStartsMax {
		return fmt.Errorf("raft: the lineage has %d starts; the limit is %d", len(l), LineageStartsMax)
	}
	for i, b := range l {
		if b.Count == 0 || i > 0 && b.Count != l[i-1].Count+1 {
			return fmt.Errorf("raft: start %d of the lineage has count %d, which does not follow the one before", i+1, b.Count)
		}
	}
	return nil
}

// Sighting is a start of a peer that this member has seen, or a start of this member that the peer has seen.
type Sighting struct {
	Peer    Peer
	Start   StartID
	Term    Term   // in Seen: the highest durable term that the peer has shown in a handshake
	Address string // in Seen: where that start of the peer said it is reached; "": not known
}

// Sightings is what a member durably remembers about its peers, latest last, to detect older images of disks. It keeps every
// peer in the configuration, and forgets the oldest of the peers whose removal is committed, for want of room.
type Sightings struct {
	Seen      []Sighting // the newest start of each peer that a handshake has shown, whichever side dialed
	Confirmed []Sighting // by peer: the newest start of this store that the peer has said it remembers
}

// SeenOf returns the newest remembered start of the peer; zero: none.
func (m *Sightings) SeenOf(p Peer) Sighting { return find(m.Seen, p) }

// ConfirmedBy returns our newest start that the peer remembers; zero: none.
func (m *Sightings) ConfirmedBy(p Peer) Sighting { return find(m.Confirmed, p) }

func find(all []Sighting, p Peer) Sighting {
	for _, s := range all {
		if s.Peer == p {
			return s
		}
	}
	return Sighting{}
}

// Mark durably says that a store's member must not continue, and why. Neither a restart nor a later mark changes it.
type Mark struct {
	Kind   MarkKind
	By     Peer    // the member that has shown the proof
	Term   Term    // of the leader that showed the proof; 0 if a handshake did
	Ours   EntryID // MarkContradicted by a leader: committed here
	Theirs EntryID // MarkContradicted by a leader: the entry of its log that proves it
	Detail string  // the proof, in one sentence
}

// MarkKind says what a Mark means. The numbers are part of the stored format.
type MarkKind uint8

const (
	MarkStaleImage   MarkKind = 1 // the store is an older image of this member's disk, or a copy of it
	MarkContradicted MarkKind = 2 // a newer term's leader, or a removal that a member reports, contradicts what is committed
)

func (k MarkKind) String() string {
	switch k {
	case MarkStaleImage:
		return "older image"
	case MarkContradicted:
		return "contradicted"
	}
	return fmt.Sprintf("mark %d", uint8(k))
}

// Err returns the *ContradictedError or *StaleImageError that ends the member, and fails every later start of it.
func (m *Mark) Err() error {
	if m.Kind == MarkContradicted {
		return &ContradictedError{*m}
	}
	return &StaleImageError{*m}
}

// StaleImageError ended the node, or refuses its start: its store is an older image of the member's disk, or ran beside it,
// and lacks what the newer one acknowledged. Put the newest store back. If it is lost, set this one aside (storage.SetAside),
// start with an empty store, and replace the member (Node.ReplaceMember).
type StaleImageError struct{ Mark Mark }

func (e *StaleImageError) Error() string {
	return fmt.Sprintf("raft: this store is an older image of the member's disk, and has forgotten what it acknowledged "+
		"(shown by member %q: %s); no restart helps: put the newest store back, or set this one aside "+
		"(storage.SetAside), start with an empty store and replace the member (Node.ReplaceMember)", e.Mark.By.ID, e.Mark.Detail)
}

// ContradictedError ended the node, or refuses its start: a leader, or a member's account of a removal, contradicts what is
// committed here. The cluster has lost acknowledged writes, and this store may be the last that holds them. Keep a copy and
// recover them (Mark names where the logs differ), then replace the member as for StaleImageError.
type ContradictedError struct{ Mark Mark }

func (e *ContradictedError) Error() string {
	by := fmt.Sprintf("leader %q of term %d", e.Mark.By.ID, e.Mark.Term)
	if e.Mark.Term == 0 {
		by = fmt.Sprintf("member %q", e.Mark.By.ID)
	}
	return fmt.Sprintf("raft: %s contradicts what is committed here (%s): the cluster has lost acknowledged "+
		"writes, and this store may be the last that holds them: keep a copy of it before you start "+
		"the member with an empty store and replace it (Node.ReplaceMember)", by, e.Mark.Detail)
}
