package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	sessions "github.com/coxswain/raft/session"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

type coxswain struct {
	*coxswainCounter
	id   raft.NodeID
	node *node.Node
}

func openBolt(dir string) (raft.Storage, error) { return storage.OpenBolt(dir, storage.BoltOptions{}) }

func openLog(dir string) (raft.Storage, error) { return storage.OpenLog(dir, storage.LogOptions{}) }

func startCoxswain(open func(dir string) (raft.Storage, error)) func(Member) (replica, error) {
	return func(m Member) (replica, error) {
		store, err := open(m.Dir)
		if err != nil {
			return nil, err
		}
		t, err := transport.Listen(m.address(), transport.Options{})
		if err != nil {
			return nil, err
		}
		cfg := node.Config{Cluster: "bench"}
		for i, address := range m.Addresses {
			cfg.Initial = append(cfg.Initial, raft.Member{ID: raft.NodeID(fmt.Sprintf("n%d", i+1)), Address: address})
		}
		cfg.ID = cfg.Initial[m.ID-1].ID
		if m.Keeps { // the default election timeouts are the tuned ones
			cfg.SnapshotEntries, cfg.SnapshotLogBytes = 1<<30, 1<<30
		}
		fsm := &coxswainCounter{}
		ctx, cancel := context.WithTimeout(context.Background(), startupMax)
		defer cancel()
		var wrapped raft.FSM = fsm
		if m.Sessions {
			if wrapped, err = sessions.Wrap(fsm); err != nil {
				return nil, err
			}
		}
		n, err := node.Start(ctx, cfg, wrapped, store, t)
		if err != nil {
			return nil, err
		}
		return &coxswain{fsm, cfg.ID, n}, nil
	}
}

func (c *coxswain) Propose(ctx context.Context, command []byte) error {
	_, err := c.node.Propose(ctx, command)
	return err
}

func (c *coxswain) Leads() bool {
	leader, known := c.node.Leader()
	return known && leader.ID == c.id
}

// sessions opens a session for each caller, and returns the functions that propose in them.
func (c *coxswain) sessions(ctx context.Context, callers int) (propose []func(context.Context, []byte) error, err error) {
	for range callers {
		s, err := sessions.Open(ctx, c.node, sessions.Config{})
		if err != nil {
			return nil, err
		}
		propose = append(propose, func(ctx context.Context, command []byte) error {
			_, err := s.Propose(ctx, command)
			return err
		})
	}
	return propose, nil
}

// staleMax is the age of the state that a read from a follower allows.
const staleMax = time.Second

// Reader measures the form of a read that returns an index: the callers read the FSM themselves.
func (c *coxswain) Reader(_ context.Context, how reading) (func(context.Context) error, error) {
	fresh := map[reading]raft.Consistency{linearizable: raft.Linearizable, byLease: raft.Lease, fromFollower: raft.Stale(staleMax)}[how]
	return func(ctx context.Context) error {
		_, err := c.node.ReadIndexWith(ctx, fresh)
		return err
	}, nil
}

type coxswainCounter struct{ counter }

func (c *coxswainCounter) Apply(batch []raft.Entry, _ [][]byte) error {
	for _, e := range batch {
		c.apply(e.Data)
	}
	return nil
}

func (c *coxswainCounter) Snapshot() (raft.FSMSnapshot, error) {
	return coxswainSnapshot{c.commands.Load(), c.bytes.Load()}, nil
}

func (c *coxswainCounter) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	var s coxswainSnapshot
	err := binary.Read(r, binary.BigEndian, &s)
	c.commands.Store(s.Commands)
	c.bytes.Store(s.Bytes)
	return err
}

type coxswainSnapshot struct{ Commands, Bytes uint64 }

func (s coxswainSnapshot) WriteTo(ctx context.Context, w io.Writer) error {
	return errors.Join(ctx.Err(), binary.Write(w, binary.BigEndian, s))
}

func (coxswainSnapshot) Close() error { return nil }
