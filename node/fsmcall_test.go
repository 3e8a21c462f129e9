package node

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

// A confirmed read waits for a running Apply. If that Apply fails, the read may get its turn before the node begins to end.
func TestRead_NobodyReadsWhatAFailedApplyHasLeft(t *testing.T) {
	for name, apply := range map[string]func() error{
		"an error":            func() error { return raft.ErrOverloaded },
		"a panic":             func() error { panic("half done") },
		"the goroutine's end": func() error { runtime.Goexit(); return nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			a, release, read := applier{calls: newFSMCalls()}, make(chan struct{}), make(chan error, 1)
			go func() { _ = a.call("Apply", raft.EntryID{}, func() error { <-release; return apply() }) }()
			synctest.Wait()
			go func() {
				_, err := a.calls.beginRead(context.Background(), nil)
				read <- err
			}()
			synctest.Wait()
			expect.Empty(t, read, name)
			close(release)
			expect.ErrorIs(t, <-read, raft.ErrClosed, name)
		})
	}
}
