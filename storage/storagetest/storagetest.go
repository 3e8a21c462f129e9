// Package storagetest tests that a raft.Storage keeps its contract. Run it on your own store:
//
//	func TestStore(t *testing.T) {
//		storagetest.Run(t, storagetest.Harness{New: func(t testing.TB) storagetest.Place {
//			dir := t.TempDir()
//			return storagetest.Place{Open: func() (raft.Storage, error) { return mystore.Open(dir) }}
//		}})
//	}
//
// If the store is on a disk, the Place also needs a PowerCut. kill -9 proves nothing about syncs, because the kernel keeps
// the data that a dead process wrote. OnDisk makes a Place with power cuts from package powercut.
package storagetest

import (
	"cmp"
	"path/filepath"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage/storagetest/powercut"
)

// Harness makes the stores to be checked.
type Harness struct {
	// New returns an empty place for a store, and registers its cleanup with t.Cleanup.
	New func(t testing.TB) Place
}

// Place holds the data of one store. It outlives the store.
type Place struct {
	// Open opens the store in this place. The first call opens an uninitialized store. Every later call, after Close or
	// PowerCut, opens a store with the same data.
	Open func() (raft.Storage, error)
	// PowerCut loses everything that is not synced. After it, an open store no longer works. The suite closes that store and
	// ignores the error. PowerCut is nil for a store that is not on a disk.
	PowerCut func() error
	// FailSyncs lets the given number of further syncs of the disk succeed. Every later sync fails, until the next power cut
	// or the next call of FailSyncs. A negative number repairs the disk. FailSyncs is required if PowerCut is set.
	FailSyncs func(after int) error
	// NoPowerCut says why PowerCut is nil. Skipped tests print it.
	NoPowerCut string
}

// Check is one rule of the contract.
type Check struct {
	Rule string // one sentence
	// NeedsPowerCut marks a check for stores on a disk.
	NeedsPowerCut bool
	// NeedsSnapshots marks a check for stores that are a raft.SnapshotStorage.
	NeedsSnapshots bool
	// Run checks a store in an empty place. It returns nil if the store is correct, and otherwise an error that says what is
	// wrong.
	Run func(Place) error
}

// Run checks every rule, each in a new place.
func Run(t *testing.T, h Harness) {
	for _, check := range Checks() {
		t.Run(check.Rule, func(t *testing.T) {
			place := h.New(t)
			if check.NeedsPowerCut && place.PowerCut == nil {
				t.Skipf("no power cuts here: %s", cmp.Or(place.NoPowerCut, "the store is not on a disk"))
			}
			if check.NeedsSnapshots && !keepsSnapshots(t, h) {
				t.Skip("the store keeps no snapshots: it is not a raft.SnapshotStorage")
			}
			if err := check.Run(place); err != nil {
				t.Error(err)
			}
		})
	}
}

// keepsSnapshots reports whether the store is a raft.SnapshotStorage. It opens a store in a place of its own, because the
// checks need an empty place.
func keepsSnapshots(t *testing.T, h Harness) bool {
	store, err := h.New(t).Open()
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	defer store.Close()
	_, ok := store.(raft.SnapshotStorage)
	return ok
}

// Checks returns all rules.
func Checks() []Check {
	var all []Check
	for _, group := range [][]Check{identityChecks, lineageChecks, logChecks, readChecks, lifeChecks, durabilityChecks} {
		all = append(all, group...)
	}
	for _, check := range snapshotChecks {
		check.NeedsSnapshots = true
		all = append(all, check)
	}
	return all
}

// OnDisk returns a place in a directory of a file system that loses everything unsynced at a power cut. open opens the store
// in that directory. If such a file system cannot be mounted, OnDisk uses a plain directory. The suite then skips the checks
// that need a power cut, and prints the reason. The test binary must call powercut.Main in its TestMain.
func OnDisk(t testing.TB, open func(dir string) (raft.Storage, error)) Place {
	root := t.TempDir()
	dir := filepath.Join(root, "data", "n1")
	place := Place{Open: func() (raft.Storage, error) { return open(dir) }}
	fs, err := powercut.Mount(root)
	if err != nil {
		place.NoPowerCut = err.Error()
		return place
	}
	t.Cleanup(func() {
		if err := fs.Close(); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	})
	place.PowerCut, place.FailSyncs = fs.PowerCut, fs.FailSyncs
	return place
}
