package segments_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/segments"
)

// Readers read the log from its beginning. Meanwhile the test prunes and reuses segments, and drops the end of the log and
// writes it again. Each reader gets entries that belong to one state of the log, or an error that says that the entries are
// not stored.
func TestEntries_BesideEverythingElse(t *testing.T) {
	h := newHome(newTree().FS())
	l := opened(t, h)
	m := model{}
	done := make(chan struct{})
	failures := make(chan error, 3)
	var readers sync.WaitGroup
	for range cap(failures) {
		readers.Go(func() { failures <- readOver(done, l) })
	}
	for k := range 300 {
		term := raft.Term(k + 1)
		after := m.last()
		if n := len(m.entries); k%3 == 0 && n > 10 {
			after = m.entries[n-10].ID()
		}
		all := entries(after, term, 12)
		require.NoError(t, l.Append(after, all, 0))
		m.append(after, all)
		if n := len(m.entries) - 60; n > 0 {
			base := m.entries[n-1].ID()
			h.compact(l, base)
			m.compact(base)
		}
		_, err := l.Prune()
		require.NoError(t, err)
		require.NoError(t, l.Prepare(0))
	}
	close(done)
	readers.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	m.check(t, l)
	require.NoError(t, l.Close())
}

// readOver reads at least once, and repeats that until done is closed.
func readOver(done <-chan struct{}, l *segments.Log) error {
	for {
		span := raft.Span{After: l.Start().Index, Last: l.Last().Index}
		for span.After < span.Last {
			got, err := l.Entries(span, 700)
			if errors.Is(err, raft.ErrNotStored) {
				break
			}
			if err == nil {
				err = oneLog(got, span)
			}
			if err != nil {
				return err
			}
			span.After = got[len(got)-1].Index
		}
		select {
		case <-done:
			return nil
		default:
		}
	}
}

// oneLog checks that the entries may belong to one state of the log.
func oneLog(got []raft.Entry, span raft.Span) error {
	for k, e := range got {
		want := entry(span.After+1+raft.Index(k), e.Term, len(e.Data))
		if string(want.Record()) != string(e.Record()) || k > 0 && e.Term < got[k-1].Term {
			return fmt.Errorf("entry %v in place %d after entry %d", e.ID(), k, span.After)
		}
	}
	return nil
}

// gated is a file system with a gate: a reader waits before it reads the file with the given name.
type gated struct {
	files.FS
	name    string
	entered chan struct{}
	leave   chan struct{}
}

type gatedFile struct {
	files.File
	gate *gated
}

func (g *gated) OpenWrite(name string) (files.File, error) {
	f, err := g.FS.OpenWrite(name)
	if err == nil && name == g.name {
		f = gatedFile{f, g}
	}
	return f, err
}

func (f gatedFile) ReadAt(p []byte, offset int64) (int, error) {
	f.gate.entered <- struct{}{}
	<-f.gate.leave
	return f.File.ReadAt(p, offset)
}

// readWhile reads the whole log. When the reader reaches the second segment, readWhile calls do.
func readWhile(t *testing.T, do func(h *home, l *segments.Log, m *model)) ([]raft.Entry, *model, error) {
	gate := &gated{FS: newTree().FS(), name: dir + "/0000000000000002.seg", entered: make(chan struct{}, 9), leave: make(chan struct{})}
	h := newHome(gate)
	l := opened(t, h)
	m := &model{}
	for range 5 {
		all := entries(m.last(), 1, 10)
		require.NoError(t, l.Append(m.last(), all, 0))
		m.append(m.last(), all)
	}
	var got []raft.Entry
	var err error
	var reader sync.WaitGroup
	span := raft.Span{After: 0, Last: m.last().Index}
	reader.Go(func() { got, err = l.Entries(span, 1<<20) })
	<-gate.entered
	do(h, l, m)
	close(gate.leave)
	reader.Wait()
	return got, m, err
}

func TestEntries_OfASegmentThatIsPrunedMeanwhile(t *testing.T) {
	before := entries(raft.EntryID{}, 1, 50)
	got, _, err := readWhile(t, func(h *home, l *segments.Log, m *model) {
		h.compact(l, m.last())
		for range 4 {
			_, err := l.Prune()
			require.NoError(t, err)
		}
		for range 9 { // reuses the files of the pruned segments
			all := entries(m.last(), 2, 10)
			require.NoError(t, l.Append(m.last(), all, 0))
			m.append(m.last(), all)
		}
	})
	if !errors.Is(err, raft.ErrNotStored) {
		require.NoError(t, errors.Join(err, same(got, before)))
	}
}

func TestEntries_OfALogThatIsTruncatedMeanwhile(t *testing.T) {
	got, m, err := readWhile(t, func(_ *home, l *segments.Log, m *model) {
		after := m.entries[4].ID()
		all := entries(after, 2, 45)
		require.NoError(t, l.Append(after, all, 0))
		m.append(after, all)
	})
	require.NoError(t, errors.Join(err, same(got, m.entries)))
}

// A read may end anywhere: in a record, in the head of a batch, or in the zeros between two batches.
func TestEntries_AReadEndsBetweenTwoBatches(t *testing.T) {
	s := newScript(newTree().FS())
	s.sizes.FirstBytes, s.sizes.SegmentBytes = 1<<18, 1<<18
	require.NoError(t, starts()(s))
	for range 100 {
		require.NoError(t, appends(0, 1, 1)(s))
	}
	last := s.log.Last().Index
	for bytesMax := 1; bytesMax < 5000; bytesMax++ {
		entries, err := s.log.Entries(raft.Span{Last: last}, bytesMax)
		require.NoError(t, err, "%d bytes", bytesMax)
		require.NoError(t, same(entries, s.acked.entries[:len(entries)]))
	}
}
