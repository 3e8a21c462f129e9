package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coxswain/raft/internal/demo/workload"
)

// step is something that happens to pods. Those that run end, and all start at addresses that no pod had before.
type step struct {
	what  string
	pods  []int
	crash bool // they end without a word to others
	lose  bool // their disks are lost
}

var steps = []step{
	{"the StatefulSet is created: three pods with empty disks start at once", []int{0, 1, 2}, false, false},
	{"it is scaled to five: two more pods start", []int{3, 4}, false, false},
	{"a node is lost: its pod comes back elsewhere, with an empty disk", []int{1}, true, true},
	{"a pod is deleted, and comes back elsewhere with its disk", []int{2}, false, false},
	{"all nodes are lost at once: all pods come back elsewhere, with their disks", []int{0, 1, 2, 3, 4}, true, false},
}

// run takes all steps while clients write, and checks that nothing was lost.
func run(ctx context.Context, c *cluster) error {
	var servers []string
	for i := range 5 {
		servers = append(servers, fmt.Sprintf("http://%s.%s:4000", pod(i), service))
	}
	w := workload.New(workload.Config{Servers: servers, Clients: 4, Pause: 5 * time.Millisecond, Prefix: "load/", Keep: true})
	working, stop := context.WithCancel(ctx)
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		w.Run(working)
	}()
	var err error
	for i := range steps {
		if err == nil {
			err = take(ctx, c, w, steps[i])
		}
	}
	stop()
	<-worked
	if err != nil {
		return err
	}
	verdict, err := w.Verify(ctx)
	if err = errors.Join(err, verdict.Err()); err != nil {
		return err
	}
	c.say("every acknowledged write is there: %v", verdict)
	return nil
}

// take takes a step, and waits until all its pods are voters that serve.
func take(ctx context.Context, c *cluster, w *workload.Workload, s step) error {
	c.say("%s", s.what)
	before, err := c.members(ctx)
	if err != nil && len(c.pods) > 0 {
		return err
	}
	if err := c.restart(s); err != nil {
		return err
	}
	began := time.Now()
	at, err := w.NextAcknowledged(ctx, began)
	if err != nil {
		return fmt.Errorf("%s: no write is acknowledged: %w", s.what, err)
	}
	c.say("   %5.2f s after the last start: the first write is acknowledged", at.Sub(began).Seconds())
	if err := c.await(ctx, func() error { return c.count(ctx, before, s) }); err != nil {
		return fmt.Errorf("%s: %w", s.what, err)
	}
	c.say("   %5.2f s after the last start: all these pods are voters, and serve", time.Since(began).Seconds())
	return nil
}
