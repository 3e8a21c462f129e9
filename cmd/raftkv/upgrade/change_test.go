package upgrade_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
)

// joiner is a process that is to become a member of the cluster.
type joiner struct {
	*rolling
	node    local.Node
	process *local.Process // the latest process
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

// start starts the joiner as this release on an empty directory.
func (j *joiner) start(as release) {
	j.t.Helper()
	if j.process != nil {
		j.process.Stop(stopMax)
	}
	require.NoError(j.t, os.RemoveAll(j.DataDir(j.node.ID)))
	j.run(as)
}

// run starts the joiner as this release on its present directory.
func (j *joiner) run(as release) {
	j.t.Helper()
	j.running[j.node.ID] = as
	p, err := local.StartProcess(as.program, j.ServeArgs(j.node), j.log())
	require.NoError(j.t, err)
	j.process = p
}

func (j *joiner) log() string { return j.DataDir(j.node.ID) + ".log" }

// add runs the command that adds the joiner to the cluster. The command is a program of the tested release.
func (j *joiner) add() (code int, out, errs string) {
	j.t.Helper()
	args := append([]string{"members", "add", j.node.ID, j.node.RaftAddr, j.node.URL()}, j.servers...)
	return runs(j.ctx, j.t, j.newest().program, args...)
}

// newest returns the release whose commands are tested.
func (j *joiner) newest() release {
	for _, n := range j.Nodes {
		if as := j.running[n.ID]; as.name == thisRelease {
			return as
		}
	}
	require.Fail(j.t, "no member is of this release")
	return release{}
}

// runs runs a program until it ends. Its standard input stays open, because some programs end when it is closed.
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

// otherThan returns an initial member other than this one.
func (j *joiner) otherThan(n local.Node) local.Node {
	if j.Nodes[0].ID == n.ID {
		return j.Nodes[1]
	}
	return j.Nodes[0]
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
		_, err := j.leader().Client(shared).Transfer(j.ctx, to.ID) // a transfer may fail; the next one may succeed
		require.NoError(j.t, context.Cause(j.ctx), "%s does not become the leader: %v", to.ID, err)
	}
}

// members returns the members as the best informed server reports them. Only servers of the tested release are asked.
func (j *joiner) members() admin.Members {
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

// joinsUnder adds the joiner under a given leader.
func (j *joiner) joinsUnder(leads local.Node) {
	j.t.Helper()
	j.transfer(leads)
	code, out, errs := j.add()
	require.Zero(j.t, code, errs)
	assert.Contains(j.t, out, "done: configuration ")
	assert.Equal(j.t, []string{"n1", "n2", "n3", j.node.ID}, j.members().Voters())
}

// leaves removes the joiner. Its process learns of the removal, and ends.
func (j *joiner) leaves() {
	j.t.Helper()
	args := append([]string{"members", "remove", j.node.ID}, j.servers...)
	code, _, errs := runs(j.ctx, j.t, j.newest().program, args...)
	require.Zero(j.t, code, errs)
	assert.Equal(j.t, []string{"n1", "n2", "n3"}, j.members().Voters())
	select {
	case <-j.process.Done():
	case <-j.ctx.Done():
		require.Fail(j.t, "it does not learn that it was removed")
	}
}

// goesTo starts the joiner as this release on its existing store.
func (j *joiner) goesTo(to release) {
	j.t.Helper()
	j.process.Stop(stopMax)
	j.Nodes = append(j.Nodes, j.node)
	j.running[j.node.ID] = to
	require.NoError(j.t, j.Start(j.node.ID))
	j.settle("n4 continues as this release")
}

// movesItsLog moves the joiner's log to bbolt and back to segments. After each move, both releases run on it.
func (j *joiner) movesItsLog(previous, here release) {
	j.t.Helper()
	for _, to := range []string{"bbolt", "segments"} {
		j.Process(j.node.ID).Stop(stopMax)
		j.migrate(here, to)
		for _, as := range []release{previous, here} {
			j.running[j.node.ID] = as
			require.NoError(j.t, j.Start(j.node.ID))
			j.settle("n4 continues as " + as.name + " with its log moved to " + to)
			if as.name == previous.name {
				j.Process(j.node.ID).Stop(stopMax)
			}
		}
	}
}

func (j *joiner) migrate(here release, to string) {
	j.t.Helper()
	code, out, errs := runs(j.ctx, j.t, here.program, "migrate", "--data", j.DataDir(j.node.ID), "--to", to)
	require.Zero(j.t, code, errs)
	require.Contains(j.t, out, "moved the log from ")
}
