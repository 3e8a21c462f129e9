package raft

import (
	"cmp"
	"slices"
)

// This file brings a snapshot from a leader to a follower (InstallSnapshot of Figure 13). The cores agree on the snapshot by
// an offer. The hosts move its bytes.

// installing is what a leader knows about bringing a snapshot to a follower.
type installing struct {
	snapshot    Snapshot // offered; zero: none yet
	offer       probing
	began       Time // when the snapshot was first offered
	pausedUntil Time // after a stream that failed
	pause       Time // the last one
}

// held is the frozen state of a DurableFSM that a leader sends.
type held struct {
	snapshot Snapshot
	to       Peer
}

// offer is a snapshot that a member has asked for.
type offer struct {
	from     Peer
	term     Term
	snapshot Snapshot
}

// offerSnapshot offers a follower the snapshot that it needs. It repeats the offer every election timeout, because the offer
// or the acknowledgement may be lost, and because the receiver may have restarted. After an interruption, the stream
// continues with the same snapshot, even if there is a newer one.
func (c *Core) offerSnapshot(p *progress) {
	s := &p.snap
	if !c.cfg.Snapshots || c.step.closing || p.departs > 0 || !c.takesSnapshots(p.peer) ||
		c.now.Mono < s.pausedUntil || s.offer.out && !s.offer.overdue(c.now.Mono, c.electionTimeout()) {
		return
	}
	if !c.offerable(p) {
		next, ok := c.snapshotFor(p)
		if !ok {
			return
		}
		s.snapshot, s.began, p.brought = next, c.now.Mono, max(next.Size, 0)
		if s.pause == 0 { // else the stream before has failed, and one that fails again where it did is no progress
			p.joins.bytes = 0
		}
		c.trace(TraceEvent{Kind: TraceOffer, Peer: p.peer.ID, ID: next.ID})
	}
	s.offer.sent(c.now.Mono)
	c.send(p.peer, InstallSnapshot{Snapshot: s.snapshot, Acknowledged: p.match})
}

// offerable reports whether the leader can offer a follower again the snapshot that it last offered. That snapshot may be the
// zero one. The leader cannot offer it again once the log is compacted beyond it, or once a frozen state has been given back.
func (c *Core) offerable(p *progress) bool {
	s, h := &p.snap.snapshot, c.snaps.held
	return p.coveredBy(*s) && (!s.Held || h != nil && h.snapshot.File == s.File)
}

// snapshotFor returns the newest snapshot that contains the entries which a follower lacks, if there is one.
func (c *Core) snapshotFor(p *progress) (Snapshot, bool) {
	if s := c.disk.snapshot; s.File != (SnapshotID{}) && p.coveredBy(s) {
		return s, true
	}
	if h := c.snaps.held; h != nil && h.to == p.peer && p.coveredBy(h.snapshot) {
		return h.snapshot, true
	}
	return Snapshot{}, false
}

// coveredBy reports whether a snapshot covers every entry that no append can bring to this follower.
func (p *progress) coveredBy(s Snapshot) bool { return s.ID.Index >= p.next-1 }

// wantsFile reports whether a follower waits for a new snapshot file, because an entry at or below the given index is too
// large for an append to it.
func (c *Core) wantsFile(to Index) bool {
	if c.leader == nil || c.cfg.DurableFSM {
		return false
	}
	for i := range c.leader.peers {
		p := &c.leader.peers[i]
		if p.state == snapshot && p.departs == 0 && p.next-1 <= to && !c.silent(p) && c.takesSnapshots(p.peer) && !p.coveredBy(c.disk.snapshot) {
			return true
		}
	}
	return false
}

// wantsHeld reports whether a DurableFSM must freeze its state for a follower that needs a snapshot. Only one state is frozen
// at a time.
func (c *Core) wantsHeld() bool { return c.waitsForHeld() != nil }

func (c *Core) waitsForHeld() *progress {
	if c.leader == nil || !c.cfg.DurableFSM || c.snaps.held != nil {
		return nil
	}
	for i := range c.leader.peers {
		p := &c.leader.peers[i]
		if p.state == snapshot && p.departs == 0 && p.next-1 <= c.log.applying && !c.offerable(p) && c.now.Mono >= p.snap.pausedUntil &&
			!c.silent(p) && c.takesSnapshots(p.peer) {
			if _, ok := c.snapshotFor(p); !ok {
				return p
			}
		}
	}
	return nil
}

// waitsForTurn reports whether a member needs a snapshot while the state is frozen for another member. The leader must hear
// that member.
func (c *Core) waitsForTurn(p *progress) bool {
	h := c.snaps.held
	return h != nil && h.to != p.peer && p.state == snapshot && !c.offerable(p) && c.heardLately(p)
}

