package main_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coxswain/raft/internal/demo/local"
	"github.com/stretchr/testify/require"
)

// heartbeatRole is an environment variable that makes this test binary act as one of three processes. The test compares an
// idle cluster with these processes. The value is the address to listen on, or the two addresses to send to.
const heartbeatRole = "RAFTKV_HEARTBEAT"

const heartbeatInterval = 50 * time.Millisecond

// heartbeat does the minimum work of a leader and its followers. One process sends a few bytes to each of the two others
// every 50 ms, and the others answer. heartbeat runs until the process is killed.
func heartbeat(addresses string) {
	if all := strings.Split(addresses, ","); len(all) > 1 {
		lead(all)
	}
	listener, err := net.Listen("tcp", addresses)
	if err != nil {
		panic(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		panic(err)
	}
	var message [64]byte
	for {
		n, err := conn.Read(message[:])
		if err != nil {
			return
		}
		_, _ = conn.Write(message[:n]) // fails only when the test ends
	}
}

func lead(followers []string) {
	var message [64]byte
	var conns []net.Conn
	for _, address := range followers {
		conn, err := net.Dial("tcp", address)
		for ; err != nil; conn, err = net.Dial("tcp", address) {
			<-time.After(heartbeatInterval) // the follower does not listen yet
		}
		conns = append(conns, conn)
	}
	for range time.Tick(heartbeatInterval) {
		for _, conn := range conns {
			_, _ = conn.Write(message[:]) // fails only when the test ends
			_, _ = conn.Read(message[:])
		}
	}
}

// cpu returns the CPU time of the process.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	tasks, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task/*/schedstat"))
	require.NoError(t, err)
	var sum time.Duration
	for _, task := range tasks {
		data, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		var nanoseconds int64
		_, err = fmt.Sscan(string(data), &nanoseconds)
		require.NoError(t, err)
		sum += time.Duration(nanoseconds)
	}
	return sum
}

func TestEndToEnd_AnIdleClusterIsComparedWithBareHeartbeats(t *testing.T) {
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("the processor time of threads is read from /proc")
	}
	c, _ := startCluster(t)
	c.caughtUp()
	var idle []int
	for _, n := range c.Nodes {
		idle = append(idle, c.Process(n.ID).PID())
	}
	bare := startHeartbeats(t)
	sum := func(pids []int) (total time.Duration) {
		for _, pid := range pids {
			total += cpu(t, pid)
		}
		return total
	}
	settle, measure := time.Duration(inFull(10, 1000))*time.Millisecond, time.Duration(inFull(100, 4000))*time.Millisecond
	<-time.After(settle)
	idleBefore, bareBefore := sum(idle), sum(bare)
	<-time.After(measure)
	idleUsed, bareUsed := sum(idle)-idleBefore, sum(bare)-bareBefore
	t.Logf("in %v an idle cluster of three used %v of processor time, and bare heartbeats %v: a ratio of %.2f",
		measure, idleUsed.Round(time.Millisecond/10), bareUsed.Round(time.Millisecond/10), float64(idleUsed)/float64(bareUsed))
}

// startHeartbeats starts the three processes and returns their ids.
func startHeartbeats(t *testing.T) (pids []int) {
	t.Helper()
	layout, err := local.OpenLayout(t.TempDir(), 2, nil)
	require.NoError(t, err)
	defer layout.Close()
	a, b := layout.Nodes[0].RaftAddr, layout.Nodes[1].RaftAddr
	for _, addresses := range []string{a, b, a + "," + b} {
		t.Setenv(heartbeatRole, addresses)
		p, err := local.StartProcess(os.Args[0], nil, filepath.Join(t.TempDir(), "log"))
		require.NoError(t, err)
		t.Cleanup(p.Kill)
		pids = append(pids, p.PID())
	}
	return pids
}
