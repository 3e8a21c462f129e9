package node

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coxswain/raft"
)

const (
	applyEntriesMax = 1024    // entries in one FSM.Apply
	applyBytesMax   = 4 << 20 // and their bytes, unless a single one is larger
)

// applier is the goroutine that owns the FSM: it reads what is committed, applies it in batches,
// answers the proposers, and tells the core how far it is.
type applier struct {
	node   *Node
	fsm    raft.FSM
	calls  *fsmCalls
	signal // the target has grown

	mu     sync.Mutex
	target raft.EntryID // apply up to it

	at        raft.EntryID // applied up to it; only the goroutine uses this and the next field
	goroutine uint64       // its id; 0 until the first call
}

var errGoexit = errors.New("it called runtime.Goexit, as testing.T.FailNow does")

func newApplier(n *Node, fsm raft.FSM, at raft.EntryID) *applier {
	return &applier{node: n, fsm: fsm, calls: n.fsmCalls, at: at, signal: newSignal()}
}

// applyUpTo is called by the loop, with ids that grow.
func (a *applier) applyUpTo(id raft.EntryID) {
	a.mu.Lock()
	a.target = id
	a.mu.Unlock()
	a.wake()
}

func (a *applier) next() raft.EntryID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.target
}

// run is the applier's goroutine. At its end it syncs a DurableFSM, unless the FSM has failed. If the FSM calls
// runtime.Goexit (testing.T.FailNow does), the node ends, because nothing would be applied any longer.
func (a *applier) run() {
	defer func() { a.node.fail(&raft.FSMError{Op: "Apply", ID: a.at, Err: errGoexit}) }()
	for {
		select {
		case <-a.node.stop:
			a.sync()
			return
		case <-a.signal:
		}
		if err := a.apply(); err != nil {
			a.node.fail(err)
			return
		}
	}
}

// apply applies entries up to the target, which may grow meanwhile.
func (a *applier) apply() error {
	for target := a.next(); a.at.Index < target.Index; target = a.next() {
		select {
		case <-a.node.stop:
			return nil
		default:
		}
		entries, err := a.node.entries.Read(raft.Span{After: a.at.Index, Last: target.Index}, applyBytesMax)
		if err != nil {
			return &raft.StorageError{Op: "read", Err: err}
		}
		entries = entries[:min(len(entries), applyEntriesMax)]
		last := entries[len(entries)-1].ID()
		if last.Index == target.Index && last != target {
			return &raft.InvariantError{Rule: "the entry that is applied is the one that was committed",
				State: fmt.Sprintf("committed %v, the log holds %v", target, last)}
		}
		if err := a.applyBatch(entries); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) applyBatch(entries []raft.Entry) error {
	n := a.node
	commands := commandsOf(entries)
	results := make([][]byte, len(commands))
	if len(commands) > 0 {
		began := time.Now()
		if err := a.call("Apply", commands[0].ID(), func() error { return a.fsm.Apply(commands, results) }); err != nil {
			return err
		}
		n.counters.applied(len(commands), time.Since(began))
	}
	a.at = entries[len(entries)-1].ID()
	n.applied.advance(a.at.Index)
	n.requests.applied(entries, results)
	n.mailbox.appliedUpTo(a.at)
	return nil
}

// commandsOf returns the entries that the FSM sees. If that is all of them, it returns the slice itself.
func commandsOf(entries []raft.Entry) []raft.Entry {
	count := 0
	for i := range entries {
		if entries[i].Kind == raft.EntryCommand {
			count++
		}
	}
	if count == len(entries) {
		return entries
	}
	commands := make([]raft.Entry, 0, count)
	for i := range entries {
		if entries[i].Kind == raft.EntryCommand {
			commands = append(commands, entries[i])
		}
	}
	return commands
}

// call calls the FSM and returns its error or panic as a *FSMError.
func (a *applier) call(op string, id raft.EntryID, f func() error) (failed error) {
	if a.goroutine == 0 {
		a.goroutine = goroutineID()
	}
	ended, succeeded := a.calls.begin(a.goroutine), false
	defer func() {
		if p := recover(); p != nil {
			failed = &raft.FSMError{Op: op, ID: id, Panic: p, Stack: string(debug.Stack())}
		}
		ended(succeeded)
	}()
	if err := f(); err != nil {
		return &raft.FSMError{Op: op, ID: id, Err: err}
	}
	succeeded = true
	return nil
}

func (a *applier) sync() {
	if d, ok := a.fsm.(raft.DurableFSM); ok {
		if err := a.call("Sync", a.at, d.Sync); err != nil {
			a.node.closeFailed(err)
		}
	}
}

// durablyApplied asks a DurableFSM how far it has applied the log; any other FSM begins at zero.
func durablyApplied(fsm raft.FSM) (id raft.EntryID, err error) {
	d, ok := fsm.(raft.DurableFSM)
	if !ok {
		return raft.EntryID{}, nil
	}
	a := applier{calls: newFSMCalls()}
	err = a.call("Applied", raft.EntryID{}, func() (e error) { id, e = d.Applied(); return e })
	return id, err
}
