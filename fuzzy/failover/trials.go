package failover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/testnet"
)

const (
	tick      = time.Millisecond // a client begins a write this often, whatever happened to its earlier ones
	askedMax  = 1024             // the most of its writes without an answer
	writers   = 64
	failPause = 5 * time.Millisecond // of a writer after a failure
	stopMax   = 10 * time.Second     // of a member that is asked to stop
	// Writers run for this time before a planned transfer, and for this time after it.
	writersLead = 100 * time.Millisecond
)

// kill kills the leader. The next trial starts it again.
func (c *cluster) kill(ctx context.Context) (time.Duration, error) {
	process, err := os.FindProcess(c.Process(c.leader.ID).PID())
	if err != nil {
		return 0, err
	}
	took, err := c.disturb(ctx, process.Kill)
	c.Kill(c.leader.ID) // waits for its end
	return took, err
}

func (c *cluster) freeze(ctx context.Context) (time.Duration, error) {
	p := c.Process(c.leader.ID)
	took, err := c.disturb(ctx, p.Freeze)
	return took, errors.Join(err, p.Resume())
}

func (c *cluster) silence(ctx context.Context) (time.Duration, error) {
	return c.disturb(ctx, func() error {
		c.cut(func(from, to int) (int, int) { return from, to })
		c.cut(func(from, to int) (int, int) { return to, from })
		return nil
	})
}

func (c *cluster) oneWay(ctx context.Context) (time.Duration, error) {
	return c.disturb(ctx, func() error {
		c.cut(func(from, to int) (int, int) { return from, to })
		return nil
	})
}

// cut drops all packets between the leader and each other member, in the direction that way returns.
func (c *cluster) cut(way func(leader, other int) (from, to int)) {
	for to := range c.Nodes {
		from, to := way(c.place(c.leader), to)
		c.links.Treat(from, to, testnet.Link{Loss: 100})
	}
}

// disturb disturbs the leader, and returns the time until a write through another member is acknowledged.
func (c *cluster) disturb(ctx context.Context, how func() error) (time.Duration, error) {
	began := time.Now()
	if err := how(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, settleMax)
	acked := make(chan time.Duration, 1)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	slots := make(chan struct{}, askedMax)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case slots <- struct{}{}:
			asking.Go(func() {
				defer func() { <-slots }()
				if c.put(ctx, c.other) == nil {
					select {
					case acked <- time.Since(began):
					default: // an earlier one was acknowledged
					}
				}
			})
		default:
		}
		select {
		case took := <-acked:
			return took, nil
		case <-ctx.Done():
			return 0, fmt.Errorf("no write was acknowledged within %v after the disturbance: %w", settleMax, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// transfer transfers the leadership while clients write, and returns the longest time without an acknowledged write.
func (c *cluster) transfer(ctx context.Context) (time.Duration, error) {
	return c.underWriters(ctx, func() error {
		_, err := c.leader.Client(c.http).Transfer(ctx, "")
		c.fails.count("transfer from "+c.leader.ID, err)
		wait(ctx, writersLead)
		return ctx.Err()
	})
}

// roll stops and starts one member after another, and returns the longest time without an acknowledged write.
func (c *cluster) roll(ctx context.Context) (time.Duration, error) {
	return c.underWriters(ctx, func() error {
		for _, n := range c.Nodes {
			c.Process(n.ID).Stop(stopMax)
			if err := c.Start(n.ID); err != nil {
				return err
			}
			if err := c.awaitCaughtUp(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// awaitCaughtUp waits until all members are connected and follow one leader, while clients write.
func (c *cluster) awaitCaughtUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleMax)
	defer cancel()
	for {
		all := c.Statuses(ctx)
		for i := range all {
			all[i].Applied, all[i].Last = 0, 0 // they change all the time
		}
		if steadyLeader(all) >= 0 && lagMax(all) < writers*4 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the members do not catch up within %v: %w\n%s", settleMax, context.Cause(ctx), describe(all))
		}
		wait(ctx, settlePoll)
	}
}

// lagMax returns how many entries a member lacks at most, as the leader sees it.
func lagMax(all []api.Status) (lag uint64) {
	for _, s := range all {
		for _, m := range s.Members {
			if s.Role == "leader" && m.ID != s.ID {
				lag = max(lag, m.Lag)
			}
		}
	}
	return lag
}

// underWriters runs do while clients write through random members. It returns the longest time without an acknowledgement.
func (c *cluster) underWriters(ctx context.Context, do func() error) (time.Duration, error) {
	writing, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	gap := longestGap{}
	for range writers {
		all.Go(func() {
			for writing.Err() == nil {
				c.writeOnce(writing, &gap)
			}
		})
	}
	wait(ctx, writersLead)
	gap.begin()
	err := do()
	longest := gap.end()
	stop()
	all.Wait()
	return longest, err
}

// writeOnce writes through a random member. A member that is down is no failure: the client asks another one.
func (c *cluster) writeOnce(ctx context.Context, gap *longestGap) {
	var n local.Node
	err := error(nil)
	for range 2 * len(c.Nodes) {
		n = c.Nodes[rand.IntN(len(c.Nodes))]
		if err = c.put(ctx, n); api.CodeOf(err) != api.Unreachable {
			break
		}
	}
	if ctx.Err() != nil {
		return
	}
	c.fails.count(n.ID, err)
	if err != nil {
		wait(ctx, failPause)
		return
	}
	gap.acked()
}

// longestGap finds the longest time between two acknowledgements.
type longestGap struct {
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

func (g *longestGap) acked() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.longest, g.last = max(g.longest, now.Sub(g.last)), now
}

func (g *longestGap) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.longest, g.last = 0, time.Now()
}

// end counts the running gap, too.
func (g *longestGap) end() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(g.longest, time.Since(g.last))
}

// failures counts the requests of the writers.
type failures struct {
	mu            sync.Mutex
	asked, failed int
	first         string
}

func (f *failures) count(id string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if err == nil {
		return
	}
	if f.failed++; f.first == "" {
		f.first = id + ": " + err.Error()
	}
}
