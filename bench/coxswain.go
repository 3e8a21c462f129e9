package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

type coxswain struct {
	nodes  []*node.Node
	leader atomic.Pointer[node.Node]
}

func startCoxswain(dir string) (cluster, error) {
	c := &coxswain{}
	if err := c.start(dir); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *coxswain) start(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var transports []*transport.TCP
	var initial []raft.Member
	for i := range 3 {
		t, err := transport.Listen("127.0.0.1:0", transport.Options{})
		if err != nil {
			return err
		}
		transports = append(transports, t)
		initial = append(initial, raft.Member{ID: raft.NodeID(fmt.Sprintf("n%d", i+1)), Address: t.Addr().String()})
	}
	for i, t := range transports {
		store, err := storage.OpenBolt(filepath.Join(dir, fmt.Sprint(i)), storage.BoltOptions{})
		if err != nil {
			return err
		}
		cfg := node.Config{ID: initial[i].ID, Cluster: "bench", Initial: initial}
		n, err := node.Start(ctx, cfg, &coxswainCounter{}, store, t)
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	for {
		if err := c.findLeader(ctx); err != nil {
			return err
		}
		if _, err := c.leader.Load().Barrier(ctx); err == nil {
			return nil
		}
	}
}

func (c *coxswain) findLeader(ctx context.Context) error {
	leader, err := c.nodes[0].WaitLeader(ctx)
	if err != nil {
		return err
	}
	for _, n := range c.nodes {
		if n.Status().ID == leader.ID {
			c.leader.Store(n)
		}
	}
	return nil
}

func (c *coxswain) Propose(command []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := c.leader.Load().Propose(ctx, command)
	if err != nil {
		return errors.Join(err, c.findLeader(ctx))
	}
	return nil
}

func (c *coxswain) Close() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

// coxswainCounter counts the bytes of all commands.
type coxswainCounter struct{ bytes uint64 }

func (c *coxswainCounter) Apply(batch []raft.Entry, _ [][]byte) error {
	for _, e := range batch {
		c.bytes += uint64(len(e.Data))
	}
	return nil
}

func (c *coxswainCounter) Snapshot() (raft.FSMSnapshot, error) { return coxswainSnapshot(*c), nil }

func (c *coxswainCounter) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	return binary.Read(r, binary.BigEndian, &c.bytes)
}

type coxswainSnapshot coxswainCounter

func (s coxswainSnapshot) WriteTo(ctx context.Context, w io.Writer) error {
	return errors.Join(ctx.Err(), binary.Write(w, binary.BigEndian, s.bytes))
}

func (s coxswainSnapshot) Close() error { return nil }
