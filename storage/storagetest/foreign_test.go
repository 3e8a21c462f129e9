package storagetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage/storagetest"
)

// shelf is a store that another module might contain. It keeps records in memory, and uses only the package raft.
type shelf struct {
	*shelved
	loaded, closed bool
}

// shelved is the data that successive shelves share.
type shelved struct {
	mu       sync.Mutex
	identity raft.Identity
	stored   raft.Stored // everything but the log
	records  [][]byte
}

func (s *shelf) usable() error {
	if !s.loaded || s.closed {
		return errors.New("not loaded, or closed")
	}
	return nil
}

func (s *shelf) Load(ctx context.Context, i raft.Identity) (raft.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil || s.loaded || s.closed {
		return raft.Stored{}, errors.Join(err, errors.New("loaded once, or closed"))
	}
	if s.identity == (raft.Identity{}) {
		s.identity, s.stored.Incarnation = i, i.Fresh
	}
	if s.identity.Cluster != i.Cluster {
		return raft.Stored{}, &raft.IdentityError{What: "cluster", Stored: s.identity.Cluster, Given: i.Cluster}
	}
	if s.identity.ID != i.ID {
		return raft.Stored{}, &raft.IdentityError{What: "member id", Stored: string(s.identity.ID), Given: string(i.ID)}
	}
	entries, err := s.entries()
	if err != nil {
		return raft.Stored{}, err
	}
	var log raft.StoredLog
	for _, e := range entries {
		if err := log.Observe(e); err != nil {
			return raft.Stored{}, err
		}
	}
	s.stored.StartCount++
	s.stored.Lineage = s.stored.Lineage.Begin(i.Nonce)
	s.loaded = true
	stored := s.stored
	stored.Lineage, stored.Log, stored.Commit = slices.Clone(stored.Lineage), log, min(stored.Commit, log.Last.Index)
	return stored, nil
}

func (s *shelved) entries() ([]raft.Entry, error) {
	var list []raft.Entry
	for _, record := range s.records {
		e, err := raft.DecodeEntry(record)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

func (s *shelf) Write(w raft.StorageWrite) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if w.Log != nil {
		if err := s.writeLog(w.Log); err != nil {
			return err
		}
	}
	if s.stored.Mark == nil {
		s.stored.Mark = w.Mark
	}
	if w.Memory != nil {
		s.stored.Memory = *w.Memory
	}
	if w.Hard != nil {
		s.stored.Hard = *w.Hard
	}
	s.stored.Commit = max(s.stored.Commit, w.Commit)
	return nil
}

func (s *shelf) writeLog(w *raft.LogWrite) error {
	entries, err := s.entries()
	if err != nil {
		return err
	}
	keep := slices.IndexFunc(entries, func(e raft.Entry) bool { return e.ID() == w.After }) + 1
	if w.Reset {
		return errors.New("no core resets the log of a store that keeps no snapshots")
	}
	if keep == 0 && w.After != (raft.EntryID{}) {
		var last raft.EntryID
		if n := len(entries); n > 0 {
			last = entries[n-1].ID()
		}
		return &raft.NotInLogError{After: w.After, Last: last}
	}
	records, last := slices.Clone(s.records[:keep]), w.After
	for _, e := range w.Entries {
		if e.Index != last.Index+1 || e.Term < last.Term {
			return fmt.Errorf("entry %v cannot follow entry %v", e.ID(), last)
		}
		records, last = append(records, e.Record()), e.ID()
	}
	s.records = records
	return nil
}

func (s *shelf) Entries(span raft.Span, bytesMax int) ([]raft.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	if span.Last <= span.After || span.Last > raft.Index(len(s.records)) {
		return nil, fmt.Errorf("%w: (%d, %d]", raft.ErrNotStored, span.After, span.Last)
	}
	var list []raft.Entry
	for _, record := range s.records[span.After:span.Last] {
		if bytesMax -= len(record); bytesMax < 0 && len(list) > 0 {
			break
		}
		e, err := raft.DecodeEntry(record)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

func (s *shelf) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// The suite needs only the interface of a store, and nothing of package storage.
func TestForeignStore_KeepsTheContract(t *testing.T) {
	storagetest.Run(t, storagetest.Harness{New: func(testing.TB) storagetest.Place {
		kept := &shelved{}
		return storagetest.Place{Open: func() (raft.Storage, error) { return &shelf{shelved: kept}, nil }}
	}})
}
