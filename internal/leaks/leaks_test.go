package leaks

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { os.Exit(Main(m.Run)) }

// leftSince is since without a wait.
func leftSince(before map[string]string) string {
	var left []string
	for key, what := range held() {
		if _, known := before[key]; !known && what != "" {
			left = append(left, what)
		}
	}
	return strings.Join(left, "\n")
}

func TestHeld_NamesAGoroutineAndWhoStartedIt(t *testing.T) {
	before := held()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		<-end
	}()
	assert.Contains(t, leftSince(before), "created by github.com/coxswain/raft/internal/leaks.TestHeld_NamesAGoroutine")
	close(end)
	<-ended
	assert.Empty(t, since(before))
}

func TestHeld_NamesFilesAndSockets(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says what a process has open")
	}
	before := held()
	path := filepath.Join(t.TempDir(), "left")
	f, err := os.Create(path)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	left := leftSince(before)
	assert.Contains(t, left, "open file: "+path)
	assert.Contains(t, left, "open socket: from "+l.Addr().String())
	require.NoError(t, f.Close())
	require.NoError(t, l.Close())
	assert.Empty(t, since(before))
}

// failing is a test that may fail.
type failing struct {
	testing.TB
	cleanup func()
	errors  int
}

func (*failing) Helper()                 { /* nothing to hide */ }
func (f *failing) Failed() bool          { return f.errors > 0 }
func (f *failing) Cleanup(do func())     { f.cleanup = do }
func (f *failing) Errorf(string, ...any) { f.errors++ }

func TestCheck_CountsFromItsFirstCall(t *testing.T) {
	f := &failing{TB: t}
	Check(f)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		<-end
	}()
	Check(f)
	close(end)
	<-ended
	f.cleanup()
	assert.Zero(t, f.errors)
}

// On one processor, the goroutine has not run when Check begins.
func TestCheck_LeavesOutAGoroutineThatHasNotRunYet(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var all sync.WaitGroup
	end := make(chan struct{})
	all.Go(func() { waitFor(end) })
	before := held()
	runtime.Gosched()
	assert.Empty(t, leftSince(before))
	close(end)
	all.Wait()
}

//go:noinline
func waitFor(end chan struct{}) { <-end }
