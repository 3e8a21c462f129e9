package node

import (
	"errors"
	"testing"
	"time"

	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

// If an entry is too large for a member, the leader's status names the entry and the limit, and what prevents a snapshot.
func TestStatus_SaysWhatIsTooLargeForAMember(t *testing.T) {
	const begin = "entry 9@4 takes 5000 bytes, and an append to it carries 1000 (its transport.Options.FrameBytesMax): " +
		"it needs a snapshot instead, and "
	for _, row := range []struct {
		rule   string
		change func(*Status, *MemberStatus)
		want   string
	}{
		{"it is to come", func(*Status, *MemberStatus) {}, begin + "waits for a snapshot"},
		{"it is on its way", func(s *Status, _ *MemberStatus) {
			s.Snapshot.Sending = &Transfer{Peer: "n2", Done: 1 << 10, Total: 2 << 10}
		}, begin + "is sent a snapshot: 1 of 2 KiB"},
		{"the entry is not committed", func(s *Status, _ *MemberStatus) { s.Commit = 8 },
			begin + "the entry is not committed yet: if the commit needs this member, raise that limit and restart the member that has it"},
		{"this member keeps none", func(s *Status, _ *MemberStatus) { s.Snapshot.Unsupported = "none here" },
			begin + "this member has no snapshot to send: raise that limit and restart the member that has it"},
		{"it keeps none", func(_ *Status, m *MemberStatus) { m.settings.noSnapshots = true },
			begin + "its storage keeps no snapshots: raise that limit and restart the member that has it"},
		{"none can be taken", func(s *Status, _ *MemberStatus) { s.Snapshot.Err = errors.New("no room") },
			begin + "none was taken: no room"},
		{"this member's own limit is the smaller one", func(_ *Status, m *MemberStatus) { m.settings.appendBytesMax = 0 },
			"entry 9@4 takes 5000 bytes, and an append to it carries 1000 (this member's transport.Options.FrameBytesMax): " +
				"it needs a snapshot instead, and waits for a snapshot"},
	} {
		s := Status{Commit: 9}
		m := MemberStatus{
			Member: raft.Member{ID: "n2"}, State: "snapshot", appendLimit: 1000, settings: settings{appendBytesMax: 1000},
			progress: &raft.PeerProgress{Oversized: raft.EntryID{Term: 4, Index: 9}, OversizedBytes: 5000},
		}
		row.change(&s, &m)
		expect.Equal(t, row.want, saysNeedsSnapshot(&s, &m), row.rule)
	}
}

func TestSettings_WhatIsNotKnownDoesNotDiffer(t *testing.T) {
	here := settings{electionTimeout: time.Second, commandBytesMax: 1 << 20, protocol: 3}
	earlier := settings{electionTimeout: time.Second, protocol: 3} // of a release that announces no more
	expect.Empty(t, here.differences(earlier))
	expect.Empty(t, here.differences(here))
	here.appendBytesMax = 1000
	expect.Empty(t, here.differences(earlier), "an earlier release does not announce its limit")
	for i, change := range []func(*settings){
		func(s *settings) { s.electionTimeout++ }, func(s *settings) { s.commandBytesMax++ },
		func(s *settings) { s.appendBytesMax++ }, func(s *settings) { s.noSnapshots = true }, func(s *settings) { s.protocol = 2 },
	} {
		there := here
		change(&there)
		expect.Equal(t, compared[i].setting, here.differences(there)[0].Setting)
		expect.Equal(t, compared[i].setting, there.differences(here)[0].Setting, "on both sides")
	}
}

func TestSettings_BothLimitsOfAnAppendHold(t *testing.T) {
	for _, row := range []struct{ own, says, want int }{{0, 0, 0}, {5, 0, 5}, {0, 7, 7}, {5, 7, 5}, {7, 5, 5}} {
		n := &Node{appendBytesMax: row.own}
		expect.Equal(t, row.want, n.appendLimitTo(settings{appendBytesMax: row.says}), "%+v", row)
	}
}
