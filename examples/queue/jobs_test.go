package main

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/boltfsm"
	"github.com/coxswain/raft/rafttest"
)

func newJobs(t *testing.T) *boltfsm.FSM {
	state, err := boltfsm.Open(filepath.Join(t.TempDir(), "jobs.db"), apply, nil)
	require.NoError(t, err)
	t.Cleanup(func() { state.Close() })
	return state
}

func text(c command) []byte {
	b, _ := json.Marshal(c)
	return b
}

func TestJobs_AreAStateMachine(t *testing.T) {
	rafttest.CheckFSM(t, func() raft.FSM { return newJobs(t) }, [][]byte{
		text(command{Enqueue: []byte("a")}), text(command{Enqueue: []byte("b")}), text(command{Lease: time.Second}), text(command{Lease: time.Hour}),
		text(command{Done: &job{ID: 1, Lease: 3}}), text(command{Lease: time.Minute}), []byte("nonsense"), text(command{Done: &job{ID: 2, Lease: 9}}),
	})
}

// A lease ends by the stamps of entries. Then the job goes to the next worker, and the first one can no longer end it.
func TestJobs_ALeaseEnds(t *testing.T) {
	jobs, at := newJobs(t), raft.Entry{Term: 1, Kind: raft.EntryCommand}
	do := func(after time.Duration, c command) (answer job) {
		results := make([][]byte, 1)
		at.Index, at.Time, at.Data = at.Index+1, at.Time+int64(after), text(c)
		require.NoError(t, jobs.Apply([]raft.Entry{at}, results))
		require.NoError(t, json.Unmarshal(results[0], &answer))
		return answer
	}
	do(0, command{Enqueue: []byte("a")})
	first := do(0, command{Lease: time.Second})
	assert.Equal(t, job{ID: 1, Lease: 2, Until: int64(time.Second), Payload: []byte("a")}, first)
	assert.Zero(t, do(time.Second-1, command{Lease: time.Second}), "it is leased")
	second := do(1, command{Lease: time.Second})
	assert.Equal(t, job{ID: 1, Lease: 4, Until: 2 * int64(time.Second), Payload: []byte("a")}, second)
	assert.Zero(t, do(0, command{Done: &first}), "somebody else has it")
	assert.Equal(t, second, do(0, command{Done: &second}))
	assert.Zero(t, do(0, command{Done: &second}), "it is done")
	assert.Zero(t, do(time.Hour, command{Lease: time.Second}), "there are no more")
}
