package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// machine is the contestant of the cell that measures the machine itself.
const machine = "machine"

// syncSizes are the writes that are synced.
var syncSizes = []int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}

func syncMicros(bytes int) string { return size(bytes) + " synced p50 us" }
func syncRate(bytes int) string   { return size(bytes) + " synced MiB/s" }

// limits measures what the machine allows any library. Three processes write and sync at the same time, and a message makes a
// round trip over loopback.
func (r *run) limits(ctx context.Context) (figures, error) {
	c := &cluster{contestant: machine}
	for i := range 3 {
		c.processes = append(c.processes, &process{members: []Member{{ID: i + 1, Dir: filepath.Join(r.dir, fmt.Sprint(i+1))}}})
	}
	f, err := r.limitsOf(ctx, c)
	return f, c.end(err)
}

func (r *run) limitsOf(ctx context.Context, c *cluster) (figures, error) {
	for i := range c.processes {
		p, err := spawn(c.contestant, c.processes[i].members)
		if err != nil {
			return nil, err
		}
		c.processes[i] = p
	}
	empty, err := c.usage(ctx)
	if err != nil {
		return nil, err
	}
	f := figures{emptyResident: float64(empty.Resident) / mebi / float64(len(c.processes))}
	for _, bytes := range syncSizes {
		synced := make([]Synced, len(c.processes))
		err := c.each(c.running(), func(i int) error {
			p := c.processes[i]
			return p.call(ctx, "Sync", Sync{p.members[0].Dir, bytes, r.measure / 2}, &synced[i])
		})
		if err != nil {
			return nil, err
		}
		for _, s := range synced {
			f[syncMicros(bytes)] += s.P50Micros / float64(len(synced))
			f[syncRate(bytes)] += s.MiBPerSecond
		}
	}
	var median float64
	err = c.processes[0].call(ctx, "RoundTrip", r.measure/2, &median)
	f[loopbackMicros] = median
	return f, err
}

// Sync describes a series of synced writes to one file.
type Sync struct {
	Dir   string
	Bytes int
	For   time.Duration
}

// Synced is the result of a Sync.
type Synced struct{ P50Micros, MiBPerSecond float64 }

// syncFileBytes is the size of the file. Sync first fills the file with zeros and then overwrites it repeatedly, so that no
// write allocates space.
const syncFileBytes = 64 << 20

// Sync writes and syncs.
func (h *Host) Sync(s Sync, result *Synced) error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(s.Dir, "sync"))
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(make([]byte, syncFileBytes)); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	block := newCommand(s.Bytes)
	latency := hdrhistogram.New(1, time.Minute.Microseconds(), 3)
	began := time.Now()
	for at := int64(0); time.Since(began) < s.For; at = (at + int64(s.Bytes)) % syncFileBytes {
		before := time.Now()
		if _, err := file.WriteAt(block, at); err != nil {
			return err
		}
		if err := syscall.Fdatasync(int(file.Fd())); err != nil {
			return err
		}
		_ = latency.RecordValue(time.Since(before).Microseconds()) // values above a minute are lost, which does not affect the median
	}
	result.P50Micros = float64(latency.ValueAtQuantile(50))
	result.MiBPerSecond = float64(latency.TotalCount()) * float64(s.Bytes) / mebi / time.Since(began).Seconds()
	return nil
}

// RoundTrip sends 128 bytes over loopback and back, and replies the median time in microseconds.
func (h *Host) RoundTrip(within time.Duration, median *float64) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	go echo(listener)
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	message := newCommand(128)
	latency := hdrhistogram.New(1, time.Minute.Nanoseconds(), 3)
	for began := time.Now(); time.Since(began) < within; {
		before := time.Now()
		if _, err := conn.Write(message); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, message); err != nil {
			return err
		}
		_ = latency.RecordValue(time.Since(before).Nanoseconds()) // values above a minute are lost, which does not affect the median
	}
	*median = float64(latency.ValueAtQuantile(50)) / 1000
	return nil
}

func echo(listener net.Listener) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	_, err = io.Copy(conn, conn)
	_ = errors.Join(err, conn.Close()) // the other end tells
}
