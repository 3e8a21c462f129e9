//go:build !nopeers

package main

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/client"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/logger"
	"github.com/lni/dragonboat/v4/statemachine"
)

const dragonboatShard = 1

type dragonboatReplica struct {
	*dragonboatCounter
	id      uint64
	host    *dragonboat.NodeHost
	session *client.Session
}

func startDragonboat(m Member) (replica, error) {
	for _, part := range []string{"raft", "rsm", "transport", "dragonboat", "logdb"} {
		logger.GetLogger(part).SetLevel(logger.WARNING)
	}
	members := map[uint64]dragonboat.Target{}
	for i, address := range m.Addresses {
		members[uint64(i+1)] = address
	}
	// Dragonboat has no default for the round-trip time. Its examples use 200 ms, and an election timeout of ten round trips.
	roundTrip := uint64(200)
	if m.Tuned {
		roundTrip = 15
	}
	host, err := dragonboat.NewNodeHost(config.NodeHostConfig{
		NodeHostDir: m.Dir, WALDir: m.Dir, RaftAddress: m.address(), RTTMillisecond: roundTrip,
	})
	if err != nil {
		return nil, err
	}
	r := &dragonboatReplica{&dragonboatCounter{}, uint64(m.ID), host, host.GetNoOPSession(dragonboatShard)}
	err = host.StartConcurrentReplica(members, false,
		func(uint64, uint64) statemachine.IConcurrentStateMachine { return r.dragonboatCounter },
		config.Config{
			ReplicaID: r.id, ShardID: dragonboatShard, ElectionRTT: 10, HeartbeatRTT: 1, CheckQuorum: true, PreVote: true,
		})
	return r, err
}

func (d *dragonboatReplica) Propose(ctx context.Context, command []byte) error {
	_, err := d.host.SyncPropose(ctx, d.session, command)
	return err
}

func (d *dragonboatReplica) Leads() bool {
	leader, _, known, err := d.host.GetLeaderID(dragonboatShard)
	return err == nil && known && leader == d.id
}

type dragonboatCounter struct{ counter }

func (c *dragonboatCounter) Update(entries []statemachine.Entry) ([]statemachine.Entry, error) {
	for _, e := range entries {
		c.apply(e.Cmd)
	}
	return entries, nil
}

func (c *dragonboatCounter) Lookup(any) (any, error) { return c.Applied(), nil }

func (c *dragonboatCounter) PrepareSnapshot() (any, error) {
	return []uint64{c.commands.Load(), c.bytes.Load()}, nil
}

func (c *dragonboatCounter) SaveSnapshot(state any, w io.Writer,
	_ statemachine.ISnapshotFileCollection, _ <-chan struct{}) error {
	return binary.Write(w, binary.BigEndian, state)
}

func (c *dragonboatCounter) RecoverFromSnapshot(r io.Reader, _ []statemachine.SnapshotFile, _ <-chan struct{}) error {
	var state [2]uint64
	err := binary.Read(r, binary.BigEndian, &state)
	c.commands.Store(state[0])
	c.bytes.Store(state[1])
	return err
}

func (c *dragonboatCounter) Close() error { return nil }
