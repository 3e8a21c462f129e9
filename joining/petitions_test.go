package joining_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
)

// petitionOf returns the petition of a member and one of its stores.
func petitionOf(id raft.NodeID, incarnation raft.Incarnation) raft.Who {
	q := petition(false)
	q.From, q.Address = raft.Peer{ID: id, Incarnation: incarnation}, string(id)+":1"
	return q
}

func TestPetitions_OneChangeForEachID(t *testing.T) {
	var p joining.Petitions
	l := leads(configured())
	d, err := p.Begin(second, petitionOf("n3", 9), l)
	require.NoError(t, err)
	require.NotNil(t, d.Change)
	_, err = p.Begin(second, petitionOf("n3", 9), l)
	assert.ErrorIs(t, err, joining.ErrPetitionOpen)
	_, err = p.Begin(second, petitionOf("n3", 8), l)
	assert.ErrorContains(t, err, "another incarnation of n3, 0000000000000009, is joining")
	_, err = p.Begin(second, petitionOf("n4", 8), l)
	assert.NoError(t, err)
	p.Ended(second, petitionOf("n3", 9).From, nil)
	d, err = p.Begin(second, petitionOf("n3", 8), l)
	assert.NoError(t, err)
	assert.NotNil(t, d.Change)
}

func TestPetitions_AreBounded(t *testing.T) {
	var p joining.Petitions
	for i := range 16 {
		_, err := p.Begin(second, petitionOf(raft.NodeID(fmt.Sprintf("m%d", i)), 1), leads(configured()))
		require.NoError(t, err)
	}
	_, err := p.Begin(second, petitionOf("m16", 1), leads(configured()))
	assert.ErrorContains(t, err, "16 members are joining at this moment")
	p.Ended(second, petitionOf("m0", 1).From, nil)
	_, err = p.Begin(second, petitionOf("m16", 1), leads(configured()))
	assert.NoError(t, err)
}

func TestPetitions_WhoCannotBeReachedWaits(t *testing.T) {
	var p joining.Petitions
	now, missing := second, errors.New("nobody is there")
	begins := func(now raft.Time) error {
		_, err := p.Begin(now, petitionOf("n3", 9), leads(configured()))
		return err
	}
	for _, pause := range []raft.Time{1, 2, 4, 8, 16, 32, 60, 60} {
		require.NoError(t, begins(now))
		p.Ended(now, petitionOf("n3", 9).From, missing)
		assert.ErrorIs(t, begins(now+pause*second-1), missing)
		now += pause * second
	}
	require.NoError(t, begins(now))
	p.Ended(now, petitionOf("n3", 9).From, nil)
	assert.NoError(t, begins(now), "it was reached")
	for i := range 40 { // of too many, all are forgotten
		p.Ended(now, raft.Peer{ID: raft.NodeID(fmt.Sprintf("s%d", i))}, missing)
	}
	begun := 0
	for i := range 40 {
		if _, err := p.Begin(now, petitionOf(raft.NodeID(fmt.Sprintf("s%d", i)), 1), leads(configured())); !errors.Is(err, missing) {
			begun++
		}
	}
	assert.GreaterOrEqual(t, begun, 24)
}

// Contact shows which version of the application a petitioner runs.
func TestGrant_TheVersionOfTheApplication(t *testing.T) {
	needs := configured(raft.Member{ID: "n2", Incarnation: 2, Address: "h2:1", AppVersion: 3})
	needs.Members[0].AppVersion, needs.AppVersionMin, needs.Level = 3, 3, 3
	d, err := new(joining.Grant).Decide(second, petition(false), leads(needs))
	require.NoError(t, err)
	assert.NotNil(t, d.Change)
}

func TestRefused_WhatAMemberDoes(t *testing.T) {
	removed := fmt.Errorf("start: %w", &raft.RemovedError{Index: 7})
	damaged := &raft.CorruptError{File: "f", Reason: errors.New("r")}
	for _, row := range []struct {
		why      error
		setAside bool
		rejoin   raft.Index
		ask      bool
		err      string // "": the store may be set aside
	}{
		{why: removed, rejoin: 7},
		{why: removed, rejoin: 7, setAside: true},
		{why: removed, rejoin: 6, err: "Rejoin names the removal by entry 6"},
		{why: removed, rejoin: 8, setAside: true, err: "Rejoin names the removal by entry 8"},
		{why: removed, err: "by configuration 7"},
		{why: removed, setAside: true, ask: true}, // MayDiscard refuses it
		{why: damaged, err: "f is missing"},
		{why: damaged, rejoin: 7, err: "f is missing"},
		{why: damaged, setAside: true, ask: true},
	} {
		ask, err := joining.Refused(row.why, row.setAside, row.rejoin)
		assert.Equal(t, row.ask, ask)
		if row.err == "" {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, row.err)
		assert.ErrorIs(t, err, row.why)
	}
}
