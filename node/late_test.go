package node

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

func TestLateness_IsWarnedOfWithFiguresButNotTooOften(t *testing.T) {
	const timeout = 200 * time.Millisecond
	var log bytes.Buffer
	n := &Node{
		counters: newCounters(), cfg: Config{ElectionTimeout: timeout},
		logger: &guardedLogger{logger: hclog.New(&hclog.LoggerOptions{Output: &log})},
	}
	at := raft.Time(time.Hour)
	wake := func(late, busy time.Duration) {
		n.due, n.late.idleSince = at, at+raft.Time(busy)
		n.woke(at + raft.Time(late))
	}
	wake(timeout/2, 0)
	require.Empty(t, log.String(), "half a timeout is in time")
	wake(250*time.Millisecond, 30*time.Millisecond)
	require.Contains(t, log.String(), "the node woke late")
	require.Contains(t, log.String(), "late=250ms busy=30ms limit=100ms left_out=0")
	for range 3 {
		wake(time.Second, -time.Second)
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	at += raft.Time(warnEvery + time.Second)
	wake(time.Second, -time.Second)
	require.Contains(t, log.String(), "late=1s busy=0s limit=100ms left_out=3")
	require.EqualValues(t, 5, n.counters.lateWakes.Load())
}
