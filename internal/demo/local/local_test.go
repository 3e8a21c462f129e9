package local_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// helperRole is an environment variable that makes this test binary act as a child process.
const helperRole = "RAFTKV_LOCAL_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(helperRole) {
	case "":
		os.Exit(leaks.Main(m.Run))
	case "obedient": // ends when its input ends
		fmt.Println("began")
		<-local.UntilInputEnds(context.Background(), os.Stdin, nil).Done()
		fmt.Println("ended")
	case "stubborn":
		fmt.Println("began")
		select {}
	case "parent": // starts a stubborn child, and dies
		os.Setenv(helperRole, "stubborn")
		p, err := local.StartProcess(os.Args[0], nil, os.Args[1])
		if err != nil {
			panic(err)
		}
		fmt.Println(p.PID())
		_ = p.Freeze()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

func startHelper(t *testing.T, role string, args ...string) (p *local.Process, log string) {
	t.Helper()
	t.Setenv(helperRole, role)
	log = filepath.Join(t.TempDir(), "log")
	p, err := local.StartProcess(os.Args[0], args, log)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	require.Eventually(t, func() bool { return strings.Contains(read(t, log), "\n") }, time.Minute, time.Millisecond)
	return p, log
}

func read(t *testing.T, file string) string {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}

func TestProcess_IsAskedToEndAndThenKilled(t *testing.T) {
	p, log := startHelper(t, "obedient")
	assert.True(t, p.Running())
	p.Stop(time.Minute)
	assert.False(t, p.Running())
	assert.NoError(t, p.Err())
	assert.Equal(t, "began\nended\n", read(t, log))

	p, _ = startHelper(t, "stubborn")
	p.Stop(time.Millisecond)
	assert.Error(t, p.Err())
	p.Kill() // a second call does no harm
}

func TestProcess_IsFrozenAndResumed(t *testing.T) {
	p, _ := startHelper(t, "obedient")
	if err := p.Freeze(); err != nil {
		require.ErrorIs(t, err, local.ErrNoFreeze)
		return
	}
	assert.True(t, p.Frozen())
	require.NoError(t, p.Resume())
	assert.False(t, p.Frozen())
	require.NoError(t, p.Freeze())
	p.Stop(time.Minute)
	assert.NoError(t, p.Err(), "Stop resumes a frozen process, so that it can end")
}

func TestProcess_DiesWithItsParentEvenIfFrozen(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("the kernel kills children of a killed parent on Linux only; elsewhere a frozen one stays")
	}
	parent, log := startHelper(t, "parent", filepath.Join(t.TempDir(), "child"))
	child := strings.TrimSpace(read(t, log))
	stat := filepath.Join("/proc", child, "stat")
	require.FileExists(t, stat)
	parent.Kill()
	require.Eventually(t, func() bool { return gone(stat) }, time.Minute, time.Millisecond)
}

// gone reports whether a process has ended. A zombie counts as ended.
func gone(stat string) bool {
	data, err := os.ReadFile(stat)
	return err != nil || strings.Contains(string(data), ") Z ")
}

func TestStartProcess_SaysWhatIsWrong(t *testing.T) {
	_, err := local.StartProcess("/no/such/program", nil, filepath.Join(t.TempDir(), "log"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = local.StartProcess(os.Args[0], nil, "/no/such/directory/log")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestLayout_IsKeptByItsDirectory(t *testing.T) {
	dir := t.TempDir()
	layout, err := local.OpenLayout(dir, 0, nil)
	require.NoError(t, err)
	require.Len(t, layout.Nodes, 3)
	_, err = local.OpenLayout(dir, 0, nil)
	assert.ErrorContains(t, err, "n1 is in use", "the port is held, although nobody listens")
	layout.Close()
	again, err := local.OpenLayout(dir, 0, []int{4001})
	require.NoError(t, err)
	assert.Equal(t, layout.Nodes, again.Nodes)
	again.Close()
	_, err = local.OpenLayout(dir, 5, nil)
	assert.ErrorContains(t, err, "3 nodes, not of 5")

	taken, err := net.Listen("tcp", layout.Nodes[1].HTTPAddr)
	require.NoError(t, err)
	defer taken.Close()
	_, err = local.OpenLayout(dir, 0, nil)
	assert.ErrorContains(t, err, "n2 is in use")
}

func TestLayout_TakesPreferredPortsIfTheyAreFree(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, other.Close())
	port := func(a net.Addr) int { return a.(*net.TCPAddr).Port }
	layout, err := local.OpenLayout(t.TempDir(), 2, []int{port(l.Addr()), port(other.Addr())})
	require.NoError(t, err)
	defer layout.Close()
	assert.Equal(t, "http://"+other.Addr().String(), layout.Nodes[0].URL())
	assert.NotEqual(t, layout.Nodes[0].HTTPAddr, layout.Nodes[1].HTTPAddr)
	assert.NotEqual(t, layout.Nodes[0].RaftAddr, layout.Nodes[1].RaftAddr)
}

func TestLayout_RefusesABadFile(t *testing.T) {
	for rule, content := range map[string]string{
		"garbage":  "{",
		"nobody":   `{"nodes":[]}`,
		"a crowd":  `{"nodes":[` + strings.Repeat(`{"id":"n","raft":"h:1","http":"h:2"},`, 10) + `{}]}`,
		"no ports": `{"nodes":[{"id":"n1","raft":"h","http":"h"}]}`,
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "nodes.json"), []byte(content), 0o600))
		_, err := local.OpenLayout(dir, 0, nil)
		assert.ErrorContains(t, err, "use another directory", rule)
	}
	for _, count := range []int{-1, local.NodesMax + 1} {
		_, err := local.OpenLayout(t.TempDir(), count, nil)
		assert.ErrorContains(t, err, strconv.Itoa(count))
	}
}

func TestUntilInputEnds_GivesTheReason(t *testing.T) {
	in, out := io.Pipe()
	cuts := make(chan bool, 2)
	ctx := local.UntilInputEnds(t.Context(), bufio.NewReader(in), func(cut bool) { cuts <- cut })
	require.NoError(t, ctx.Err())
	_, err := io.WriteString(out, "cut\nanything\nrepair\n")
	require.NoError(t, err)
	assert.True(t, <-cuts)
	assert.False(t, <-cuts)
	require.NoError(t, out.Close())
	<-ctx.Done()
	assert.ErrorContains(t, context.Cause(ctx), "parent")
}
