package fuzzy

import (
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// The invariants of waits that end too early.
//
//	N30  A disk that has completed a write within DiskStallMax is not stalled.
//	N35  A member does not campaign while its term or vote is being written. It does not grant a pre-vote while its vote is being written.
//	N36  If the leader of a term has announced to a member that it has stepped down, the member does not follow it again in that term.
//	N37  Unless its disk has stalled, a leader does not step down while it hears a quorum within the time of N13, nor while it waits for the member that it has requested to campaign.
//	N73  The hard state is written again unchanged only by a leader whose disk has been idle for DiskStallMax, and whose log is not all applied.
//	N46  A leader gives up its leadership for a stalled disk only if a quorum of the voters may hold more than that disk, or need a snapshot from it. Members that have lost entries that they acknowledged do not count.

// checkTransferForStall checks a transfer that a leader begins because its disk has stalled.
func (k *checker) checkTransferForStall(n *node, events []raft.Event, out *raft.Output) {
	s, w := &n.status, &n.seen
	begins := slices.ContainsFunc(out.Trace, func(e raft.TraceEvent) bool { return e.Kind == raft.TraceTransfer })
	if !begins || slices.ContainsFunc(events, func(e raft.Event) bool { _, asked := e.(raft.TransferRequested); return asked }) {
		return
	}
	if s.FSMHangs && !s.DiskStalled {
		k.checkTransferForHang(n, out)
		return
	}
	able := n.agreed(func(p raft.Peer) bool {
		progress := progressOn(s, p)
		if progress == nil || progress.State == "stale" {
			return false
		}
		return progress.Match > s.Persisted || progress.State == "snapshot" || w.now-w.of(p).heard >= n.timeout()
	})
	if !able.reached() {
		k.broken("N46", "%s gives up its leadership of term %d, but only %v may hold more than its disk", n, s.Term, able)
	}
}

// checkPatience checks that a member does not give up a wait too early.
func (k *checker) checkPatience(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	k.checkWorkingDisk(n, before)
	k.checkHardStateRewrite(n, before, out)
	k.checkAwaitsDisk(n, before, out)
	s, w := &n.status, &n.seen
	for i := range out.Trace {
		switch event := &out.Trace[i]; event.Kind {
		case raft.TraceSteppedDown:
			w.resigned, w.resignedIn = event.Peer, event.Term
		case raft.TraceQuorumLost:
			if len(events) == 0 { // otherwise it may know more than the witness
				k.checkStaysLeader(n, before)
			}
		}
	}
	if s.Leader != "" && s.Leader == w.resigned && s.Term == w.resignedIn {
		k.broken("N36", "%s follows %s, which has said that it no longer leads term %d", n, s.Leader, s.Term)
	}
}

// checkWorkingDisk checks that a disk that completes writes does not count as stalled.
func (k *checker) checkWorkingDisk(n *node, before *raft.CoreStatus) {
	s, w := &n.status, &n.seen
	if s.Persisted > before.Persisted || s.Durable != before.Durable {
		w.wrote = w.now
	}
	if s.DiskStalled && w.wrote > 0 && w.now-w.wrote < raft.Time(n.diskStallMax) {
		k.broken("N30", "%s takes its disk for stalled, although it completed a write %v ago", n, time.Duration(w.now-w.wrote))
	}
}

// checkHardStateRewrite checks a write of the hard state that changes nothing.
func (k *checker) checkHardStateRewrite(n *node, before *raft.CoreStatus, out *raft.Output) {
	w, s := &n.seen, &n.status
	hard := out.Write.Hard
	if hard == nil {
		return
	}
	again := *hard == w.hard
	w.hard = *hard
	if !again {
		return
	}
	idle := w.now - max(w.wrote, w.tried)
	w.tried = w.now
	if s.Role != raft.Leader || s.Applied >= s.Last.Index || before.Durable != *hard || idle < raft.Time(n.diskStallMax) {
		k.broken("N73", "%s, %s of term %d, has applied %d of %d entries and writes the same hard state again, after %v",
			n, s.Role, s.Term, s.Applied, s.Last.Index, time.Duration(idle))
	}
}

// checkAwaitsDisk checks a member whose term or vote is being written.
func (k *checker) checkAwaitsDisk(n *node, before *raft.CoreStatus, out *raft.Output) {
	s := &n.status
	unwritten := !sameVote(s.Durable, n.hard) && sameVote(s.Durable, before.Durable) && out.Write.Hard == nil
	if !unwritten {
		return
	}
	for i := range out.Trace {
		switch event := &out.Trace[i]; {
		case event.Kind == raft.TraceTimeout:
			k.broken("N35", "%s stands for election, but term %d is not on its disk", n, s.Term)
		case event.Kind == raft.TracePreVoteGranted && n.hard.Vote != raft.Peer{}:
			k.broken("N35", "%s grants %s a pre-vote, but its vote of term %d is not on its disk", n, event.Peer, s.Term)
		}
	}
}

// checkStaysLeader checks a leader that has just stepped down because it heard no quorum.
func (k *checker) checkStaysLeader(n *node, before *raft.CoreStatus) {
	w := &n.seen
	if w.told > 0 && before.TransferringUntil == w.told && w.now < w.told {
		k.broken("N37", "%s steps down in term %d, although it must wait %v more for the member that it told to campaign",
			n, before.Term, time.Duration(w.told-w.now))
	}
	heard := quorum(&before.Config, func(p raft.Peer) bool {
		progress := progressOn(before, p)
		if progress == nil || progress.State == "stale" {
			return p == n.peer()
		}
		window := max(n.timeout(), min(2*progress.RoundTrip, waitsMax*n.timeout()))
		return w.now-w.of(p).heard < window
	})
	if heard.reached() {
		k.broken("N37", "%s steps down in term %d, although it has heard %v in the allowed time", n, before.Term, heard)
	}
}
