package member

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMove_WhatTheCommandLineSays(t *testing.T) {
	at := Options{RaftAddr: "10.0.0.2:5001", HTTPAddr: "10.0.0.2:4001"}
	told, joins, any := at, at, at
	told.Advertise, told.URL = "n2.example:5001", "http://n2.example"
	joins.Join = []string{"http://h:1"}
	any.RaftAddr, any.HTTPAddr = "0.0.0.0:5001", ":4001"
	same := addresses{"10.0.0.2:5001", "http://10.0.0.2:4001"}
	other := addresses{"10.0.0.1:5001", "http://10.0.0.1:4001"}
	for _, row := range []struct {
		rule      string
		o         Options
		was, want addresses
		known     bool
	}{
		{"a listening address alone states nothing", at, addresses{}, addresses{}, false},
		{"nor does one that has not been changed", at, same, addresses{}, true},
		{"one that was the entry and has been changed states the address", at, other, same, true},
		{"each address separately", at, addresses{URL: other.URL}, addresses{URL: same.URL}, true},
		{"unless it cannot be dialed", any, other, addresses{}, true},
		{"--advertise and --url state it", told, addresses{}, addresses{"n2.example:5001", "http://n2.example"}, false},
		{"in any case", told, other, addresses{"n2.example:5001", "http://n2.example"}, true},
		{"a member that joins states it", joins, addresses{}, same, false},
		{"… once", joins, same, addresses{}, true},
		{"… and not again after somebody has corrected it", joins, addresses{}, addresses{}, true},
		{"… unless it has moved since", joins, other, same, true},
	} {
		assert.Equal(t, row.want, row.o.stated(row.was, row.known), row.rule)
	}
}

func TestMove_TheFileSaysWhichFlagsWereTheEntry(t *testing.T) {
	dir := t.TempDir()
	_, known := readAddresses(dir)
	assert.False(t, known)
	at := addresses{"10.0.0.2:5001", "http://10.0.0.2:4001"}
	require.NoError(t, writeAddresses(dir, at.proven(raft.Member{Address: "10.0.0.2:5001", Meta: "http://gateway:80"})))
	was, known := readAddresses(dir)
	assert.True(t, known)
	assert.Equal(t, addresses{Raft: "10.0.0.2:5001"}, was)
	require.NoError(t, writeAddresses(dir, at.proven(raft.Member{Address: "gateway:5001", Meta: "http://10.0.0.2:4001/"})))
	was, _ = readAddresses(dir)
	assert.Equal(t, addresses{URL: "http://10.0.0.2:4001"}, was)
	require.NoError(t, os.WriteFile(filepath.Join(dir, addressesFile), []byte("{"), 0o600))
	_, known = readAddresses(dir)
	assert.False(t, known, "a torn file is none")
}