// waitsForTake reports whether a member needs the snapshot that is being taken. The leader must hear that member.
func (c *Core) waitsForTake(p *progress) bool {
	take := c.snaps.taking
	if take == nil || take.Hold != c.cfg.DurableFSM || p.state != snapshot {
		return false
	}
	_, taken := c.snapshotFor(p)
	return !taken && c.heardLately(p)
}

// onHeld sends a frozen state to the follower that needs it.
func (c *Core) onHeld(s Snapshot) {
	p := c.waitsForHeld()
	if p == nil || !p.coveredBy(s) {
		c.discard(s.File)
		return
	}
	c.snaps.held = &held{s, p.peer}
}

// onSnapshotSending records how much of a snapshot its follower has. Until the follower has caught up, the log may grow by as
// much, but not by more. So a stream that is faster than the log grows will complete, however large the snapshot is.
func (c *Core) onSnapshotSending(e SnapshotSending) {
	if c.leader == nil {
		return
	}
	if p := c.leader.peer(e.To); p != nil && p.state == snapshot && p.snap.snapshot.File == e.File {
		p.brought = max(p.brought, e.Bytes)
		if e.Bytes > p.joins.bytes {
			p.joins.bytes, p.joins.movedAt = e.Bytes, c.now.Mono
		}
	}
}

// installTimeouts is the number of election timeouts within which a follower must install a frozen state that it has
// received.
const installTimeouts = 8

// onSnapshotSent handles the end of a stream. If the follower has the whole snapshot, the leader offers it again to get a
// lost acknowledgement. It cannot do so for a frozen state, because that state ends with its stream. The follower's heartbeat
// replies then acknowledge the state. If the follower has lost the state in a crash, the leader has another one frozen. If
// the stream was given up, the leader offers its newest snapshot after a pause.
func (c *Core) onSnapshotSent(e SnapshotSent) {
	h := c.snaps.held
	ended := h != nil && h.snapshot.File == e.File
	if ended {
		c.snaps.held = nil
	}
	if c.leader == nil {
		return
	}
	p := c.leader.peer(e.To)
	if p == nil || p.state != snapshot || p.snap.snapshot.File != e.File {
		return
	}
	switch {
	case e.Err != nil:
		c.trace(TraceEvent{Kind: TraceStreamEnded, Peer: e.To.ID, ID: p.snap.snapshot.ID, Text: e.Err.Error()})
		c.pauseOffers(p)
	case ended:
		p.snap.pausedUntil = c.now.Mono + installTimeouts*c.electionTimeout()
	default:
		p.snap.offer.repeat()
	}
}

// pauseOffers forgets what the leader offered a follower. It offers that follower nothing for a while. This pause doubles
// each time.
func (c *Core) pauseOffers(p *progress) {
	pause := min(max(2*p.snap.pause, Time(c.cfg.HeartbeatInterval)), snapshotPausesMax*c.electionTimeout())
	jitter := Time(c.rng.Int64N(int64(pause)/4 + 1))
	p.snap = installing{pause: pause, pausedUntil: c.now.Mono + pause + jitter}
}

// endHeld gives the frozen state back once its follower no longer needs it.
func (c *Core) endHeld() {
	h := c.snaps.held
	if h == nil || c.awaits(h) {
		return
	}
	c.discard(h.snapshot.File)
	c.snaps.held = nil
}

// awaits reports whether the follower for which a state was frozen still needs that state, and can take it. A departing
// follower gets no snapshot.
func (c *Core) awaits(h *held) bool {
	if c.leader == nil || !c.takesSnapshots(h.to) {
		return false
	}
	p := c.leader.peer(h.to)
	return p != nil && p.state == snapshot && p.departs == 0 && p.coveredBy(h.snapshot)
}

// endOffer ends the stream to a follower, if there is one.
func (c *Core) endOffer(p *progress) {
	if (p.snap.snapshot.File == SnapshotID{}) {
		return
	}
	keep := c.keep()
	keep.Stop = append(keep.Stop, p.peer)
	p.snap = installing{}
}

// endOffers ends the streams of a leader that steps down.
func (c *Core) endOffers(l *leader) {
	for i := range l.peers {
		c.endOffer(&l.peers[i])
	}
}

// spoken is what the last connection of a peer has said about the messages that the peer can receive.
type spoken struct {
	peer           Peer
	protocol       uint16 // that the connection speaks
	appendBytesMax int    // see PeerUp
}

