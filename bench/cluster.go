package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startupMax  = 30 * time.Second // from the start of a cluster to its first acknowledged write
	firstSlice  = 500 * time.Millisecond
	loadOverrun = 60 * time.Second // from the end of a load's measured time to the end of the load
)

// process is a child that serves a Host.
type process struct {
	cmd     *exec.Cmd
	client  *rpc.Client
	talk    pipes
	errors  *bytes.Buffer // of cmd: read it after the process has ended
	members []Member
	frozen  bool // stopped: it does not answer
}

// spawn starts a process for some members of one contestant's cluster. It has no replicas yet.
func spawn(contestant string, members []Member) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(program, "host", contestant), errors: &bytes.Buffer{}, members: members}
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.talk = pipes{ourIn, ourOut}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirIn, theirOut, p.errors
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.client = rpc.NewClient(p.talk)
	return p, errors.Join(theirIn.Close(), theirOut.Close())
}

// call calls a method of the host. If the context ends first, the reply must not be read.
func (p *process) call(ctx context.Context, method string, args, reply any) error {
	call := p.client.Go("Host."+method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		if call.Error != nil {
			return fmt.Errorf("%s: %w", method, call.Error)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
}

// signalKill ends the process at once, without a wait.
func (p *process) signalKill() { _ = p.cmd.Process.Kill() } // it may have ended

// kill ends the process at once, and waits until it has ended.
func (p *process) kill() {
	p.signalKill()
	_ = p.cmd.Wait()
	_ = p.client.Close()
}

// lastWords returns the end of what a process printed.
func lastWords(text string) string { return strings.TrimSpace(text[max(0, len(text)-1000):]) }

// cluster is all processes of one cluster.
type cluster struct {
	contestant string
	processes  []*process // nil: not running
}

// newCluster prepares a cluster in the directory, without starting a process. Either one process has all replicas, or each
// replica has its own process.
func newCluster(contestant string, c cell, dir string) (*cluster, error) {
	addresses, err := freeAddresses(c.Replicas)
	if err != nil {
		return nil, err
	}
	var members []Member
	for i := range c.Replicas {
		members = append(members, Member{
			ID: i + 1, Addresses: addresses, Dir: filepath.Join(dir, fmt.Sprint(i+1)), Tuned: c.Tuned, Keeps: c.keeps(),
			Leases: c.Read == byLease, Sessions: c.Sessions,
		})
	}
	cl := &cluster{contestant: contestant}
	if !c.Apart {
		cl.processes = []*process{{members: members}}
		return cl, nil
	}
	for _, m := range members {
		cl.processes = append(cl.processes, &process{members: []Member{m}})
	}
	return cl, nil
}

// freeAddresses returns addresses on which nobody listens.
func freeAddresses(count int) (addresses []string, err error) {
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // all are closed at the end, so that the addresses differ
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

// start starts the given processes, or all processes if none is given. They start at the same time.
func (c *cluster) start(ctx context.Context, which ...int) error {
	if len(which) == 0 {
		for i := range c.processes {
			which = append(which, i)
		}
	}
	return c.each(which, func(i int) error {
		p, err := spawn(c.contestant, c.processes[i].members)
		if err != nil {
			return err
		}
		c.processes[i] = p
		return p.call(ctx, "Start", p.members, new(None))
	})
}

// each calls do for some processes concurrently.
func (c *cluster) each(which []int, do func(i int) error) error {
	errs := make([]error, len(which))
	var all sync.WaitGroup
	for k, i := range which {
		all.Go(func() { errs[k] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// tune sets whether members that start from now on have the tuned election timeouts.
func (c *cluster) tune(tuned bool) {
	for _, p := range c.processes {
		for i := range p.members {
			p.members[i].Tuned = tuned
		}
	}
}

func (c *cluster) kill(i int) {
	if p := c.processes[i]; p.cmd != nil {
		p.kill()
		c.processes[i] = &process{members: p.members, errors: p.errors}
	}
}

// running returns the indexes of the running processes.
func (c *cluster) running() (which []int) {
	for i, p := range c.processes {
		if p.cmd != nil {
			which = append(which, i)
		}
	}
	return which
}

// end kills all processes. If err is not nil, end adds the output of the processes to the error.
func (c *cluster) end(err error) error {
	_ = c.each(c.running(), func(i int) error {
		c.kill(i)
		return nil
	})
	if err == nil {
		return nil
	}
	for i, p := range c.processes {
		if p.errors != nil && p.errors.Len() > 0 {
			err = fmt.Errorf("%w\nprocess %d: %s", err, i+1, lastWords(p.errors.String()))
		}
	}
	return err
}

// firstWrite waits until a write is acknowledged in some process, and returns that process.
func (c *cluster) firstWrite(ctx context.Context) (leader int, err error) {
	ctx, cancel := context.WithTimeout(ctx, startupMax)
	defer cancel()
	found := make(chan int, len(c.processes))
	var all sync.WaitGroup
	for _, i := range c.running() {
		all.Go(func() {
			for ctx.Err() == nil {
				var acknowledged bool
				err := c.processes[i].call(ctx, "FirstWrite", firstSlice, &acknowledged)
				if err != nil {
					return
				}
				if acknowledged {
					found <- i
					cancel()
				}
			}
		})
	}
	all.Wait()
	select {
	case leader = <-found:
		return leader, nil
	default:
		return 0, fmt.Errorf("no write was acknowledged within %v", startupMax)
	}
}

// freeze suspends a process. Its connections stay open, but it does not answer.
func (c *cluster) freeze(i int) error {
	c.processes[i].frozen = true
	return c.processes[i].cmd.Process.Signal(syscall.SIGSTOP)
}

// usage returns the sum of the resources that all processes use, without the frozen ones.
func (c *cluster) usage(ctx context.Context) (sum Usage, err error) {
	var mu sync.Mutex
	awake := slices.DeleteFunc(c.running(), func(i int) bool { return c.processes[i].frozen })
	err = c.each(awake, func(i int) error {
		var u Usage
		if err := c.processes[i].call(ctx, "Usage", None(false), &u); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		sum.CPU += u.CPU
		sum.Allocations += u.Allocations
		sum.Switches += u.Switches
		sum.Resident += u.Resident
		sum.Anonymous += u.Anonymous
		return nil
	})
	return sum, err
}

// awaitApplied waits until every replica of a process has applied that many commands.
func (c *cluster) awaitApplied(ctx context.Context, i int, commands uint64) error {
	for {
		var applied []uint64
		if err := c.processes[i].call(ctx, "Applied", None(false), &applied); err != nil {
			return err
		}
		least := applied[0]
		for _, a := range applied {
			least = min(least, a)
		}
		if least >= commands {
			return nil
		}
		time.Sleep(leaderPoll)
	}
}
