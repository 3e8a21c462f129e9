package member_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/member"
	"github.com/coxswain/raft/rafttest"
)

// counter counts the bytes of all commands.
type counter struct{ total uint64 }

func (c *counter) Apply(batch []raft.Entry, results [][]byte) error {
	for i, entry := range batch {
		c.total += uint64(len(entry.Data))
		results[i] = binary.BigEndian.AppendUint64(nil, c.total)
	}
	return nil
}

func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return frozen(c.total), nil }

func (c *counter) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	return binary.Read(r, binary.BigEndian, &c.total)
}

type frozen uint64

func (f frozen) WriteTo(ctx context.Context, w io.Writer) error {
	return errors.Join(ctx.Err(), binary.Write(w, binary.BigEndian, uint64(f)))
}

func (f frozen) Close() error { return nil }

func TestCounter_IsAStateMachine(t *testing.T) {
	rafttest.CheckFSM(t, func() raft.FSM { return &counter{} }, [][]byte{[]byte("+"), []byte("++")})
}

// This cluster has one member, on this machine, so that it needs no certificates.
func ExampleStart() {
	dir, err := os.MkdirTemp("", "member-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	m, err := member.Start(ctx, member.Config{
		ID: "n1", Cluster: "example", Dir: dir, Listen: "127.0.0.1:0",
		Initial: []raft.Member{{ID: "n1", Address: "127.0.0.1:7000"}},
	}, &counter{})
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	result, err := m.Propose(ctx, []byte("+++"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("counted to", binary.BigEndian.Uint64(result.Data))
	if err := m.Shutdown(ctx); err != nil { // with an *http.Server, if there is one
		log.Fatal(err)
	}
	// Output: counted to 3
}
