package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/examples/internal/processes"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "put the part of this example into the README (make fix)")

const (
	readme     = "../../README.md"
	blockBegin = "```go\n"
	blockEnd   = "```\n"
	partBegin  = "// counter is "
	partEnd    = "\n// handler answers "
)

// between splits the file at two marks. The middle part begins with the first mark, and the last part begins with the second
// mark.
func between(t *testing.T, file, begin, end string) (before, middle, after string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	at := strings.Index(string(text), begin)
	require.GreaterOrEqual(t, at, 0, "no %q in %s", begin, file)
	length := strings.Index(string(text[at+len(begin):]), end)
	require.GreaterOrEqual(t, length, 0, "no %q in %s", end, file)
	length += len(begin)
	return string(text[:at]), string(text[at : at+length]), string(text[at+length:])
}

// The Go code in the README is the important part of this program, byte for byte: from the state machine to its
// use.
func TestREADME_ShowsAPartOfThisProgram(t *testing.T) {
	_, part, _ := between(t, "main.go", partBegin, partEnd)
	before, shown, after := between(t, readme, blockBegin, blockEnd)
	if *update {
		require.NoError(t, os.WriteFile(readme, []byte(before+blockBegin+part+after), 0o644))
		return
	}
	assert.Equal(t, blockBegin+part, shown, "README and example differ; make fix copies the example into the README")
}

func TestCounter_IsAStateMachine(t *testing.T) {
	rafttest.CheckFSM(t, func() raft.FSM { return &counter{} }, [][]byte{[]byte("+"), []byte("++"), []byte("+++")})
}

// clients count until they are stopped, and note what was acknowledged.
type clients struct {
	t       *testing.T
	members *processes.Cluster
	http    *http.Client
	stop    context.CancelFunc
	done    sync.WaitGroup
	asked   atomic.Uint64 // requests

	mu           sync.Mutex
	acknowledged map[uint64]bool // the counter after each of them
	refused      []error         // what members answered instead
}

// refusedError is a member's answer that it did not count, or does not know.
type refusedError string

func (e refusedError) Error() string { return string(e) }

func load(t *testing.T, members *processes.Cluster, writers int) *clients {
	ctx, stop := context.WithCancel(t.Context())
	c := &clients{t: t, members: members, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}}, stop: stop, acknowledged: map[uint64]bool{}}
	t.Cleanup(c.http.CloseIdleConnections)
	for range writers {
		c.done.Go(func() {
			for ctx.Err() == nil {
				c.count(ctx, members.Members[rand.N(len(members.Members))])
			}
		})
	}
	return c
}

// count counts through a member. It does not try again, because another attempt would count twice if the outcome is unknown.
func (c *clients) count(ctx context.Context, through raft.Member) {
	c.asked.Add(1)
	total, err := c.ask(ctx, http.MethodPost, through)
	c.mu.Lock()
	defer c.mu.Unlock()
	var refused refusedError
	if errors.As(err, &refused) {
		c.refused = append(c.refused, err)
	}
	if err != nil {
		return // this member does not run
	}
	assert.False(c.t, c.acknowledged[total], "%d was acknowledged twice", total)
	c.acknowledged[total] = true
}

// ask sends a request to a member.
func (c *clients) ask(ctx context.Context, method string, of raft.Member) (total uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, of.Meta, nil)
	if err != nil {
		return 0, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = refusedError(text)
	}
	if err == nil {
		_, err = fmt.Sscan(string(text), &total)
	}
	return total, err
}

func (c *clients) noted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.acknowledged)
}

// more waits until 100 more requests were acknowledged.
func (c *clients) more() {
	c.t.Helper()
	until := c.noted() + 100
	require.Eventually(c.t, func() bool { return c.noted() >= until }, time.Minute, 10*time.Millisecond)
}

// serves waits until a member answers that has been started again.
func (c *clients) serves(m raft.Member) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		_, err := c.ask(c.t.Context(), http.MethodGet, m)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}

// Clients count through all members. Meanwhile each member is restarted: no request is refused. Then each is killed. Nothing that was acknowledged is
// lost, and nothing was counted that nobody asked for.
func TestExample_CountsThroughRestartsAndKills(t *testing.T) {
	p := processes.StartAll(t, "example")
	c := load(t, p, 64)
	c.more()
	for _, m := range p.Members {
		p.Stop(m.ID)
		c.more()
		p.Start(m.ID)
		c.serves(m) // the next one needs it for its majority
		c.more()
	}
	c.mu.Lock()
	if p.WokeLate() {
		t.Logf("the machine was too busy: %d of %d requests were refused during the restarts", len(c.refused), c.asked.Load())
	} else {
		assert.Empty(t, c.refused, "no member refuses a request while the members are restarted one after another")
	}
	c.mu.Unlock()
	for _, m := range p.Members {
		p.Kill(m.ID)
		c.more()
		p.Start(m.ID)
		c.more()
	}
	c.stop()
	c.done.Wait()
	highest := slices.Max(slices.Collect(maps.Keys(c.acknowledged)))
	for _, m := range p.Members {
		require.Eventually(t, func() bool {
			total, err := c.ask(t.Context(), http.MethodGet, m)
			if err != nil {
				return false // it has just been started
			}
			return assert.GreaterOrEqual(t, total, highest) && assert.LessOrEqual(t, total, c.asked.Load())
		}, time.Minute, 10*time.Millisecond)
	}
}

// Three members count under faults: some crash, restart, and are restored from snapshots.
func TestCounter_CountsUnderFaults(t *testing.T) {
	rafttest.Simulate(t, 50, func() raft.FSM { return &counter{} }, func(r *rand.Rand) []byte {
		return bytes.Repeat([]byte("+"), 1+r.IntN(3))
	})
}
