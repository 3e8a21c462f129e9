// Command grow lets a cluster grow from one member to three and to five, and shrink to three and to one again. Clients write
// all the time, and no acknowledged write is lost. "raftkv members add" and "raftkv members remove" do the same for the demo
// store.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/examples/internal/machines"
	"github.com/coxswain/raft/node"
)

// writesBetween is the number of writes that are acknowledged between two changes.
const writesBetween = 100

func run(ctx context.Context, dir string, out io.Writer) (err error) {
	cluster := machines.New(dir)
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if err := cluster.Bootstrap(ctx, "n1"); err != nil {
		return err
	}
	fmt.Fprintln(out, "n1 is a cluster of one member")
	load := cluster.Load(ctx)
	for _, id := range []raft.NodeID{"n2", "n3", "n4", "n5"} {
		if err := add(ctx, cluster, id, out); err != nil {
			return err
		}
		if err := load.More(ctx, writesBetween); err != nil {
			return err
		}
	}
	for _, id := range []raft.NodeID{"n1", "n2", "n3", "n4"} { // at least one of them is the leader when it is removed
		if err := remove(ctx, cluster, id, out); err != nil {
			return err
		}
		if err := load.More(ctx, writesBetween); err != nil {
			return err
		}
	}
	if _, err := load.Check(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, "every acknowledged write is there")
	return nil
}

// add starts a member and makes it a voter.
func add(ctx context.Context, c *machines.Cluster, id raft.NodeID, out io.Writer) error {
	t, err := machines.Listen()
	if err != nil {
		return err
	}
	// The new member has no list of initial members. It waits until the leader contacts it.
	if err := c.Start(ctx, id, t, nil); err != nil {
		return err
	}
	members, err := c.Change(ctx, func(leader *node.Node) (node.Members, error) {
		return leader.AddMember(ctx, raft.Member{ID: id, Address: t.Addr().String()}, node.ChangeOptions{})
	})
	if err != nil {
		return fmt.Errorf("add %s: %w", id, err)
	}
	fmt.Fprintf(out, "%s was added:   voters %v\n", id, voters(members))
	return nil
}

// remove removes a member. If that member leads, it first transfers its leadership. The removed member ends by itself when it
// learns of its removal.
func remove(ctx context.Context, c *machines.Cluster, id raft.NodeID, out io.Writer) error {
	members, err := c.Change(ctx, func(leader *node.Node) (node.Members, error) {
		return leader.RemoveMember(ctx, id, node.ChangeOptions{})
	})
	if err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	removed := c.Member(id)
	select {
	case <-removed.Done():
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended: %w", id, ctx.Err())
	}
	if err := removed.Err(); !errors.Is(err, raft.ErrRemoved) {
		return fmt.Errorf("%s ended: %w", id, err)
	}
	fmt.Fprintf(out, "%s was removed: voters %v\n", id, voters(members))
	return c.Stop(id, true) // nobody needs its data
}

func voters(m node.Members) (ids []raft.NodeID) {
	for _, voter := range m.Voters() {
		ids = append(ids, voter.ID)
	}
	return ids
}

func main() {
	dir, err := os.MkdirTemp("", "grow-")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	err = errors.Join(run(ctx, dir, os.Stdout), os.RemoveAll(dir))
	cancel()
	if err != nil {
		log.Fatal(err)
	}
}
