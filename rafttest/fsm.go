package rafttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/coxswain/raft"
)

// CheckFSM tests a state machine against the contract of raft.FSM. newFSM returns an empty state machine; CheckFSM calls it
// several times. commands are the commands to apply, at least two. More kinds of commands make the test stronger. CheckFSM
// checks that
//
//   - the same commands give the same answers, however they are split into batches;
//   - the state machine keeps no reference to an entry's bytes after Apply has returned;
//   - later calls of Apply do not change the state that Snapshot froze, neither before nor during WriteTo;
//   - a restored state machine, whatever its state before, answers like the one that took the snapshot, and so does one
//     that is restored from a snapshot of the restored one; the snapshot of an empty state restores an empty state;
//   - Restore reads the snapshot to its end, however few bytes each read returns;
//   - Restore returns an error if the reader fails, and WriteTo returns one if the writer fails;
//   - WriteTo returns the context's error when the context is cancelled, and does not change the state.
//
// CheckFSM compares two states by their answers to commands, so the commands should include reads.
func CheckFSM(t testing.TB, newFSM func() raft.FSM, commands [][]byte) {
	t.Helper()
	if err := checkFSM(newFSM, commands); err != nil {
		t.Fatalf("rafttest: %v", err)
	}
}

func checkFSM(newFSM func() raft.FSM, commands [][]byte) error {
	if len(commands) < 2 {
		return errors.New("CheckFSM needs at least two commands")
	}
	want, err := apply(newFSM(), commands, 0, 1)
	if err != nil {
		return err
	}
	for _, size := range []int{2, len(commands)} {
		got, err := apply(newFSM(), commands, 0, size)
		if err != nil {
			return err
		}
		if err := compare(want, got, 0, fmt.Sprintf("in batches of %d the answer differs from that in batches of one", size)); err != nil {
			return err
		}
	}
	for _, check := range []func(func() raft.FSM, [][]byte, [][]byte) error{
		checkEmpty, checkRestored, checkBeside, checkErrors, checkCancel,
	} {
		if err := check(newFSM, commands, want); err != nil {
			return err
		}
	}
	return nil
}

// apply applies the commands in batches of the given size. After each batch it overwrites the bytes of the batch.
func apply(fsm raft.FSM, commands [][]byte, from, size int) ([][]byte, error) {
	var answers [][]byte
	for at := from; at < len(commands); at += size {
		var batch []raft.Entry
		for i := at; i < min(at+size, len(commands)); i++ {
			// Indexes have gaps, because entries of other kinds lie between commands.
			e := raft.Entry{Index: raft.Index(2*i + 2), Term: raft.Term(1 + i/3), Kind: raft.EntryCommand, Time: int64(i)}
			e.Data = slices.Clone(commands[i])
			batch = append(batch, e)
		}
		results := make([][]byte, len(batch))
		if err := fsm.Apply(batch, results); err != nil {
			return nil, fmt.Errorf("Apply of command %d failed: %w", at, err)
		}
		for _, e := range batch {
			for i := range e.Data {
				e.Data[i] ^= 0xff
			}
		}
		answers = append(answers, results...)
	}
	return answers, nil
}

func compare(want, got [][]byte, from int, what string) error {
	for i := range want {
		if !bytes.Equal(want[i], got[i]) {
			return fmt.Errorf("command %d: %s: %q, and %q", from+i, what, want[i], got[i])
		}
	}
	return nil
}

func freeze(fsm raft.FSM) (raft.FSMSnapshot, error) {
	frozen, err := fsm.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("FSM.Snapshot failed: %w", err)
	}
	if frozen == nil {
		return nil, errors.New("FSM.Snapshot returned nil without an error")
	}
	return frozen, nil
}

// write returns the bytes that WriteTo writes, and closes the snapshot.
func write(frozen raft.FSMSnapshot) ([]byte, error) {
	var written bytes.Buffer
	if err := errors.Join(frozen.WriteTo(context.Background(), &written), frozen.Close()); err != nil {
		return nil, fmt.Errorf("writing the snapshot failed: %w", err)
	}
	return written.Bytes(), nil
}

// restore restores the snapshot from a reader that returns one byte at a time.
func restore(fsm raft.FSM, snapshot []byte, last raft.Index) error {
	r := bytes.NewReader(snapshot)
	if err := fsm.Restore(context.Background(), raft.EntryID{Term: 1, Index: last}, iotest.OneByteReader(r)); err != nil {
		return fmt.Errorf("Restore failed: %w", err)
	}
	if r.Len() > 0 {
		return fmt.Errorf("Restore left %d of %d bytes unread: it must read the snapshot to its end", r.Len(), len(snapshot))
	}
	return nil
}

// lastOf returns the index of the last command, if there are this many commands.
func lastOf(commands int) raft.Index { return raft.Index(2 * commands) }

