package member

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// With a list of initial members, Advertise and Meta correct the entry, too, and one without the other leaves the other as it is.
func TestEntry_IsCorrectedWithoutSeeds(t *testing.T) {
	f := newFound(t, 3)
	var initial []raft.Member
	for i := range f.cfg {
		initial = append(initial, raft.Member{ID: f.cfg[i].ID, Address: f.cfg[i].Listen, Meta: "first"})
	}
	for i := range f.cfg {
		f.cfg[i].Founders, f.cfg[i].Seeds, f.cfg[i].Meta, f.cfg[i].Initial = nil, Seeds{}, "", initial
	}
	f.start(all...)
	f.write(0)
	f.end(1)
	f.move(1)
	f.cfg[1].Advertise = f.cfg[1].Listen
	f.start(1)
	f.await("has the new address", all, func(m *Member) bool {
		of, _ := m.Members().Member("n2")
		return of.Address == f.cfg[1].Listen && of.Meta == "first"
	})
	f.end(2)
	f.cfg[2].Meta = "second"
	f.start(2)
	f.await("has the new Meta", all, func(m *Member) bool {
		of, _ := m.Members().Member("n3")
		return of.Address == f.cfg[2].Listen && of.Meta == "second"
	})
	assert.Empty(t, f.members[2].Status().Missing)
	f.write(0)
}

// A program that gives addresses their meaning chooses what they look like.
func TestEntry_AddressesOfTheProgram(t *testing.T) {
	cfg := Config{ID: "n1", Cluster: "test", Dir: t.TempDir(), Listen: "127.0.0.1:0", Advertise: "rack 1", Initial: []raft.Member{{ID: "n1", Address: "rack 1"}}}
	assert.ErrorContains(t, cfg.Validate(), "Advertise")
	cfg.Net.Resolve = func(context.Context, raft.Member) (string, error) { return "127.0.0.1:1", nil }
	assert.NoError(t, cfg.Validate())
}

// The function is called until it has led to a cluster. What it returns beside an error counts.
func TestSeeds_LookUp(t *testing.T) {
	f := newFound(t, 4)
	f.start(all...)
	f.write(0)
	called := 0
	f.cfg[3].Seeds = LookUp(func(ctx context.Context) ([]string, error) {
		if called++; called < 3 {
			return nil, errors.New("the registry is away")
		}
		until, limited := ctx.Deadline()
		assert.True(t, limited && time.Until(until) <= resolveTimeout)
		return f.seeds[:1], errors.New("the registry is incomplete")
	})
	require.NoError(t, f.cfg[3].Validate())
	f.start(3)
	f.await("votes", []int{3}, votes)

	waits, heard := newFound(t, 3), make(chan struct{}, 1)
	waits.cfg[0].Seeds = LookUp(func(context.Context) ([]string, error) {
		select {
		case heard <- struct{}{}:
		default:
		}
		return nil, errors.New("the registry is away")
	})
	waits.start(0)
	<-heard
	waits.await("says why", []int{0}, func(m *Member) bool {
		missing := m.Status().Missing
		return len(missing) > 0 && missing[0] == "seeds: the registry is away"
	})
}
