package storage_test

import (
	"os"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/storage/storagetest"
	"github.com/coxswain/raft/storage/storagetest/powercut"
)

func TestMain(m *testing.M) {
	powercut.Main()
	writerMain()
	os.Exit(leaks.Main(m.Run))
}

func openBolt(dir string) (raft.Storage, error) { return storage.OpenBolt(dir, storage.BoltOptions{}) }

func TestBolt_KeepsTheContract(t *testing.T) {
	storagetest.Run(t, storagetest.Harness{New: func(t testing.TB) storagetest.Place {
		leaks.Check(t)
		return storagetest.OnDisk(t, openBolt)
	}})
}

func openLog(dir string) (raft.Storage, error) {
	return storage.OpenLog(dir, storage.LogOptions{SegmentBytes: 32 << 10})
}

func TestLog_KeepsTheContract(t *testing.T) {
	storagetest.Run(t, storagetest.Harness{New: func(t testing.TB) storagetest.Place {
		leaks.Check(t)
		return storagetest.OnDisk(t, openLog)
	}})
}

func TestMemory_KeepsTheContract(t *testing.T) {
	storagetest.Run(t, storagetest.Harness{New: func(testing.TB) storagetest.Place {
		var kept *storage.Memory
		return storagetest.Place{Open: func() (raft.Storage, error) {
			if kept == nil {
				kept = storage.NewMemory()
			} else {
				kept = kept.Reopen()
			}
			return kept, nil
		}}
	}})
}
