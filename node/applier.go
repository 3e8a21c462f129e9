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

// applier is the goroutine that owns the FSM. It reads committed entries, applies them in batches, answers the
// proposers, and reports its progress to the core.
type applier struct {
	node   *Node
	fsm    raft.FSM
	calls  *fsmCalls
	signal // there is work

	mu    sync.Mutex
	tasks applierTasks

	// Only the goroutine uses these.
	at        raft.EntryID // last entry applied
	ahead     []raft.Entry // committed entries that were read and not applied yet; the first one follows at
	given     raft.EntryID // last command, or entry of a snapshot, that the FSM got. A synced DurableFSM reports it
	atStart   bool         // the start began with a restoration that is not finished
	goroutine uint64       // id of the goroutine; 0 until the first call
}

// applierTasks lists the work of the applier. The applier first restores. Then it applies entries up to target, and takes
// snapshots between batches.
type applierTasks struct {
	target  raft.EntryID   // last entry to apply
	take    *raft.Take     // snapshot to take once its entry is the last one applied; nil: none
	restore *raft.Snapshot // snapshot to restore before anything else; nil: none
	freeze  *backupState   // state to freeze for a backup, once no other state is frozen; nil: none
	// replaced is true if a snapshot from a leader replaces the log. From then on the log may lack entries that the FSM has
	// not applied, so the FSM waits for restore.
	replaced bool
}

var errGoexit = errors.New("it called runtime.Goexit, as testing.T.FailNow does")

func newApplier(n *Node, fsm raft.FSM, at raft.EntryID) *applier {
	if !raft.AppliesSessions(fsm) {
		n.requests.noSessions = &NoSessionsError{Member: n.cfg.ID}
	}
	return &applier{node: n, fsm: fsm, calls: n.fsmCalls, at: at, given: at, signal: newSignal()}
}

// applyUpTo sets the last entry to apply. The loop calls it, with growing ids.
func (a *applier) applyUpTo(id raft.EntryID) {
	a.task(func(t *applierTasks) { t.target = id })
}

// task changes the list of tasks, and wakes the applier.
func (a *applier) task(change func(*applierTasks)) {
	a.mu.Lock()
	change(&a.tasks)
	a.mu.Unlock()
	a.wake()
}

func (a *applier) next() applierTasks {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tasks
}

// run is the applier's goroutine. Before it returns, it syncs a DurableFSM, unless the FSM has failed. If the FSM calls
// runtime.Goexit (testing.T.FailNow does), run ends the node, because nobody would apply entries any longer.
func (a *applier) run() {
	defer func() { a.node.fail(&FSMError{Op: "Apply", ID: a.at, Err: errGoexit}) }()
	for {
		select {
		case <-a.node.stop:
			a.sync()
			return
		case <-a.signal:
		}
		if err := a.work(); err != nil {
			a.node.fail(err)
			return
		}
	}
}

// work does all tasks, including tasks that are added while it runs.
func (a *applier) work() error {
	for {
		select {
		case <-a.node.stop:
			return nil
		default:
		}
		t := a.next()
		a.node.applied.aim(t.target.Index)
		var err error
		switch {
		case t.restore != nil:
			err = a.restore(*t.restore)
		case t.replaced:
			return nil
		case t.freeze != nil && a.node.taker.reserve(t.freeze.taking, a.at):
			err = a.freezeFor(t.freeze)
		case t.take != nil && t.take.ID.Index <= a.at.Index:
			err = a.take(*t.take)
		case t.take != nil && t.take.ID.Index < t.target.Index:
			err = a.apply(t.take.ID)
		case a.at.Index < t.target.Index:
			err = a.apply(t.target)
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// apply applies the next batch of entries, up to the target at most. One read may fill several batches.
func (a *applier) apply(target raft.EntryID) (err error) {
	if len(a.ahead) == 0 {
		a.ahead, err = a.node.entries.Read(raft.Span{After: a.at.Index, Last: target.Index}, applyBytesMax)
	}
	if err != nil {
		if a.next().replaced {
			return nil // the entries are gone; restore follows
		}
		return &StorageError{Op: "read", Err: err}
	}
	count := min(len(a.ahead), applyEntriesMax, int(target.Index-a.at.Index))
	batch := a.ahead[:count]
	last := batch[count-1].ID()
	if last.Index == target.Index && last != target {
		return &raft.InvariantError{Rule: "the entry that is applied is the one that was committed",
			State: fmt.Sprintf("committed %v, the log holds %v", target, last)}
	}
	if a.ahead = a.ahead[count:]; len(a.ahead) == 0 {
		a.ahead = nil
	}
	return a.applyBatch(batch)
}

func (a *applier) applyBatch(entries []raft.Entry) error {
	n := a.node
	if err := a.refuseSessions(entries); err != nil {
		return err
	}
	commands := commandsOf(entries)
	results := make([][]byte, len(commands))
	if len(commands) > 0 {
		began := time.Now()
		apply := func() error { // runs after a function of Node.Read that is running
			n.mailbox.applying(raft.Applying{ID: entries[len(entries)-1].ID(), Since: n.now().Mono})
			return a.fsm.Apply(commands, results)
		}
		if err := a.call("Apply", commands[0].ID(), apply); err != nil {
			return err
		}
		a.given = commands[len(commands)-1].ID()
		n.counters.applied(len(commands), time.Since(began))
	}
	a.at = entries[len(entries)-1].ID()
	n.applied.advance(a.at.Index)
	n.requests.applied(entries, results)
	n.mailbox.appliedUpTo(a.at)
	return nil
}

// commandsOf returns the entries that the FSM sees. If it sees all entries, it returns the slice itself.
func commandsOf(entries []raft.Entry) []raft.Entry {
	count := 0
	for i := range entries {
		if forFSM(&entries[i]) {
			count++
		}
	}
	if count == len(entries) {
		return entries
	}
	commands := make([]raft.Entry, 0, count)
	for i := range entries {
		if forFSM(&entries[i]) {
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
			failed = &FSMError{Op: op, ID: id, Panic: p, Stack: string(debug.Stack())}
		}
		ended(succeeded)
	}()
	if err := f(); err != nil {
		return &FSMError{Op: op, ID: id, Err: err}
	}
	succeeded = true
	return nil
}

func (a *applier) durable() bool {
	_, ok := a.fsm.(raft.DurableFSM)
	return ok
}

func (a *applier) sync() {
	if d, ok := a.fsm.(raft.DurableFSM); ok {
		if err := a.call("Sync", a.at, d.Sync); err != nil {
			a.node.closeFailed(err)
		}
	}
}

// durablyApplied returns the last entry that a DurableFSM has applied, or zero for any other FSM.
func durablyApplied(fsm raft.FSM) (id raft.EntryID, err error) {
	d, ok := fsm.(raft.DurableFSM)
	if !ok {
		return raft.EntryID{}, nil
	}
	a := applier{calls: newFSMCalls()}
	err = a.call("Applied", raft.EntryID{}, func() (e error) { id, e = d.Applied(); return e })
	return id, err
}
