package upgrade_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/cmd/raftkv/internal/api"
	"github.com/coxswain/raft/cmd/raftkv/internal/client"
	"github.com/coxswain/raft/cmd/raftkv/internal/local"
)

// joiner is a process that is to become a member of the cluster.
type joiner struct {
	*rolling
	node    local.Node
	process *local.Process // the latest one
	servers []string       // flags that name the servers of the cluster
}

func (r *rolling) newJoiner() *joiner {
	r.t.Helper()
	free, err := local.OpenLayout(r.t.TempDir(), 1, nil)
	require.NoError(r.t, err)
	r.t.Cleanup(free.Close)
	j := &joiner{rolling: r, node: free.Nodes[0]}
	j.node.ID, j.node.Joins = "n4", true
	for _, n := range r.Nodes {
		j.servers = append(j.servers, "--server", n.URL())
	}
	r.t.Cleanup(func() {
		if j.process != nil {
			j.process.Kill()
		}
	})
	return j
}

// start starts it with that release on an empty directory.
func (j *joiner) start(as release) {
	j.t.Helper()
	if j.process != nil {
		j.process.Stop(stopMax)
	}
	require.NoError(j.t, os.RemoveAll(j.DataDir(j.node.ID)))
	j.run(as)
}

// run starts it with that release on the directory that it has.
func (j *joiner) run(as release) {
	j.t.Helper()
	j.running[j.node.ID] = as
	p, err := local.StartProcess(as.program, j.ServeArgs(j.node), j.log())
	require.NoError(j.t, err)
	j.process = p
}

func (j *joiner) log() string { return j.DataDir(j.node.ID) + ".log" }

// add runs the command of this release that adds it to the cluster.
func (j *joiner) add() (code int, out, errs string) {
	j.t.Helper()
	args := append([]string{"members", "add", j.node.ID, j.node.RaftAddr, j.node.URL()}, j.servers...)
	return runs(j.ctx, j.t, j.newest().program, args...)
}

// newest returns the release that can change the members.
func (j *joiner) newest() release {
	for _, n := range j.Nodes {
		if as := j.running[n.ID]; as.name == thisRelease {
			return as
		}
	}
	require.Fail(j.t, "no member is of this release")
	return release{}
}

// runs runs a program to its end. Its standard input stays open, since some of them end with it.
func runs(ctx context.Context, t *testing.T, program string, args ...string) (code int, out, errs string) {
	t.Helper()
	stdin, open, err := os.Pipe()
	require.NoError(t, err)
	defer stdin.Close()
	defer open.Close()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, program, args...)
	command.Stdin, command.Stdout, command.Stderr = stdin, &stdout, &stderr
	var ended *exec.ExitError
	if err := command.Run(); err != nil {
		require.ErrorAs(t, err, &ended)
		code = ended.ExitCode()
	}
	t.Logf("raftkv %s: exit code %d\n%s%s", args[0], code, &stderr, &stdout)
	return code, stdout.String(), stderr.String()
}

// isRefusedFor tries to add it while one member is of the previous release: under another leader, and under that one.
func (j *joiner) isRefusedFor(earlier local.Node) {
	j.t.Helper()
	other := j.Nodes[0]
	if other.ID == earlier.ID {
		other = j.Nodes[1]
	}
	j.isRefused(other, earlier, earlier.ID+" speaks protocol ")
	_, out, _ := runs(j.ctx, j.t, j.newest().program, "status", "--server", other.URL())
	assert.Regexp(j.t, `(?m)^releases: .*; `+earlier.ID+` .*protocol \d`, out, "it is shown by itself")
	j.isRefused(earlier, earlier, earlier.ID+" leads, and runs an earlier release, which cannot change the members")
}

