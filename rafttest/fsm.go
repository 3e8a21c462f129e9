package rafttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/coxswain/raft"
)

// CheckFSM tests a state machine against the contract of raft.FSM. newFSM returns an empty one, and is called
// at least five times. commands are the commands to apply, the more kinds the better. It checks that
//
//   - the same commands give the same answers, however they are cut into batches;
//   - the state machine keeps no reference to an entry's bytes after Apply has returned;
//   - later calls of Apply do not change what Snapshot froze, while WriteTo runs beside them;
//   - a restored state machine answers like the one that took the snapshot, whatever it held before;
//   - WriteTo returns the context's error when the context is cancelled, and leaves the state alone.
//
// It compares two states by their answers, so the commands should include reads.
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
		if err := compare(want, got, 0, fmt.Sprintf("in batches of %d the answer differs from one at a time", size)); err != nil {
			return err
		}
	}
	if err := checkSnapshot(newFSM, commands, want); err != nil {
		return err
	}
	return checkCancel(newFSM, commands, want)
}

// apply applies the commands in batches of size, and overwrites their bytes after each batch.
func apply(fsm raft.FSM, commands [][]byte, from, size int) ([][]byte, error) {
	var answers [][]byte
	for at := from; at < len(commands); at += size {
		var batch []raft.Entry
		for i := at; i < min(at+size, len(commands)); i++ {
			// Indexes have gaps: other kinds of entries stand between.
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

// checkSnapshot freezes the state after half of the commands, writes it while the second half is applied, and
// restores it over a state that has applied all commands.
func checkSnapshot(newFSM func() raft.FSM, commands, want [][]byte) error {
	half := len(commands) / 2
	origin := newFSM()
	if _, err := apply(origin, commands[:half], 0, half); err != nil {
		return err
	}
	frozen, err := origin.Snapshot()
	if err != nil {
		return fmt.Errorf("FSM.Snapshot failed: %w", err)
	}
	var written bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- frozen.WriteTo(context.Background(), &written) }()
	got, err := apply(origin, commands, half, 1)
	if werr := errors.Join(<-done, frozen.Close()); werr != nil {
		return fmt.Errorf("writing the snapshot failed: %w", werr)
	}
	if err != nil {
		return err
	}
	if err := compare(want[half:], got, half, "beside the writing of a snapshot the answer differs"); err != nil {
		return err
	}
	restored := newFSM()
	if _, err := apply(restored, commands, 0, 1); err != nil {
		return err
	}
	id := raft.EntryID{Term: 1, Index: raft.Index(2 * half)}
	if err := restored.Restore(context.Background(), id, bytes.NewReader(written.Bytes())); err != nil {
		return fmt.Errorf("Restore failed: %w", err)
	}
	if got, err = apply(restored, commands, half, 1); err != nil {
		return err
	}
	return compare(want[half:], got, half, "after Restore the answer differs")
}

// checkCancel cancels the writing of a snapshot before it begins.
func checkCancel(newFSM func() raft.FSM, commands, want [][]byte) error {
	half := len(commands) / 2
	fsm := newFSM()
	if _, err := apply(fsm, commands[:half], 0, 1); err != nil {
		return err
	}
	frozen, err := fsm.Snapshot()
	if err != nil {
		return fmt.Errorf("FSM.Snapshot failed: %w", err)
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
