// Command embed is a replicated counter with three members. Each member has its own data on disk and its own port. Here one
// process runs all three members. In your service, each process starts one.
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

// counter is the state machine: every member applies the same commands in the same order.
type counter struct{ total uint64 }

func (c *counter) Apply(batch []raft.Entry, results [][]byte) error {
	for i, entry := range batch {
		c.total += uint64(len(entry.Data)) // a command counts its bytes
		results[i] = binary.BigEndian.AppendUint64(nil, c.total)
	}
	return nil
}

// Snapshot freezes the state, frozen.WriteTo writes it, and Restore reads it.
func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return frozen{c.total}, nil }
func (c *counter) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	return binary.Read(r, binary.BigEndian, &c.total)
}

type frozen struct{ total uint64 }

func (f frozen) WriteTo(ctx context.Context, w io.Writer) error {
	return errors.Join(ctx.Err(), binary.Write(w, binary.BigEndian, f.total))
}
func (f frozen) Close() error { return nil }

// start starts one member. From then on, the node owns the store and the transport.
func start(ctx context.Context, id raft.NodeID, dir string, t *transport.TCP, initial []raft.Member) (*node.Node, error) {
	store, err := storage.Open(filepath.Join(dir, string(id)), storage.Options{})
	if err != nil {
		return nil, err
	}
	n, err := node.Start(ctx, node.Config{ID: id, Cluster: "example", Initial: initial}, &counter{}, store, t)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return n, nil
}

// count proposes a command to the leader and reads on another member.
func count(ctx context.Context, leader, other *node.Node) (uint64, error) {
	result, err := leader.Propose(ctx, []byte("+")) // returns once a majority has stored it and the leader has applied it
	if err != nil {
		return 0, err // errors.Is(err, node.ErrOutcomeUnknown): the command may have been applied
	}
	_, err = other.ReadIndex(ctx) // from here on, the state of this member includes the command
	return binary.BigEndian.Uint64(result.Data), err
}

// run starts three members in this process, and counts to three.
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
		total, err := count(ctx, nodes[leader.ID], nodes["n2"])
		if err != nil {
			return err
		}
		fmt.Println("counted to", total)
	}
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
