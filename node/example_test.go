package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// total counts the bytes of all commands. It has no lock.
type total struct{ bytes int }

func (s *total) Apply(batch []raft.Entry, results [][]byte) error {
	for i, e := range batch {
		s.bytes += len(e.Data)
		results[i] = fmt.Append(nil, s.bytes)
	}
	return nil
}

func (s *total) Snapshot() (raft.FSMSnapshot, error) { return frozenTotal(s.bytes), nil }

func (s *total) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	_, err := fmt.Fscan(r, &s.bytes)
	return err
}

// frozenTotal is a snapshot of total.
type frozenTotal int

func (f frozenTotal) WriteTo(ctx context.Context, w io.Writer) error {
	_, err := fmt.Fprint(w, int(f))
	return errors.Join(ctx.Err(), err)
}

func (f frozenTotal) Close() error { return nil }

func TestTotal_IsAStateMachine(t *testing.T) {
	rafttest.CheckFSM(t, func() raft.FSM { return &total{} }, [][]byte{[]byte("a"), []byte("bb"), []byte("ccc")})
}

// startAlone starts a cluster of one member, in memory.
func startAlone(ctx context.Context, fsm raft.FSM) *node.Node {
	n, err := node.Start(ctx, node.Config{
		ID: "n1", Cluster: "example", Initial: []raft.Member{{ID: "n1", Address: "n1:1", Meta: "http://n1:4001"}},
	}, fsm, storage.NewMemory(), transport.NewNetwork().Join("n1"))
	if err != nil {
		log.Fatal(err)
	}
	if err := n.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	return n
}

func ExampleNode_Leader() {
	n := startAlone(context.Background(), &total{})
	defer n.Close()
	if leader, known := n.Leader(); known {
		fmt.Println(leader.ID, "leads; its clients use", leader.Meta)
	}
	// Output: n1 leads; its clients use http://n1:4001
}

// The state machine has no lock, and needs none, because Apply never runs at the same time as the function.
func ExampleNode_Read() {
	ctx, state := context.Background(), &total{}
	n := startAlone(ctx, state)
	defer n.Close()
	if _, err := n.Propose(ctx, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	var bytes int
	if err := n.Read(ctx, func() { bytes = state.bytes }); err != nil {
		log.Fatal(err) // the function was not called
	}
	fmt.Println(bytes, "bytes")
	// Output: 5 bytes
}

// A caller that reads commands from one source keeps many of them pending, in the order of the source.
func ExampleNode_ProposeAsync() {
	ctx := context.Background()
	n := startAlone(ctx, &total{})
	defer n.Close()
	var pending sync.WaitGroup
	for _, command := range []string{"a", "bb", "ccc"} {
		pending.Add(1)
		_, err := n.ProposeAsync(ctx, []byte(command), func(r node.Result, err error) {
			defer pending.Done()
			if err != nil {
				log.Print(err) // errors.Is(err, node.ErrOutcomeUnknown): it may have been applied
				return
			}
			fmt.Printf("after %s: %s bytes\n", command, r.Data)
		})
		if err != nil { // not accepted: the function is never called
			pending.Done()
			log.Print(err)
		}
	}
	pending.Wait()
	// Output:
	// after a: 1 bytes
	// after bb: 3 bytes
	// after ccc: 6 bytes
}

// A standby never leads in ordinary times. The last voter that may lead cannot become one.
func ExampleNode_SetPriority() {
	ctx := context.Background()
	n := startAlone(ctx, &total{})
	defer n.Close()
	members, err := n.SetPriority(ctx, "n1", 5)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the priority of n1 is", members.Members[0].Priority)

	_, err = n.SetPriority(ctx, "n1", raft.PriorityNever)
	var refused *raft.NotElectableError
	if errors.As(err, &refused) {
		fmt.Println("first raise the priority of", refused.Raise)
	}
	// Output:
	// the priority of n1 is 5
	// first raise the priority of n1
}
