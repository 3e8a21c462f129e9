package node

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coxswain/raft"
)

// judge applies the table of verdicts to the members. It also fills in Tolerance, which depends on the verdicts.
func (s *Status) judge() {
	for i := range s.Members {
		m := &s.Members[i]
		if m.isSelf() {
			m.hindered = s.hindered()
		}
		m.judge(s)
		m.Replace = m.Replace && s.MajorityLost == ""
	}
	s.Tolerance = tolerance(s)
}

// hindered returns the hindrances that this member would report to a leader.
func (s *Status) hindered() (h raft.Hindrance) {
	if s.DiskStalled {
		h |= raft.HinderedStalled
	}
	if s.suspected != "" {
		h |= raft.HinderedSuspected
	}
	if s.FSMHangs {
		h |= raft.HinderedFSM
	}
	return h
}

// judge fills in the verdict of m, and whether m counts towards a quorum as a voter. If several verdicts apply to a member, the
// first verdict becomes MemberStatus.Problem. A voter counts towards a quorum unless a verdict without Counts applies.
func (m *MemberStatus) judge(s *Status) {
	m.Verdict, m.Problem, m.excluded, m.away = "", "", "", false
	for i := range verdicts {
		v := &verdicts[i]
		if v.says == nil {
			continue
		}
		says := v.says(s, m)
		if says == "" {
			continue
		}
		if m.Verdict == "" {
			m.Verdict, m.Problem = v.Name, says
			if v.remedy != "" && s.MajorityLost == "" {
				m.Problem += ": " + v.remedy
			}
		}
		if !v.Counts && m.excluded == "" {
			m.excluded, m.away = says, v.away
		}
	}
}

// isSelf reports whether m is the member that made this status.
func (m *MemberStatus) isSelf() bool { return m.State == "self" }

func saysEnded(s *Status, m *MemberStatus) string {
	if !m.isSelf() || s.Err == nil {
		return ""
	}
	return fmt.Sprintf("it has ended: %v", s.Err)
}

func saysOlderImage(s *Status, m *MemberStatus) string {
	var stale *raft.StaleImageError
	switch {
	case m.isSelf() && errors.As(s.Err, &stale):
		return fmt.Sprintf("it has ended: %v", s.Err)
	case m.isSelf() || m.Connected:
		return ""
	case m.refused != nil && m.refused.Reason == raft.RejectStaleStart:
		return m.rejection(m.refused)
	case m.refusal != nil && m.refusal.Reason == raft.RejectOwnImage:
		return m.rejection(m.refusal)
	}
	return ""
}

func saysContradicted(s *Status, m *MemberStatus) string {
	var contradicted *raft.ContradictedError
	if !m.isSelf() || !errors.As(s.Err, &contradicted) {
		return ""
	}
	return fmt.Sprintf("it has ended: %v", s.Err)
}

func saysRemoved(s *Status, m *MemberStatus) string {
	if !m.isSelf() || !errors.Is(s.Err, raft.ErrRemoved) {
		return ""
	}
	return fmt.Sprintf("it has ended: %v", s.Err)
}

func saysOtherCluster(_ *Status, m *MemberStatus) string {
	if m.isSelf() || m.Connected {
		return ""
	}
	for _, r := range []*raft.Rejection{m.refused, m.refusal} {
		if r != nil && r.Reason == raft.RejectOtherCluster {
			return m.rejection(r)
		}
	}
	return ""
}

// rejection returns why the member is not connected, and what one of the two said when it rejected the other at their last
// contact. That rejection may be the reason why the member has ended since then.
func (m *MemberStatus) rejection(r *raft.Rejection) string {
	why, said := cmp.Or(m.ConnectionErr, "it is not connected"), strings.TrimPrefix(r.Error(), "raft: ")
	if strings.Contains(why, said) {
		return why
	}
	return fmt.Sprintf("%s; when the two last met, %s", why, said)
}

func saysCertificate(_ *Status, m *MemberStatus) string {
	if m.isSelf() || m.Connected || !m.badCertificate {
		return ""
	}
	return m.ConnectionErr
}

// saysMoved applies if nobody listens at the address of a member that is heard nevertheless, because it dials this one.
func saysMoved(s *Status, m *MemberStatus) string {
	var wrong *raft.Rejection
	switch {
	case m.isSelf() || m.Connected:
		return ""
	case m.LastContact >= 0 && m.RefusedFor > m.LastContact+s.patience:
		return fmt.Sprintf("it is heard, but not at its address %s: %s", m.Address, m.ConnectionErr)
	case m.refusal != nil && m.refusal.Reason == raft.RejectWrongID:
		wrong = m.refusal
	default:
		return ""
	}
	return fmt.Sprintf("another member, %s, is at its address %s", wrong.From.ID, m.Address)
}

// saysEmptied names no remedy, because MemberStatus.Replace or Status.MajorityLost gives the remedy.
func saysEmptied(s *Status, m *MemberStatus) string {
	switch {
	case m.isSelf() && s.Wiped:
		return "its disk was emptied: the cluster knows it with another incarnation"
	case !m.isSelf() && !m.Connected && m.refusal != nil && m.refusal.OfEmptiedDisk():
		return "its disk was emptied: it answers with another incarnation"
	}
	return ""
}

func saysStale(_ *Status, m *MemberStatus) string {
	if m.State != "stale" {
		return ""
	}
	return "it holds less than it has acknowledged"
}

