package raft_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// No number of restarts clears a mark: each of them says again what to do.
func TestStart_AMarkedStoreIsRefusedForEver(t *testing.T) {
	by := raft.Peer{ID: "n3", Incarnation: 9}
	for _, row := range []struct {
		mark raft.Mark
		err  error
		says string
	}{
		{raft.Mark{Kind: raft.MarkStaleImage, By: by, Detail: "start 3 is missing"}, &raft.StaleImageError{},
			"add it again with an empty store"},
		{raft.Mark{Kind: raft.MarkContradicted, By: by, Term: 7, Detail: "entry 5"}, &raft.ContradictedError{},
			"keep a copy"},
	} {
		t.Run(row.mark.Kind.String(), func(t *testing.T) {
			store := storage.NewMemory()
			_, err := store.Load(context.Background(), raft.Identity{Cluster: "test", ID: "n1", Fresh: 5, Nonce: 6})
			require.NoError(t, err)
			require.NoError(t, store.Write(raft.StorageWrite{Mark: &row.mark}))
			for range raft.LineageBootsMax + 2 {
				store = store.Reopen()
				_, err = raft.Start(context.Background(), raft.Config{ID: "n1", Cluster: "test"}, newJournal(), store,
					transport.NewNetwork().Join("n1"))
				require.IsType(t, row.err, err)
				assert.ErrorContains(t, err, row.says)
				assert.ErrorContains(t, err, row.mark.Detail)
			}
		})
	}
}