// isRefused tries to add it while leads leads. The reason is not checked if that changes meanwhile.
func (j *joiner) isRefused(leads, earlier local.Node, reason string) {
	j.t.Helper()
	for {
		before := j.transfer(leads)
		code, _, errs := j.add()
		assert.Equal(j.t, 1, code)
		assert.Contains(j.t, errs, "earlier_release: ")
		assert.Contains(j.t, errs, "upgrade "+earlier.ID+" first, then try again")
		assert.Equal(j.t, 1, bytes.Count([]byte(errs), []byte("\n")), "one line")
		now := j.members()
		assert.EqualValues(j.t, 1, now.Index, "the configuration is the one of the bootstrap")
		assert.Len(j.t, now.Members, len(j.Nodes))
		assert.Zero(j.t, now.Level, "there is a way back")
		if after, err := j.Status(j.ctx, leads); err == nil && after.Role == "leader" && after.Term == before.Term {
			assert.Contains(j.t, errs, reason)
			return
		}
	}
}

// transfer makes a member the leader.
func (j *joiner) transfer(to local.Node) api.Status {
	j.t.Helper()
	shared := client.NewHTTP(1, stopMax)
	defer shared.CloseIdleConnections()
	for {
		if s, err := j.Status(j.ctx, to); err == nil && s.Role == "leader" {
			return s
		}
		_, err := j.leader().Client(shared).Transfer(j.ctx, to.ID) // it may fail; the next one may not
		require.NoError(j.t, context.Cause(j.ctx), "%s does not become the leader: %v", to.ID, err)
	}
}

// members returns the members as the member of this release sees them that knows most.
func (j *joiner) members() api.Members {
	j.t.Helper()
	var urls []string
	for _, n := range j.Nodes {
		urls = append(urls, n.URL())
	}
	l := client.NewLookout(urls)
	defer l.Close()
	now, err := l.Look(j.ctx)
	require.NoError(j.t, err)
	return now
}

// isRefusedAsEarlier tries to add it while it is of the previous release itself, and no other member is.
func (j *joiner) isRefusedAsEarlier() {
	j.t.Helper()
	j.isRefused(j.leader(), j.node, j.node.ID+" speaks protocol ")
}

// joins adds it, now that every member is of this release.
func (j *joiner) joins() {
	j.t.Helper()
	code, out, errs := j.add()
	require.Zero(j.t, code, errs)
	assert.Contains(j.t, out, "done: configuration ")
	now := j.members()
	assert.Equal(j.t, []string{"n1", "n2", "n3", "n4"}, now.Voters())
	assert.EqualValues(j.t, 1, now.Level)
	j.settle("n4 has joined")
}

// staysAtThisRelease starts the previous release on the stores of the new member and of one that was there before. It
// refuses both, and changes nothing.
func (j *joiner) staysAtThisRelease(previous release) {
	j.t.Helper()
	j.process.Stop(stopMax)
	here := j.newest()
	j.isLater(previous, j.node)
	j.Nodes = append(j.Nodes, j.node)
	j.running[j.node.ID] = here
	require.NoError(j.t, j.Start(j.node.ID))
	j.settle("n4 goes on as this release")

	n := j.Nodes[0]
	j.Process(n.ID).Stop(stopMax)
	j.isLater(previous, n)
	require.NoError(j.t, j.Start(n.ID))
	j.settle(n.ID + " goes on as this release")
}

func (j *joiner) isLater(previous release, n local.Node) {
	j.t.Helper()
	here := j.running[n.ID]
	j.running[n.ID] = previous // its flags
	before := hashed(j.t, j.DataDir(n.ID))
	code, _, errs := runs(j.ctx, j.t, previous.program, j.ServeArgs(n)...)
	assert.Equal(j.t, 1, code)
	assert.Contains(j.t, errs, "was written by a later release")
	assert.Contains(j.t, errs, "start the newer release; nothing was changed on the disk")
	assert.Equal(j.t, before, hashed(j.t, j.DataDir(n.ID)))
	j.running[n.ID] = here
}

// hashed returns the hash of every file below the directory.
func hashed(t *testing.T, dir string) map[string][sha256.Size]byte {
	t.Helper()
	all := map[string][sha256.Size]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all[path] = sha256.Sum256(content)
		return err
	}))
	require.NotEmpty(t, all)
	return all
}
