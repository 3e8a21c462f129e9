package main_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/testca"
)

// minutesVariable sets the number of minutes for which an idle cluster runs beside compilers.
const minutesVariable = "RAFTKV_MINUTES"

// compile builds the standard library again and again until the context ends.
func compile(ctx context.Context, cache string) {
	for ctx.Err() == nil {
		build := exec.CommandContext(ctx, "go", "build", "-a", "std")
		build.Env = append(os.Environ(), "GOCACHE="+cache)
		_ = build.Run() // the context kills the last build
	}
}

// writeSynced writes a file and syncs it again and again until the context ends.
func writeSynced(t *testing.T, ctx context.Context, name string) {
	f, err := os.Create(name)
	if !assert.NoError(t, err) {
		return
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for at := int64(0); ctx.Err() == nil; at = (at + int64(len(block))) % (64 << 20) {
		_, err := f.WriteAt(block, at)
		if !assert.NoError(t, err) || !assert.NoError(t, f.Sync()) {
			return
		}
	}
}

func TestMeasure_NoNeedlessChangeBesideCompilers(t *testing.T) {
	fullOnly(t)
	c, ca := newCluster(t), testca.New(t)
	certificates := map[string][]string{}
	for _, n := range c.Nodes {
		certificates[n.ID] = tlsFlags(t, ca, n.ID)
	}
	c.More = func(n local.Node) []string { return certificates[n.ID] }
	require.NoError(t, c.Start())
	c.leader("")
	c.caughtUp()
	term, before := c.term(), c.lines("leadership changed")

	minutes := time.Duration(number(t, minutesVariable, 1)) * time.Minute
	ctx, stop := context.WithTimeout(t.Context(), minutes)
	defer stop()
	var busy sync.WaitGroup
	cache, file := t.TempDir(), filepath.Join(t.TempDir(), "synced")
	busy.Go(func() { compile(ctx, cache) })
	busy.Go(func() { writeSynced(t, ctx, file) })
	busy.Wait()

	changes, late := c.lines("leadership changed")-before, c.lines("the node woke late")
	t.Logf("%v beside go build -a and synced writes, with TLS: %d terms, %d changes of a member's view; %d minutes in which a "+
		"member woke half a timeout late", minutes, c.term()-term, changes, late)
	assert.True(t, changes == 0 || late > 0, "a leadership change without a late wake-up of a member")
	c.write()
}

// lines counts the occurrences of a text in the logs of all members.
func (c cluster) lines(text string) (count int) {
	for _, n := range c.Nodes {
		log, err := os.ReadFile(filepath.Join(c.dir, n.ID+".log"))
		require.NoError(c.t, err)
		count += strings.Count(string(log), text)
	}
	return count
}
