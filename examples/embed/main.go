// Command embed is a replicated counter: three members, here in one process, each with its own data
// on disk and its own port. In your service each process starts one of them.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// counter is the application: every member applies the same commands in the same order.
type counter struct{ total uint64 }

func (c *counter) Apply(batch []raft.Entry, results [][]byte) error {
	for i, entry := range batch {
		c.total += uint64(len(entry.Data)) // the command: one byte for each step to count
		results[i] = binary.BigEndian.AppendUint64(nil, c.total)
	}
	return nil
}

// Snapshot freezes the state; Restore reads what WriteTo wrote.
func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return frozen{c.total}, nil }
func (c *counter) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	return binary.Read(r, binary.BigEndian, &c.total)
}

type frozen struct{ total uint64 }

func (f frozen) WriteTo(ctx context.Context, w io.Writer) error {
	return errors.Join(ctx.Err(), binary.Write(w, binary.BigEndian, f.total))
}
func (f frozen) Close() error { return nil }

// start is all that it takes to run one member. Transport and store belong to the node from then on.
func start(ctx context.Context, id raft.NodeID, dir string, t *transport.TCP, initial []raft.Member) (*node.Node, error) {
	store, err := storage.Open(filepath.Join(dir, string(id)), storage.Options{})
	if err != nil {
		return nil, err
	}
	cfg := node.Config{ID: id, Cluster: "example", Initial: initial}
	n, err := node.Start(ctx, cfg, &counter{}, store, t)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return n, nil
}

func run(ctx context.Context, dir string) error {
	ids := []raft.NodeID{"n1", "n2", "n3"}
	var transports []*transport.TCP
	var initial []raft.Member // the same list on every member
	for _, id := range ids {
		t, err := transport.Listen("127.0.0.1:0", transport.Options{})
		if err != nil {
			return err
		}
		transports = append(transports, t)
		initial = append(initial, raft.Member{ID: id, Address: t.Addr().String()})
	}
	nodes := map[raft.NodeID]*node.Node{}
	for i, id := range ids {
		n, err := start(ctx, id, dir, transports[i], initial)
		if err != nil {
			return err
		}
		defer n.Close()
		nodes[id] = n
	}

	leader, err := nodes["n1"].WaitLeader(ctx)
	if err != nil {
		return err
	}
	for range 3 {
		// Propose returns once a majority has the command on disk and the leader has applied it.
		result, err := nodes[leader.ID].Propose(ctx, []byte("+"))
		if err != nil {
			return err // errors.Is(err, raft.ErrOutcomeUnknown): it may have been applied
		}
		fmt.Println("counted to", binary.BigEndian.Uint64(result.Data))
	}
	// A linearizable read works on every member: after ReadIndex, its state has all of the above.
	if _, err := nodes["n2"].ReadIndex(ctx); err != nil {
		return err
	}
	fmt.Println("n2 is up to date")
	return nil
}

func main() {
	dir, err := os.MkdirTemp("", "embed-")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	err = errors.Join(run(ctx, dir), os.RemoveAll(dir))
	cancel()
	if err != nil {
		log.Fatal(err)
	}
}