// onPeerSpeaks records what a peer's connection has said, if the peer can receive less than members of this release. If a
// peer takes no snapshots, the leader sends it none, and ends a running stream to it. Peers that the configuration does not
// name count, too. They may be about to join, and the connections of the first members come up before entry 1 names their
// incarnations.
func (c *Core) onPeerSpeaks(e PeerUp) {
	peer, s := Peer{e.ID, e.Incarnation}, &c.snaps
	said := spoken{peer, cmp.Or(e.Protocol, ProtocolNewest), e.AppendBytesMax} // 0: the host does not say
	s.spoken = slices.DeleteFunc(s.spoken, func(m spoken) bool { return m.peer == peer })
	if said.protocol >= ProtocolNewest && said.appendBytesMax == 0 {
		return
	}
	if len(s.spoken) >= MembersMax {
		stranger := slices.IndexFunc(s.spoken, func(m spoken) bool { return !c.names(m.peer) })
		if stranger < 0 {
			return
		}
		s.spoken = slices.Delete(s.spoken, stranger, stranger+1)
	}
	s.spoken = append(s.spoken, said)
	if c.leader == nil || c.takesSnapshots(peer) {
		return
	}
	if p := c.leader.peer(peer); p != nil {
		c.endOffer(p)
	}
}

// spokenBy returns what a member's last connection has said. If that is not known, it returns this release's own values.
func (c *Core) spokenBy(peer Peer) spoken {
	for _, m := range c.snaps.spoken {
		if m.peer == peer {
			return m
		}
	}
	return spoken{peer: peer, protocol: ProtocolNewest}
}

// takesSnapshots reports whether the leader can offer a member a snapshot, as far as the leader knows. A snapshot's
// description contains a configuration, which the member's release must be able to read.
func (c *Core) takesSnapshots(peer Peer) bool {
	return c.spokenBy(peer).protocol >= c.log.configAt(c.log.commit).Config.Protocol()
}

// offers reports whether this leader is sending the file to a follower.
func (l *leader) offers(file SnapshotID) bool {
	for i := range l.peers {
		if l.peers[i].snap.snapshot.File == file {
			return true
		}
	}
	return false
}

// malformedOffer returns what is wrong with an offer that no correct leader would send. It returns "" if nothing is wrong.
func (c *Core) malformedOffer(m Message, r InstallSnapshot) string {
	s := &r.Snapshot
	switch err := s.Check(); {
	case c.otherLeads(m.From):
		return "another member leads this term"
	case err != nil:
		return err.Error()
	case s.File == SnapshotID{}:
		return "its snapshot has no bytes"
	case s.ID.Term > m.Term:
		return "its snapshot is newer than its term"
	case s.Cluster != m.Cluster:
		return "its snapshot is of another cluster"
	case r.Acknowledged > s.ID.Index:
		return "it ends below what it says was acknowledged"
	}
	return ""
}

// onFirstOffer handles an offer to an uninitialized member. The member stays uninitialized, in term 0, until it has the whole
// snapshot, because a term without a cluster is no legal state. If two leaders offer a snapshot, the member asks the newer
// leader.
func (c *Core) onFirstOffer(m Message, r InstallSnapshot) {
	if why := c.malformedOffer(m, r); why != "" {
		c.refuse(m, why)
		return
	}
	if o := c.follower.offer; o != nil && m.Term < o.term {
		c.trace(TraceEvent{Kind: TraceSnapshotStale, Peer: m.From.ID, ID: r.Snapshot.ID, Text: "a leader of a newer term has offered one"})
		return
	}
	c.acceptOffer(m, r.Snapshot)
}

// onInstallSnapshot handles an offer by this term's leader. Like an append at the snapshot's last entry, it may
// contradict what is committed here, or show that this member has lost what it acknowledged.
func (c *Core) onInstallSnapshot(m Message, r InstallSnapshot) {
	if why := c.malformedOffer(m, r); why != "" {
		c.refuse(m, why)
		return
	}
	c.hear(m.From)
	last := r.Snapshot.ID
	if c.contradicted(m.From, AppendRequest{Prev: last, Last: last}) {
		return
	}
	if r.Acknowledged > c.log.Last.Index {
		conflict := AppendConflict{Prev: last.Index, Hint: c.log.Last, Acknowledged: r.Acknowledged}
		c.onLostLog(m.From, conflict)
		c.send(m.From, conflict)
		return
	}
	if c.log.has(last) {
		c.trace(TraceEvent{Kind: TraceSnapshotStale, Peer: m.From.ID, ID: last, Text: "the log holds that entry"})
		c.acknowledgeSnapshot(m.From, last)
		return
	}
	if last.Index <= max(c.log.commit, c.termLeader.proved) {
		c.refuse(m, "its snapshot contradicts a committed entry, or one that its sender has proved")
		return
	}
	c.acceptOffer(m, r.Snapshot)
}

