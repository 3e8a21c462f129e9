package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coxswain/raft/internal/load"
)

// Host is a process with one or more replicas. The driver calls its methods by net/rpc, several at the same time. The callers
// of a load run in the leader's process, like the users of a library.
type Host struct {
	contestant contestant
	replicas   []replica // nil before Start
}

// pipes joins the two files that connect the process with the driver.
type pipes struct{ in, out *os.File }

func (p pipes) Read(b []byte) (int, error)  { return p.in.Read(b) }
func (p pipes) Write(b []byte) (int, error) { return p.out.Write(b) }
func (p pipes) Close() error                { return errors.Join(p.in.Close(), p.out.Close()) }

// serveHost answers the driver until the driver closes the pipe, or dies.
func serveHost(name string) error {
	talk := pipes{os.Stdin, os.Stdout}
	os.Stdout = os.Stderr // for libraries that print
	server := rpc.NewServer()
	c, _ := contestantOf(name) // no contestant: the process measures the machine
	if err := server.Register(&Host{contestant: c}); err != nil {
		return err
	}
	server.ServeConn(talk)
	return nil
}

// None stands for no arguments, or no reply.
type None bool

// Start starts the replicas.
func (h *Host) Start(members []Member, _ *None) error {
	for _, m := range members {
		if err := os.MkdirAll(m.Dir, 0o700); err != nil {
			return err
		}
		r, err := h.contestant.start(m)
		if err != nil {
			return fmt.Errorf("member %d: %w", m.ID, err)
		}
		h.replicas = append(h.replicas, r)
	}
	return nil
}

// leader returns the replica of this process that believes it leads. It returns false if there is none.
func (h *Host) leader() (replica, bool) {
	for _, r := range h.replicas {
		if r.Leads() {
			return r, true
		}
	}
	return nil, false
}

const leaderPoll = time.Millisecond

// FirstWrite tries to write whenever a replica of this process leads, for at most the given time. It replies whether a write
// was acknowledged.
func (h *Host) FirstWrite(within time.Duration, acknowledged *bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for ; ctx.Err() == nil; time.Sleep(leaderPoll) {
		if r, leads := h.leader(); leads && r.Propose(ctx, newCommand(16)) == nil {
			*acknowledged = true
			return nil
		}
	}
	return nil
}

// Drive is a load on the leader, which must be in this process, or on a follower that is read.
type Drive struct {
	Callers, Bytes  int
	Rate            float64
	Warmup, Measure time.Duration
	Operations      int64
	Profiles        string  // a directory, unless ""
	Read            reading // unless "", the load reads
	Sessions        bool    // each caller proposes in a session
}

// Driven holds the figures of a load.
type Driven struct {
	Figures figures
	Failure string // first failure
}

// Drive runs a load.
func (h *Host) Drive(d Drive, result *Driven) error {
	ctx, cancel := context.WithTimeout(context.Background(), d.Warmup+d.Measure+loadOverrun)
	defer cancel()
	do, err := h.operation(ctx, d)
	if err != nil {
		return err
	}
	l := load.Load{Callers: d.Callers, Rate: d.Rate, Warmup: d.Warmup, Measure: d.Measure, Operations: d.Operations, Do: do}
	stop, err := profile(d.Profiles)
	if err != nil {
		return err
	}
	report := l.Run(ctx)
	result.Figures = figuresOf(report)
	if report.Err != nil {
		result.Failure = report.Err.Error()
	}
	err = stop()
	if d.Read == "" {
		err = errors.Join(err, h.check(report))
	}
	return err
}

// operation returns what a caller does.
func (h *Host) operation(ctx context.Context, d Drive) (func(ctx context.Context, caller int) error, error) {
	command := newCommand(d.Bytes)
	switch {
	case d.Read != "":
		return h.reads(ctx, d.Read)
	case d.Sessions:
		leader, leads := h.leader()
		if !leads {
			return nil, errNoLeader
		}
		propose, err := leader.(*coxswain).sessions(ctx, d.Callers)
		return func(ctx context.Context, caller int) error { return propose[caller](ctx, command) }, err
	}
	return h.proposals(command), nil
}

