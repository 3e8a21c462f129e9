package upgrade_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/built"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/local"
)

// Until the first priority, members go back to the previous release. While a member runs it, a priority is refused. After the
// first priority, the previous release refuses to start, and the store is as it was.
func TestUpgrade_TheFirstPriorityEndsTheWayBack(t *testing.T) {
	program, version := previousProgram(t.Context(), t)
	if _, out, _ := runs(t.Context(), t, program, "members", "priority", "--help"); strings.Contains(out, "members priority ID") {
		t.Skip("the previous release, " + version + ", knows priorities itself")
	}
	this, err := built.Raftkv()
	require.NoError(t, err)
	here, previous := release{name: thisRelease, program: this}, release{name: version, program: program}
	setSnapshots(t, &previous, &here)
	ctx, cancel := context.WithTimeoutCause(t.Context(), rollMax, fmt.Errorf("the test took longer than %v", rollMax))
	defer cancel()
	r := newRolling(ctx, t, previous)
	r.settle("started as " + version)
	r.fill()
	verify := r.work()

	r.roll(here, false, func(last local.Node) { r.refusesPriorities(here, last) })
	r.roll(previous, false, nil)
	r.roll(here, false, nil)
	n := r.Nodes[0]
	code, out, errs := r.prefers(here, n, "5")
	require.Zero(t, code, errs)
	require.Contains(t, out, "done: configuration ")
	r.settle("a member has a priority")

	r.Process(n.ID).Stop(stopMax)
	before := filesIn(t, r.DataDir(n.ID))
	log := filepath.Join(t.TempDir(), "old.log")
	old, err := local.StartProcess(previous.program, r.ServeArgs(n), log)
	require.NoError(t, err)
	t.Cleanup(old.Kill)
	select {
	case <-old.Done():
	case <-ctx.Done():
		require.FailNow(t, "the previous release runs on a store that it cannot read")
	}
	require.Error(t, old.Err())
	said, err := os.ReadFile(log)
	require.NoError(t, err)
	assert.Contains(t, string(said), "the feature level of the cluster")
	assert.Contains(t, string(said), "was written by a later release: it has version 2")
	assert.Equal(t, before, filesIn(t, r.DataDir(n.ID)), "the store is as it was")
	require.NoError(t, r.Start(n.ID))
	r.settle(n.ID + " continues as this release")
	verify()
	r.compare()
	shown, err := r.Status(ctx, n)
	require.NoError(t, err)
	assert.Equal(t, []int{5, 1, 1}, prioritiesIn(shown))
}

// prefers sets a member's priority with the command of the release.
func (r *rolling) prefers(as release, n local.Node, priority string) (code int, out, errs string) {
	args := []string{"members", "priority", n.ID, priority}
	for _, n := range r.Nodes {
		args = append(args, "--server", n.URL())
	}
	return runs(r.ctx, r.t, as.program, args...)
}

// refusesPriorities checks that no member gets a priority while the last member runs the previous release, under a leader of each release.
func (r *rolling) refusesPriorities(here release, last local.Node) {
	r.t.Helper()
	for _, leads := range []local.Node{last, (&joiner{rolling: r}).otherThan(last)} {
		(&joiner{rolling: r}).transfer(leads)
		code, _, errs := r.prefers(here, last, "5")
		assert.Equal(r.t, 1, code, errs)
		assert.Contains(r.t, errs, string(admin.EarlierRelease), "%s leads", leads.ID)
		s, err := r.Status(r.ctx, leads)
		require.NoError(r.t, err)
		assert.Subset(r.t, []int{1}, prioritiesIn(s), "nothing has changed")
	}
}

// prioritiesIn returns the priorities that a status shows.
func prioritiesIn(s api.Status) (all []int) {
	for _, m := range s.Members {
		if m.Priority != nil {
			all = append(all, *m.Priority)
		}
	}
	return all
}

// filesIn returns the sums of all files in a directory.
func filesIn(t *testing.T, dir string) map[string][sha256.Size]byte {
	sums := map[string][sha256.Size]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		sums[path] = sha256.Sum256(data)
		return err
	}))
	require.NotEmpty(t, sums)
	return sums
}
