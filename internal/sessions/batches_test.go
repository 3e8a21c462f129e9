package sessions

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

type longAnswers struct{ raft.FSM }

func (longAnswers) Apply(batch []raft.Entry, results [][]byte) error {
	for i := range batch {
		results[i] = make([]byte, 4096)
	}
	return nil
}

// An opening whose limit is lower than the table's is judged by the stored answers, too, however the entries come in batches.
func TestFSM_AnOpeningWithALowerLimitDependsOnNoBatch(t *testing.T) {
	limits := Limits{}.WithDefaults()
	low := limits
	low.Bytes = 2048
	entries := []raft.Entry{
		{Index: 1, Term: 1, Kind: raft.EntrySession, Time: 1, Data: Request{Kind: Open, ID: ID{Nonce: 1}, Limits: limits}.Encode()},
		{Index: 2, Term: 1, Kind: raft.EntrySession, Time: 2, Data: Request{Kind: Command, ID: ID{Nonce: 1, Index: 1}, Number: 1, Floor: 1}.Encode()},
		{Index: 3, Term: 1, Kind: raft.EntrySession, Time: int64(time.Second), Data: Request{Kind: Open, ID: ID{Nonce: 2}, Limits: low}.Encode()},
	}
	together, alone := &FSM{inner: longAnswers{}, table: NewTable()}, &FSM{inner: longAnswers{}, table: NewTable()}
	require.NoError(t, together.Apply(entries, make([][]byte, len(entries))))
	for i := range entries {
		require.NoError(t, alone.Apply(entries[i:i+1], make([][]byte, 1)))
	}
	assert.True(t, together.Table().Equal(alone.Table()), "%d sessions after one batch, %d after three", together.Table().Len(), alone.Table().Len())
}
