package storagetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/coxswain/raft"
)

const (
	besideReaders   = 4
	besideWrites    = 200
	besideFromIndex = 10 // entries up to this index are never dropped
)

// checkBeside drops the end of the log and writes it again, many times and each time in a new term. Meanwhile several
// goroutines read. If a read mixes two of these writes, it returns entries of two terms above besideFromIndex.
func checkBeside(o *opened) error {
	after := raft.EntryID{Index: besideFromIndex}
	err := o.write(appendAfter(raft.EntryID{}, 0, besideFromIndex), appendAfter(after, 1, 20))
	if err != nil {
		return err
	}
	done := make(chan struct{})
	failures := make(chan error, besideReaders)
	var readers sync.WaitGroup
	for range besideReaders {
		readers.Go(func() { failures <- readUntil(done, o) })
	}
	for term := raft.Term(2); term < 2+besideWrites && err == nil; term++ {
		err = o.write(appendAfter(after, term, 20))
	}
	close(done)
	readers.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	return err
}

// readUntil reads at least once, and repeats that until done is closed.
func readUntil(done <-chan struct{}, o *opened) error {
	for {
		got, err := o.Entries(raft.Span{After: besideFromIndex - 2, Last: besideFromIndex + 20}, 1<<20)
		if err != nil {
			return err
		}
		if len(got) != 22 {
			return fmt.Errorf("%d entries, not 22", len(got))
		}
		written := got[2].Term
		for k, e := range got {
			want := entry(besideFromIndex-1+raft.Index(k), written)
			if k < 2 {
				want = entry(want.Index, 0)
			}
			if err := same([]raft.Entry{e}, []raft.Entry{want}); err != nil {
				return fmt.Errorf("a read that mixes two writes: %w", err)
			}
		}
		select {
		case <-done:
			return nil
		default:
		}
	}
}
