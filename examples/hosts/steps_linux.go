package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coxswain/raft/examples/internal/apart"
	"github.com/coxswain/raft/internal/built"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/workload"
	"github.com/coxswain/raft/internal/testnet"
)

const (
	patience = 3 * time.Minute // bounds a whole run
	lasting  = time.Second     // how long a fault of the network lasts
)

// step is something that happens while clients write. After it, all members serve again.
type step struct {
	what string
	do   func(context.Context, *cluster) error
}

var steps = []step{
	{"three hosts start their members, with empty disks", func(_ context.Context, c *cluster) error {
		for place := range c.hosts {
			if err := c.connect(place); err != nil {
				return &apart.ImpossibleError{Why: err.Error()}
			}
		}
		for place := range c.hosts {
			if err := c.start(place); err != nil {
				return err
			}
		}
		return nil
	}},
	{"packets between hosts take 20 ms, and 2 % of them are lost", func(ctx context.Context, c *cluster) error {
		c.treatAll(testnet.Link{Delay: 20 * time.Millisecond, Loss: 2})
		defer c.treatAll(testnet.Link{})
		return pause(ctx)
	}},
	{"the host of the leader is cut off from the other hosts, not from clients", func(ctx context.Context, c *cluster) error {
		leader, _, err := c.leader(ctx)
		if err != nil {
			return err
		}
		c.treat(leader, testnet.Link{Loss: 100})
		defer c.treat(leader, testnet.Link{})
		return pause(ctx)
	}},
	{"the members are restarted, one after the other", func(ctx context.Context, c *cluster) error {
		return c.inTurn(ctx, func(h *host) { h.member.Stop(stopMax) })
	}},
	{"the members are killed, one after the other", func(ctx context.Context, c *cluster) error {
		return c.inTurn(ctx, func(h *host) { h.member.Kill() })
	}},
	{"the disk of a member moves to another host, with another address", func(_ context.Context, c *cluster) error {
		former := c.hosts[1]
		former.member.Stop(stopMax)
		former.keeper.Kill()
		return errors.Join(c.connect(1), c.start(1))
	}},
	{"all hosts lose power at once", func(_ context.Context, c *cluster) error {
		c.treatAll(testnet.Link{Loss: 100}) // nobody learns that connections have ended
		for _, h := range c.hosts {
			h.member.Kill()
		}
		c.treatAll(testnet.Link{})
		var err error
		for place := range c.hosts {
			err = errors.Join(err, c.start(place))
		}
		return err
	}},
}

// pause lets a fault last.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lasting):
		return nil
	}
}

// inTurn ends the members and starts them again, each when all members serve.
func (c *cluster) inTurn(ctx context.Context, end func(*host)) error {
	for place, h := range c.hosts {
		end(h)
		if err := c.start(place); err != nil {
			return err
		}
		if err := c.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// inside runs the hosts, in the namespaces of this process.
func inside(dir string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	wires, err := testnet.OpenSwitch()
	if err != nil {
		return &apart.ImpossibleError{Why: err.Error()}
	}
	defer wires.Close() // its packets do not matter any more
	c := &cluster{dir: dir, wires: wires, http: client.NewHTTP(1, time.Second), began: time.Now()}
	defer func() { c.close(err != nil) }()
	if c.program, err = built.Raftkv(); err != nil {
		return err
	}
	if err := c.certify(); err != nil {
		return err
	}
	return c.run(ctx)
}

// run takes all steps while clients write, and checks that nothing was lost.
func (c *cluster) run(ctx context.Context) error {
	var w *workload.Workload
	working, stop := context.WithCancel(ctx)
	worked := make(chan struct{})
	defer stop()
	for i, s := range steps {
		c.say("%s", s.what)
		began := time.Now()
		if err := s.do(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		if i == 0 { // now there are addresses
			w = c.load()
			go func() {
				defer close(worked)
				w.Run(working)
			}()
		}
		if err := c.await(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		if _, err := w.NextAcknowledged(ctx, time.Now()); err != nil {
			return fmt.Errorf("%s: no write is acknowledged: %w", s.what, err)
		}
		c.say("   %5.2f s later all members serve; %d writes acknowledged so far", time.Since(began).Seconds(), w.Verdict().Acknowledged)
	}
	stop()
	<-worked
	verdict, err := w.Verify(ctx)
	if err = errors.Join(err, verdict.Err()); err != nil {
		return err
	}
	c.say("every acknowledged write is there: %v", verdict)
	return nil
}

// load returns clients that know the addresses that any host has or will have.
func (c *cluster) load() *workload.Workload {
	var servers []string
	for number := 1; number <= members+1; number++ {
		servers = append(servers, (&host{number: number}).url())
	}
	return workload.New(workload.Config{Servers: servers, Clients: 4, Pause: 5 * time.Millisecond, Prefix: "load/", Keep: true})
}