// acknowledgeSnapshot answers this term's leader if its snapshot covers only entries that the log already holds:
//
//	"If instead the follower receives a snapshot that describes a prefix of its log (due to retransmission or by
//	mistake), then log entries covered by the snapshot are deleted but entries following the snapshot are still valid and
//	must be retained." (§7)
//
// This member's own policy decides when the entries are deleted. Everything that a snapshot covers is committed.
func (c *Core) acknowledgeSnapshot(leader Peer, last EntryID) {
	c.termLeader.proved = max(c.termLeader.proved, last.Index)
	c.commitTo(min(last.Index, c.log.Last.Index))
	c.promiseLog(leader, AppendReply{Match: last.Index, Moment: c.moment(leader)}, last.Index)
}

// acceptOffer asks for the bytes of an offered snapshot. If this member has already asked for them, the host continues from
// where it is.
func (c *Core) acceptOffer(m Message, s Snapshot) {
	why := ""
	switch {
	case !c.cfg.Snapshots:
		why = "this member's storage keeps no snapshots"
	case c.step.closing:
		why = "this member is closing"
	case c.snaps.restoring != nil:
		why = "another one is being restored"
	}
	if why != "" {
		c.trace(TraceEvent{Kind: TraceSnapshotStale, Peer: m.From.ID, ID: s.ID, Text: why})
		return
	}
	if o := c.follower.offer; o == nil || o.from != m.From || o.snapshot.File != s.File {
		c.trace(TraceEvent{Kind: TraceOfferAccepted, Peer: m.From.ID, ID: s.ID})
	}
	c.follower.offer = &offer{m.From, m.Term, s}
	c.keep().Receive = &Receive{m.From, s}
}

// onSnapshotArrived installs a complete snapshot, unless it is no longer needed. It does not matter which member leads now,
// because everything in a snapshot is committed. It does not matter either which member sent the bytes, because a leader may
// offer the file that it received from an earlier leader.
func (c *Core) onSnapshotArrived(e SnapshotArrived) {
	o, file := c.follower.offer, e.Snapshot.File
	if o == nil || o.snapshot.File != file || o.snapshot.ID != e.Snapshot.ID {
		c.leave(e, "it was not asked for, or not last")
		return
	}
	c.follower.offer = nil
	s := e.Snapshot
	s.Held = false
	switch {
	case c.cluster() != ClusterID{} && c.cluster() != s.Cluster:
		c.leave(e, "this member has become one of another cluster")
	case c.leader != nil:
		c.leave(e, "this member leads, so its log holds that entry")
	case c.log.has(s.ID):
		c.leave(e, "the log holds that entry")
		if c.termLeader.elected == o.from {
			c.acknowledgeSnapshot(o.from, s.ID)
		}
	case s.ID.Index <= max(c.log.commit, c.termLeader.proved):
		c.leave(e, "it contradicts what is committed, or what this term's leader has proved")
	case c.snaps.restoring != nil:
		c.leave(e, "another one is being restored")
	default:
		c.install(o.from, s, o.term)
	}
}

// leave discards a snapshot that has arrived and is not installed.
func (c *Core) leave(e SnapshotArrived, why string) {
	c.trace(TraceEvent{Kind: TraceSnapshotStale, Peer: e.From.ID, ID: e.Snapshot.ID, Text: why})
	c.discard(e.Snapshot.File)
}

// install replaces the log by a snapshot whose last entry the log does not hold. The snapshot becomes the beginning of a new
// log:
//
//	"7. Discard the entire log
//	8. Reset state machine using snapshot contents (and load snapshot's cluster configuration)" (Figure 13)
//
// The FSM is reset once the snapshot's record is durable. Until then, only what this member acknowledged before counts as
// durable here.
func (c *Core) install(from Peer, s Snapshot, offered Term) {
	if offered > c.hard.Term { // it was offered while this member was uninitialized
		c.becomeFollower(offered, Peer{})
	} else if c.candidate != nil {
		c.becomeFollower(c.hard.Term, Peer{})
	}
	c.follower.attempts.ballot = nil // its voters have judged another log
	assert(s.ID.Term <= c.hard.Term, "no entry is newer than the current term")
	c.trace(TraceEvent{Kind: TraceInstalled, Peer: from.ID, ID: s.ID})
	c.replaceLog(s.Base)
	c.commitTo(s.ID.Index)
	snaps := &c.snaps
	snaps.taking, snaps.restoring, snaps.restoreOut = nil, &s, false
	c.record(s)
	if c.termLeader.elected == from {
		c.acknowledgeSnapshot(from, s.ID)
	}
	assert(c.log.commit == s.ID.Index && c.log.Last == s.ID, "the log is the snapshot")
}