func saysUnconnected(_ *Status, m *MemberStatus) string {
	if m.isSelf() || m.Connected {
		return ""
	}
	why := cmp.Or(m.ConnectionErr, "it is not connected")
	for _, r := range []*raft.Rejection{m.refused, m.refusal} {
		if r != nil && m.rejection(r) != why {
			return m.rejection(r)
		}
	}
	return why
}

// saysUnheard applies only on the leader: followers do not regularly hear each other.
func saysUnheard(s *Status, m *MemberStatus) string {
	switch {
	case m.isSelf() || s.Role != raft.Leader:
		return ""
	case m.LastContact < 0:
		return "it has not been heard"
	case m.LastContact > s.patience:
		return fmt.Sprintf("it has not been heard for %v", m.LastContact.Round(time.Millisecond))
	}
	return ""
}

func saysSuspected(s *Status, m *MemberStatus) string {
	if m.hindered&raft.HinderedSuspected == 0 {
		return ""
	}
	by := "another member"
	if m.isSelf() {
		by = string(s.suspected)
	}
	return "its disk lacks what it acknowledged, as shown by " + by + ", a leader that its configuration does not name: it does not vote until " +
		"its configuration names that leader, or a later leader has brought its log up to date"
}

func saysEarlier(_ *Status, m *MemberStatus) string {
	switch {
	case !m.stuck():
		return ""
	case m.changed:
		return "the members have been changed, and its earlier release cannot read that"
	}
	return "it lacks entries that are compacted here, and its earlier release takes no snapshots"
}

// saysNeedsSnapshot applies if the leader has compacted entries that the member lacks, or if an entry is too large for the
// member. It says how much of the snapshot the member has, or why the member gets no snapshot.
func saysNeedsSnapshot(s *Status, m *MemberStatus) string {
	t, lacks, lift := &s.Snapshot, "it lacks entries that are compacted here, and ", ""
	if large := m.oversized(); large != "" {
		lacks, lift = large+": it needs a snapshot instead, and ", ": raise that limit and restart the member that has it"
	}
	var failed *SnapshotStreamError
	switch {
	case m.isSelf() && t.Receiving != nil:
		return "it lacks entries that the leader has compacted, and is sent a snapshot: " + t.Receiving.String()
	case m.State != "snapshot":
		return ""
	case m.settings.noSnapshots:
		return lacks + "its storage keeps no snapshots" + lift
	case m.progress != nil && m.progress.Oversized.Index > s.Commit:
		return lacks + "the entry is not committed yet: if the commit needs this member, raise that limit and restart the member that has it"
	case t.Sending != nil && t.Sending.Peer == m.ID:
		return lacks + "is sent a snapshot: " + t.Sending.String()
	case errors.As(t.SendErr, &failed) && failed.To == m.ID:
		return lacks + "the last snapshot did not arrive: " + failed.Err.Error()
	case t.Unsupported != "":
		return lacks + "this member has no snapshot to send" + lift
	case t.Err != nil:
		return lacks + "none was taken: " + t.Err.Error()
	}
	return lacks + "waits for a snapshot"
}

func saysNoRoom(s *Status, m *MemberStatus) string {
	switch {
	case m.isSelf() && !s.noDescriptors:
		return s.NoRoom
	case m.hindered&raft.HinderedNoRoom != 0:
		return "its disk has no room for more entries of the log: make room, and it continues by itself"
	}
	return ""
}

func saysNoDescriptors(s *Status, m *MemberStatus) string {
	if !m.isSelf() || !s.noDescriptors {
		return ""
	}
	return s.NoRoom
}

func saysStalled(_ *Status, m *MemberStatus) string {
	if m.hindered&raft.HinderedStalled == 0 {
		return ""
	}
	return "its disk has stalled"
}

func saysRestoring(s *Status, m *MemberStatus) string {
	switch r := s.Snapshot.Restoring; {
	case m.isSelf() && r != nil:
		return fmt.Sprintf("its state machine is being restored from a snapshot, %v so far: %s", r.Since.Round(time.Second), r)
	case m.hindered&raft.HinderedRestoring != 0:
		return "its state machine is being restored from a snapshot"
	}
	return ""
}

func saysFSMHangs(s *Status, m *MemberStatus) string {
	switch {
	case m.hindered&raft.HinderedFSM == 0:
		return ""
	case m.isSelf():
		return fmt.Sprintf("its FSM hangs: one call of Apply has been running for %v", s.Applying.Round(time.Second))
	}
	return "its FSM hangs in a call of Apply"
}

// saysHindered is for hindrances that a later release has added to raft.Hindrance.
func saysHindered(_ *Status, m *MemberStatus) string {
	const known = raft.HinderedNoRoom | raft.HinderedStalled | raft.HinderedRestoring | raft.HinderedSuspected | raft.HinderedFSM
	if m.hindered&^known == 0 {
		return ""
	}
	return "it says that something keeps it from serving, which this member's release does not know: its own status says more"
}

// saysBehind applies only to voters. For other members, MemberStatus.CatchUp shows the progress.
func saysBehind(s *Status, m *MemberStatus) string {
	if m.lags <= s.patience || m.CatchUp != nil {
		return ""
	}
	return fmt.Sprintf("it holds the log up to entry %d of %d, and has been behind for %v", m.Match, s.Last.Index, m.lags.Round(time.Second))
}

func saysAppliesLate(s *Status, m *MemberStatus) string {
	if !m.isSelf() || s.appliesLate <= s.patience {
		return ""
	}
	return fmt.Sprintf("it has applied %d of %d committed entries, and has been behind for %v", s.Applied, s.Commit, s.appliesLate.Round(time.Second))
}