// A member asks for a correction of the configuration that it has seen. It never asks while another change is running.
func TestMove_AsksForWhatIsWrong(t *testing.T) {
	self := raft.Peer{ID: "n2", Incarnation: 9}
	now := func(edit func(*node.Members)) node.Members {
		m := node.Members{Index: 7, Committed: true, Configuration: raft.NewConfiguration([]raft.Member{
			{ID: "n1", Incarnation: 8}, {ID: "n2", Incarnation: 9, Address: "h:1", Meta: "http://h:2"}})}
		edit(&m)
		return m
	}
	address, url := "h:3", "http://h:4"
	for _, row := range []struct {
		rule   string
		now    node.Members
		stated addresses
		asks   *raft.Update
		done   bool
	}{
		{"nothing is stated", now(func(*node.Members) {}), addresses{}, nil, true},
		{"it is right", now(func(*node.Members) {}), addresses{"h:1", "http://h:2/"}, nil, true},
		{"the address is wrong", now(func(*node.Members) {}), addresses{"h:3", "http://h:2"}, &raft.Update{Peer: self, Address: &address}, false},
		{"the URL is wrong", now(func(*node.Members) {}), addresses{URL: "http://h:4"}, &raft.Update{Peer: self, Meta: &url}, false},
		{"there is no cluster yet", now(func(m *node.Members) { m.Index = 0 }), addresses{Raft: "h:3"}, nil, false},
		{"it is not committed", now(func(m *node.Members) { m.Committed = false }), addresses{Raft: "h:3"}, nil, false},
		{"a member joins", now(func(m *node.Members) { m.Configuration.Members[0].Next = raft.NextVoter }), addresses{Raft: "h:3"}, nil, false},
		{"the voters change", now(func(m *node.Members) { m.Outgoing = []raft.Peer{self} }), addresses{Raft: "h:3"}, nil, false},
		{"another disk has its id", now(func(m *node.Members) { m.Configuration.Members[1].Incarnation = 4 }), addresses{Raft: "h:3"}, nil, false},
	} {
		var asked *raft.Update
		right := false
		m := &mover{
			self: self, stated: row.stated, log: hclog.NewNullLogger(),
			members: func() node.Members { return row.now },
			right:   func(raft.Member) { right = true },
			change: func(_ context.Context, c raft.Change, ifIndex raft.Index) error {
				asked = &c.Update[0]
				assert.Equal(t, raft.Index(7), ifIndex, row.rule)
				return errors.New("no")
			},
		}
		assert.Equal(t, row.done, m.step(t.Context()), row.rule)
		assert.Equal(t, row.done, right, row.rule)
		assert.Equal(t, row.asks, asked, row.rule)
	}
}

// The leader refused the member's own request. Meanwhile somebody has corrected the entry.
func TestMove_LeavesALaterCorrectionAlone(t *testing.T) {
	entry := raft.Member{ID: "n2", Incarnation: 9, Address: "h:1", Meta: "http://h:1"}
	for _, row := range []struct {
		rule    string
		refused error
		later   raft.Member
		asks    *raft.Update // at the second step
	}{
		{"both", &raft.EarlierReleaseError{}, raft.Member{Address: "gateway:2", Meta: "http://gateway:3"}, nil},
		{"each field separately", &raft.EarlierReleaseError{}, raft.Member{Address: "gateway:2", Meta: "http://h:1"},
			&raft.Update{Peer: entry.Peer(), Meta: ptr("http://h:2")}},
		{"a change that it had not seen yet is not a later change", &raft.ConfigChangedError{}, raft.Member{Address: "gateway:2", Meta: "http://h:2"},
			&raft.Update{Peer: entry.Peer(), Address: ptr("h:2")}},
	} {
		now := node.Members{Index: 7, Committed: true, Configuration: raft.NewConfiguration([]raft.Member{entry})}
		var asked *raft.Update
		m := &mover{
			self: entry.Peer(), stated: addresses{"h:2", "http://h:2"}, log: hclog.NewNullLogger(),
			members: func() node.Members { return now }, right: func(raft.Member) {},
			change: func(_ context.Context, c raft.Change, _ raft.Index) error { asked = &c.Update[0]; return row.refused },
		}
		assert.False(t, m.step(t.Context()), row.rule)
		require.NotNil(t, asked, row.rule)
		asked = nil
		row.later.ID, row.later.Incarnation = entry.ID, entry.Incarnation
		now.Configuration, now.Index = raft.NewConfiguration([]raft.Member{row.later}), 8
		assert.Equal(t, row.asks == nil, m.step(t.Context()), row.rule)
		assert.Equal(t, row.asks, asked, row.rule)
	}
}

func ptr(s string) *string { return &s }

func TestMove_AsksLessOftenWhileItIsRefused(t *testing.T) {
	m := &mover{asked: true}
	for range 100 {
		assert.GreaterOrEqual(t, m.pause(), movePause/2)
		assert.Less(t, m.pause(), movePause*3/2)
	}
	m.failed = 1000
	assert.GreaterOrEqual(t, m.pause(), movePauseMax/2)
}
