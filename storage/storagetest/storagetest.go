// Package storagetest proves that a raft.Storage keeps the contract. Run it on your own store:
//
//	func TestStore(t *testing.T) {
//		storagetest.Run(t, storagetest.Harness{New: func(t testing.TB) storagetest.Place {
//			dir := t.TempDir()
//			return storagetest.Place{Open: func() (raft.Storage, error) { return mystore.Open(dir) }}
//		}})
//	}
//
// A store on a disk must also give the Place a PowerCut: kill -9 alone proves nothing about syncs,
// since the kernel keeps what a dead process wrote. OnDisk makes one from package powercut.
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
	// New returns an empty place for a store. What it needs is released by t.Cleanup.
	New func(t testing.TB) Place
}

// Place is where the data of one store lives. It outlives the store.
type Place struct {
	// Open opens the store that lives here: an uninitialized one the first time, later, after Close or
	// PowerCut, the one with the same data.
	Open func() (raft.Storage, error)
	// PowerCut loses everything that was not synced. A store that is open is dead from then on; the
	// suite closes it and does not look at the error. Nil: for stores that are not on a disk.
	PowerCut func() error
	// FailSyncs lets that many more syncs of the disk through and has all later ones fail until the
	// power is cut or it is called again; negative heals the disk. Needed if PowerCut is.
	FailSyncs func(after int) error
	// NoPowerCut says why there is no PowerCut, for the tests that are skipped then.
	NoPowerCut string
}

// Check is one rule of the contract.
type Check struct {
	Rule string
	// NeedsPowerCut: the check is for stores on a disk.
	NeedsPowerCut bool
	// Run returns what is wrong with the store in an empty place, or nil.
	Run func(Place) error
}

// Run checks every rule, each with a place of its own.
func Run(t *testing.T, h Harness) {
	for _, check := range Checks() {
		t.Run(check.Rule, func(t *testing.T) {
			place := h.New(t)
			if check.NeedsPowerCut && place.PowerCut == nil {
				t.Skipf("no power cuts here: %s", cmp.Or(place.NoPowerCut, "the store is not on a disk"))
			}
			if err := check.Run(place); err != nil {
				t.Error(err)
			}
		})
	}
}

// Checks returns all rules.
func Checks() []Check {
	var all []Check
	for _, group := range [][]Check{identityChecks, lineageChecks, logChecks, readChecks, lifeChecks, durabilityChecks} {
		all = append(all, group...)
	}
	return all
}

// OnDisk returns a place in a directory of a file system that forgets what was not synced, for the
// store that open opens there. Where there can be no such file system it is a plain directory, and
// the checks that need a power cut are skipped and say why. The test binary must call powercut.Main
// in its TestMain.
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