// checkEmpty restores the snapshot of an empty state into a state machine that is not empty.
func checkEmpty(newFSM func() raft.FSM, commands, want [][]byte) error {
	frozen, err := freeze(newFSM())
	if err != nil {
		return err
	}
	empty, err := write(frozen)
	if err != nil {
		return err
	}
	return checkAnswers(newFSM, commands, want, empty, 0, "after Restore of an empty state the answer differs")
}

// checkRestored freezes the state after half of the commands, and applies the second half. Then it writes and restores the
// frozen state. It does the same again with a snapshot of the restored state.
func checkRestored(newFSM func() raft.FSM, commands, want [][]byte) error {
	half := len(commands) / 2
	origin := newFSM()
	if _, err := apply(origin, commands[:half], 0, half); err != nil {
		return err
	}
	for _, what := range []string{
		"after Restore the answer differs",
		"after Restore from a snapshot of a restored state the answer differs",
	} {
		frozen, err := freeze(origin)
		if err != nil {
			return err
		}
		if _, err := apply(origin, commands, half, 1); err != nil {
			return err
		}
		snapshot, err := write(frozen)
		if err != nil {
			return err
		}
		if err := checkAnswers(newFSM, commands, want, snapshot, half, what); err != nil {
			return err
		}
		origin = newFSM()
		if err := restore(origin, snapshot, lastOf(half)); err != nil {
			return err
		}
	}
	return nil
}

// checkAnswers restores a snapshot into a state machine that has applied all commands. The snapshot was taken after this many
// commands. Then checkAnswers compares the answers to the remaining commands.
func checkAnswers(newFSM func() raft.FSM, commands, want [][]byte, snapshot []byte, after int, what string) error {
	restored := newFSM()
	if _, err := apply(restored, commands, 0, 1); err != nil {
		return err
	}
	if err := restore(restored, snapshot, lastOf(after)); err != nil {
		return err
	}
	got, err := apply(restored, commands, after, 1)
	if err != nil {
		return err
	}
	return compare(want[after:], got, after, what)
}

// checkBeside freezes the state after half of the commands. It writes the frozen state while it applies the second half, and
// then restores what it wrote.
func checkBeside(newFSM func() raft.FSM, commands, want [][]byte) error {
	half := len(commands) / 2
	origin := newFSM()
	if _, err := apply(origin, commands[:half], 0, half); err != nil {
		return err
	}
	frozen, err := freeze(origin)
	if err != nil {
		return err
	}
	var snapshot []byte
	done := make(chan error, 1)
	go func() {
		var err error
		snapshot, err = write(frozen)
		done <- err
	}()
	got, err := apply(origin, commands, half, 1)
	if err := errors.Join(<-done, err); err != nil {
		return err
	}
	if err := compare(want[half:], got, half, "while a snapshot is written the answer differs"); err != nil {
		return err
	}
	return checkAnswers(newFSM, commands, want, snapshot, half, "after Restore of a snapshot that was written during Apply the answer differs")
}

var errBroken = errors.New("rafttest: broken on purpose")

// brokenWriter fails.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

// checkErrors writes a snapshot to a writer that fails, and restores it from a reader that fails half way. If the snapshot
// has no bytes, checkErrors uses neither.
func checkErrors(newFSM func() raft.FSM, commands, _ [][]byte) error {
	fsm := newFSM()
	if _, err := apply(fsm, commands, 0, 1); err != nil {
		return err
	}
	frozen, err := freeze(fsm)
	if err != nil {
		return err
	}
	snapshot, err := write(frozen)
	if err != nil || len(snapshot) == 0 {
		return err
	}
	if frozen, err = freeze(fsm); err != nil {
		return err
	}
	if err := errors.Join(frozen.WriteTo(context.Background(), brokenWriter{}), frozen.Close()); err == nil {
		return errors.New("WriteTo returned nil although the writer had failed")
	}
	r := io.MultiReader(bytes.NewReader(snapshot[:len(snapshot)/2]), iotest.ErrReader(errBroken))
	if err := newFSM().Restore(context.Background(), raft.EntryID{Term: 1, Index: lastOf(len(commands))}, r); err == nil {
		return errors.New("Restore returned nil although the reader had failed")
	}
	return nil
}

// checkCancel cancels the context before WriteTo begins to write a snapshot.
func checkCancel(newFSM func() raft.FSM, commands, want [][]byte) error {
	half := len(commands) / 2
	fsm := newFSM()
	if _, err := apply(fsm, commands[:half], 0, 1); err != nil {
		return err
	}
	frozen, err := freeze(fsm)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := frozen.WriteTo(ctx, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("WriteTo with a cancelled context returned %v, not the context's error", err)
	}
	if err := frozen.Close(); err != nil {
		return fmt.Errorf("Close after a cancelled WriteTo failed: %w", err)
	}
	got, err := apply(fsm, commands, half, 1)
	if err != nil {
		return err
	}
	return compare(want[half:], got, half, "after a cancelled snapshot the answer differs")
}
