package load

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Span is the time in which something ran.
type Span struct{ Began, Ended time.Time }

// Pauses returns, in order, for each of the spans the longest time between two operations that overlaps it. It sorts ended, the
// times at which operations have ended.
func Pauses(ended []time.Time, spans []Span) (pauses []time.Duration) {
	slices.SortFunc(ended, time.Time.Compare)
	for _, s := range spans {
		i, _ := slices.BinarySearchFunc(ended, s.Began, time.Time.Compare)
		longest := time.Duration(0)
		for i = max(i, 1); i < len(ended) && ended[i-1].Before(s.Ended); i++ {
			longest = max(longest, ended[i].Sub(ended[i-1]))
		}
		pauses = append(pauses, longest)
	}
	slices.Sort(pauses)
	return pauses
}

// syncedPause is the pause between two writes of SyncedWrites.
const syncedPause = 10 * time.Millisecond

// SyncedWrites measures small synced writes to a file in the directory until the context ends. It returns their durations in
// order, at least one.
func SyncedWrites(ctx context.Context, dir string) (took []time.Duration, err error) {
	f, err := os.Create(filepath.Join(dir, "synced"))
	if err != nil {
		return []time.Duration{0}, err
	}
	for ctx.Err() == nil && err == nil || len(took) == 0 {
		began := time.Now()
		_, failed := f.Write(make([]byte, 256))
		err = errors.Join(failed, f.Sync())
		took = append(took, time.Since(began))
		select {
		case <-ctx.Done():
		case <-time.After(syncedPause):
		}
	}
	slices.Sort(took)
	return took, errors.Join(err, f.Close())
}