// proposals returns an operation that proposes the command, which nobody changes, to the leader.
func (h *Host) proposals(command []byte) func(context.Context, int) error {
	var at atomic.Pointer[replica] // the latest leader
	return func(ctx context.Context, _ int) error {
		r := at.Load()
		if r == nil {
			leader, leads := h.leader()
			if !leads {
				return errNoLeader
			}
			r = &leader
			at.Store(r)
		}
		err := (*r).Propose(ctx, command)
		if err != nil {
			at.CompareAndSwap(r, nil)
		}
		return err
	}
}

var errNoLeader = errors.New("no replica of this process leads")

// reads returns an operation that reads from the replica that leads now, or from one that follows. If it ceases to, the
// operations that fail are counted.
func (h *Host) reads(ctx context.Context, how reading) (func(context.Context, int) error, error) {
	for _, r := range h.replicas {
		if r.Leads() == (how == fromFollower) {
			continue
		}
		read, err := r.(reader).Reader(ctx, how)
		return func(ctx context.Context, _ int) error { return read(ctx) }, err
	}
	return nil, errNoLeader
}

// check returns an error if no replica here has applied as many commands as were acknowledged. In that case the leader did
// not do the work that was timed.
func (h *Host) check(r load.Report) error {
	for _, replica := range h.replicas {
		if replica.Applied() >= uint64(r.Operations) {
			return nil
		}
	}
	return fmt.Errorf("%d operations were acknowledged, and no replica here has applied as many", r.Operations)
}

// newCommand returns bytes that cannot be compressed.
func newCommand(size int) []byte {
	command := make([]byte, size)
	_, _ = rand.Read(command) // it never fails
	return command
}

func figuresOf(r load.Report) figures {
	f := figures{opsPerSecond: r.PerSecond(), failed: float64(r.Failed), operations: float64(r.Operations)}
	for name, q := range map[string]float64{p50: 50, p99: 99, p999: 99.9, slowest: 100} {
		f[name] = float64(r.Latency.ValueAtQuantile(q)) / 1e6
	}
	return f
}

// profile starts the profiles of this process; stop ends and writes them.
func profile(dir string) (stop func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	runtime.SetBlockProfileRate(int(time.Microsecond))
	file, err := os.Create(filepath.Join(dir, "cpu.pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		errs := []error{file.Close()}
		for _, name := range []string{"allocs", "block"} {
			other, err := os.Create(filepath.Join(dir, name+".pprof"))
			if err == nil {
				err = errors.Join(pprof.Lookup(name).WriteTo(other, 0), other.Close())
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}, nil
}

// Applied replies the number of commands that each replica here has applied.
func (h *Host) Applied(_ None, applied *[]uint64) error {
	for _, r := range h.replicas {
		*applied = append(*applied, r.Applied())
	}
	return nil
}

// Usage holds the resources that a process has used so far, and its resident memory now in bytes. The anonymous part of that
// memory is heap and stacks.
type Usage struct {
	CPU                 time.Duration
	Allocations         uint64
	Switches            int64
	Resident, Anonymous int64
}

// Usage replies the resources that this process uses.
func (h *Host) Usage(_ None, u *Usage) error {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return err
	}
	u.CPU = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	u.Switches = r.Nvcsw + r.Nivcsw
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(sample)
	u.Allocations = sample[0].Value.Uint64()
	for field, bytes := range map[string]*int64{"VmRSS": &u.Resident, "RssAnon": &u.Anonymous} {
		if _, err := fmt.Sscan(firstValue("/proc/self/status", field), bytes); err != nil {
			return err
		}
		*bytes <<= 10
	}
	return nil
}
