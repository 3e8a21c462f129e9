//go:build !nopeers

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	raftwal "github.com/hashicorp/raft-wal"
)

type hashicorp struct {
	*hashicorpCounter
	raft *raft.Raft
}

// hashicorpStore keeps term, vote and log.
type hashicorpStore interface {
	raft.LogStore
	raft.StableStore
}

func openRaftBolt(dir string) (hashicorpStore, error) {
	return raftboltdb.NewBoltStore(filepath.Join(dir, "raft.db"))
}

func openRaftWAL(dir string) (hashicorpStore, error) {
	dir = filepath.Join(dir, "wal")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return raftwal.Open(dir)
}

// tuning distinguishes the two contestants that use the same store.
type tuning struct {
	big bool // MaxAppendEntries 1024, BatchApplyCh, a log cache, and an FSM that takes batches
}

// byDefault has the library's default settings, and bigBatches the settings with the best throughput. In both, the transport
// has at most 2 appends in flight: this is the default, and the library's authors found it to be best.
var byDefault, bigBatches = tuning{}, tuning{big: true}

func (t tuning) apply(c *raft.Config, store hashicorpStore) (log raft.LogStore, err error) {
	if !t.big {
		return store, nil
	}
	c.MaxAppendEntries = 1024
	c.BatchApplyCh = true
	return raft.NewLogCache(4096, store)
}

func (t tuning) fsm(c *hashicorpCounter) raft.FSM {
	if t.big {
		return hashicorpBatches{c}
	}
	return c
}

func startHashicorp(open func(dir string) (hashicorpStore, error), tuned tuning) func(Member) (replica, error) {
	return func(m Member) (replica, error) {
		store, err := open(m.Dir)
		if err != nil {
			return nil, err
		}
		config := hashicorpConfig(m)
		log, err := tuned.apply(config, store)
		if err != nil {
			return nil, err
		}
		fsm := &hashicorpCounter{}
		r, err := runHashicorp(m, config, tuned.fsm(fsm), log, store)
		return &hashicorp{fsm, r}, err
	}
}

func hashicorpConfig(m Member) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = hashicorpID(m.ID)
	c.Logger = hclog.NewNullLogger()
	if m.Tuned {
		c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 150*time.Millisecond, 150*time.Millisecond, 150*time.Millisecond
	}
	if m.Keeps {
		c.SnapshotThreshold = 1 << 60
	}
	return c
}

func hashicorpID(id int) raft.ServerID { return raft.ServerID(fmt.Sprintf("n%d", id)) }

func runHashicorp(m Member, config *raft.Config, fsm raft.FSM, log raft.LogStore, stable raft.StableStore) (*raft.Raft, error) {
	t, err := raft.NewTCPTransport(m.address(), nil, 3, patience, io.Discard)
	if err != nil {
		return nil, err
	}
	snapshots, err := raft.NewFileSnapshotStore(m.Dir, 1, io.Discard)
	if err != nil {
		return nil, err
	}
	var initial raft.Configuration
	for i, address := range m.Addresses {
		initial.Servers = append(initial.Servers, raft.Server{ID: hashicorpID(i + 1), Address: raft.ServerAddress(address)})
	}
	fresh := raft.BootstrapCluster(config, log, stable, snapshots, t, initial)
	if fresh != nil && !errors.Is(fresh, raft.ErrCantBootstrap) { // that is, it is not the first start
		return nil, fresh
	}
	r, err := raft.NewRaft(config, fsm, log, stable, snapshots, t)
	if err == nil && fresh == nil && m.ID == majority(len(m.Addresses)) {
		// This member campaigns at once, as a member does after a leadership transfer.
		request := raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: config.ProtocolVersion}}
		if err := t.TimeoutNow(config.LocalID, t.LocalAddr(), &request, &raft.TimeoutNowResponse{}); err != nil {
			return nil, errors.Join(err, r.Shutdown().Error())
		}
	}
	return r, err
}

// majority returns the number of members in a majority. Members start in the order of their ids. So the member with this id
// is the first one that can find a majority running.
func majority(members int) int { return members/2 + 1 }

func (h *hashicorp) Propose(_ context.Context, command []byte) error {
	return h.raft.Apply(append([]byte(nil), command...), 0).Error() // it keeps what it gets; 0: no timer for each
}

func (h *hashicorp) Leads() bool { return h.raft.State() == raft.Leader }

// Reader measures VerifyLeader, by which the leader confirms that it still leads. The leader has applied its log up to its
// own term, as VerifyLeader requires.
func (h *hashicorp) Reader(context.Context, reading) (func(context.Context) error, error) {
	return func(context.Context) error { return h.raft.VerifyLeader().Error() }, nil
}

type hashicorpCounter struct{ counter }

func (c *hashicorpCounter) Apply(log *raft.Log) any {
	c.apply(log.Data)
	return nil
}

// hashicorpBatches is a raft.BatchingFSM.
type hashicorpBatches struct{ *hashicorpCounter }

func (b hashicorpBatches) ApplyBatch(logs []*raft.Log) []any {
	for _, log := range logs {
		if log.Type == raft.LogCommand { // a batch holds changes of the configuration as well
			b.apply(log.Data)
		}
	}
	return make([]any, len(logs))
}

func (c *hashicorpCounter) Snapshot() (raft.FSMSnapshot, error) {
	return hashicorpSnapshot{c.commands.Load(), c.bytes.Load()}, nil
}

func (c *hashicorpCounter) Restore(r io.ReadCloser) error {
	var s hashicorpSnapshot
	err := binary.Read(r, binary.BigEndian, &s)
	c.commands.Store(s.Commands)
	c.bytes.Store(s.Bytes)
	return errors.Join(err, r.Close())
}

type hashicorpSnapshot struct{ Commands, Bytes uint64 }

func (s hashicorpSnapshot) Persist(sink raft.SnapshotSink) error {
	if err := binary.Write(sink, binary.BigEndian, s); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (hashicorpSnapshot) Release() {}
