// Command replace replaces a machine that has lost its disk by a new machine. Clients write all the time, and no acknowledged
// write is lost. "raftkv members replace" does the same for the demo store, and "raftkv serve --join" does it automatically.
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

// writesBetween is the number of writes that are acknowledged between two steps.
const writesBetween = 100

func run(ctx context.Context, dir string, out io.Writer) (err error) {
	cluster := machines.New(dir)
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if err := cluster.Bootstrap(ctx, "n1", "n2", "n3"); err != nil {
		return err
	}
	load := cluster.Load(ctx)
	if err := load.More(ctx, writesBetween); err != nil {
		return err
	}
	fmt.Fprintln(out, "n1, n2 and n3 are up")

	if err := cluster.Stop("n3", true); err != nil {
		return err
	}
	if err := load.More(ctx, writesBetween); err != nil {
		return err
	}
	fmt.Fprintln(out, "n3 has lost its disk; n1 and n2 continue, and must not fail now")

	if err := replace(ctx, cluster, "n3"); err != nil {
		return err
	}
	if err := load.More(ctx, writesBetween); err != nil {
		return err
	}
	fmt.Fprintln(out, "a new n3 has taken its place, and holds all data of the cluster")

	// After n2 stops, a write is acknowledged only if the new n3 holds it.
	if err := cluster.Stop("n2", false); err != nil {
		return err
	}
	if err := load.More(ctx, writesBetween); err != nil {
		return err
	}
	fmt.Fprintln(out, "n2 is stopped; n1 and the new n3 continue")
	if _, err := load.Check(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, "every acknowledged write is there")
	return nil
}

// replace starts a member on an empty disk and at a new address. The new member takes the place of the member with the same
// id.
func replace(ctx context.Context, c *machines.Cluster, id raft.NodeID) error {
	t, err := machines.Listen()
	if err != nil {
		return err
	}
	// The new member has no list of initial members. A member with an empty disk must not bootstrap another cluster.
	if err := c.Start(ctx, id, t, nil); err != nil {
		return err
	}
	_, err = c.Change(ctx, func(leader *node.Node) (node.Members, error) {
		return leader.ReplaceMember(ctx, id, raft.Member{Address: t.Addr().String()}, node.ChangeOptions{})
	})
	if err != nil {
		return fmt.Errorf("replace %s: %w", id, err)
	}
	return nil
}

func main() {
	dir, err := os.MkdirTemp("", "replace-")
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
