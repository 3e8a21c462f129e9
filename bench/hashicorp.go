package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

const patience = 10 * time.Second // for a first leader, and for one command

// defaults and bigBatches are the two contestants of hashicorp/raft: its default settings, and those that its documentation
// recommends for throughput.
func defaults(*raft.Config) {}

func bigBatches(c *raft.Config) {
	c.MaxAppendEntries = 1024
	c.BatchApplyCh = true
}

type hashicorp struct {
	nodes   []*raft.Raft
	closers []io.Closer
	leader  atomic.Pointer[raft.Raft]
}

func startHashicorp(tune func(*raft.Config)) func(dir string) (cluster, error) {
	return func(dir string) (cluster, error) {
		h := &hashicorp{}
		if err := h.start(dir, tune); err != nil {
			return nil, errors.Join(err, h.Close())
		}
		return h, nil
	}
}

func (h *hashicorp) start(dir string, tune func(*raft.Config)) error {
	var transports []*raft.NetworkTransport
	var initial raft.Configuration
	for i := range 3 {
		t, err := raft.NewTCPTransport("127.0.0.1:0", nil, 3, patience, io.Discard)
		if err != nil {
			return err
		}
		h.closers = append(h.closers, t)
		transports = append(transports, t)
		initial.Servers = append(initial.Servers, raft.Server{
			ID: raft.ServerID(fmt.Sprintf("n%d", i+1)), Address: t.LocalAddr(),
		})
	}
	for i, t := range transports {
		if err := h.startOne(filepath.Join(dir, fmt.Sprint(i)), t, initial, initial.Servers[i].ID, tune); err != nil {
			return err
		}
	}
	if err := h.findLeader(); err != nil {
		return err
	}
	return h.leader.Load().Barrier(patience).Error()
}

func (h *hashicorp) startOne(dir string, t raft.Transport, initial raft.Configuration, id raft.ServerID, tune func(*raft.Config)) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	store, err := raftboltdb.NewBoltStore(filepath.Join(dir, "raft.db"))
	if err != nil {
		return err
	}
	h.closers = append(h.closers, store)
	snapshots, err := raft.NewFileSnapshotStore(dir, 1, io.Discard)
	if err != nil {
		return err
	}
	config := raft.DefaultConfig()
	config.LocalID = id
	config.Logger = hclog.NewNullLogger()
	tune(config)
	if err := raft.BootstrapCluster(config, store, store, snapshots, t, initial); err != nil {
		return err
	}
	node, err := raft.NewRaft(config, &hashicorpCounter{}, store, store, snapshots, t)
	if err != nil {
		return err
	}
	h.nodes = append(h.nodes, node)
	return nil
}

func (h *hashicorp) findLeader() error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, node := range h.nodes {
			if node.State() == raft.Leader {
				h.leader.Store(node)
				return nil
			}
		}
	}
	return errors.New("no leader in time")
}

func (h *hashicorp) Propose(command []byte) error {
	if err := h.leader.Load().Apply(command, patience).Error(); err != nil {
		return errors.Join(err, h.findLeader())
	}
	return nil
}

func (h *hashicorp) Close() error {
	var errs []error
	for _, node := range h.nodes {
		errs = append(errs, node.Shutdown().Error())
	}
	for _, c := range h.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// hashicorpCounter counts the bytes of all commands.
type hashicorpCounter struct{ bytes uint64 }

func (c *hashicorpCounter) Apply(log *raft.Log) any {
	c.bytes += uint64(len(log.Data))
	return nil
}

func (c *hashicorpCounter) Snapshot() (raft.FSMSnapshot, error) { return hashicorpSnapshot(*c), nil }

func (c *hashicorpCounter) Restore(r io.ReadCloser) error {
	return errors.Join(binary.Read(r, binary.BigEndian, &c.bytes), r.Close())
}

type hashicorpSnapshot hashicorpCounter

func (s hashicorpSnapshot) Persist(sink raft.SnapshotSink) error {
	if err := binary.Write(sink, binary.BigEndian, s.bytes); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (s hashicorpSnapshot) Release() {}
