package boltfsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/session"
	bolt "go.etcd.io/bbolt"
)

// Apply applies one command in the transaction of its batch, and returns the answer. It must be deterministic: it may read only
// the transaction and the entry, whose Time is the clock of all members. It may give the entry's bytes to Put, but does not change
// them, may answer with bytes of the transaction, and leaves the bucket Reserved alone. An error ends the member, and nothing of the batch is stored; put the application's
// own failures into the answer.
type Apply func(tx *bolt.Tx, entry raft.Entry) (answer []byte, err error)

// Reserved is the name of the bucket with the last applied entry and the sessions.
const Reserved = "coxswain"

// In the bucket Reserved:
var (
	appliedKey  = []byte("applied") // index and term of the last entry, big endian
	sessionsKey = []byte("sessions")
)

// FSM is a raft.DurableFSM in a bbolt file. Give it to session.Wrap, or to node.Start or member.Start if the program uses no
// sessions. Its methods but View and Close are called by the node.
type FSM struct {
	db       *bolt.DB
	apply    Apply
	restored raft.EntryID // by a Restore that Sync has not confirmed yet
}

var _ session.Durable = (*FSM)(nil)

// mappedBytes is the size of the part of the file that is mapped at once. A larger file is mapped anew as it grows, and for that
// bbolt waits until no transaction reads. So Apply then waits while a snapshot is streamed to a follower.
const mappedBytes = 1 << 30

// Open opens or creates the file at path, for one process at a time. With options nil, it waits a second for another process
// that has the file open. NoSync in options loses the promise of raft.DurableFSM if the machine crashes.
func Open(path string, apply Apply, options *bolt.Options) (*FSM, error) {
	if apply == nil {
		return nil, errors.New("raft: boltfsm.Open needs a function that applies a command; it is nil")
	}
	if options == nil {
		options = &bolt.Options{Timeout: time.Second, InitialMmapSize: mappedBytes}
		if runtime.GOOS == "windows" { // there, the file would be as large as its map
			options.InitialMmapSize = 0
		}
	}
	db, err := bolt.Open(path, 0o600, options)
	if err != nil {
		return nil, fmt.Errorf("raft: open %s: %w", path, err)
	}
	if err := db.Update(begin); err != nil {
		return nil, errors.Join(fmt.Errorf("raft: open %s: %w", path, err), db.Close())
	}
	return &FSM{db: db, apply: apply}, nil
}

// begin prepares the file. A state without its last entry comes from a Restore that a crash has cut off from its Sync. It counts
// as empty, so that the node restores it again. A file of another program, such as the member's own store, stays as it is.
func begin(tx *bolt.Tx) error {
	own := tx.Bucket([]byte(Reserved))
	if first, _ := tx.Cursor().First(); own == nil && first != nil {
		return fmt.Errorf("it is the file of another program: it has no bucket %q; choose another path", Reserved)
	}
	if own != nil && own.Get(appliedKey) != nil {
		return nil
	}
	return empty(tx)
}

// empty deletes everything.
func empty(tx *bolt.Tx) error {
	var names [][]byte
	if err := tx.ForEach(func(name []byte, _ *bolt.Bucket) error { names = append(names, name); return nil }); err != nil {
		return err
	}
	for _, name := range names {
		if err := tx.DeleteBucket(name); err != nil {
			return err
		}
	}
	own, err := tx.CreateBucket([]byte(Reserved))
	if err != nil {
		return err
	}
	_, err = own.CreateBucket(sessionsKey)
	return err
}

// View calls f with a transaction that reads the state between two batches. Any goroutine may call it, also beside the node's
// calls. For a linearizable read, call ReadIndex first; no Read of the node is needed.
func (f *FSM) View(read func(tx *bolt.Tx) error) error { return f.db.View(read) }

// Close closes the file. Call it once the node has ended. It waits for functions of View.
func (f *FSM) Close() error { return f.db.Close() }

// Apply implements raft.FSM, for a program without sessions.
func (f *FSM) Apply(batch []raft.Entry, results [][]byte) error {
	return f.ApplyWith(batch, results, batch[len(batch)-1].ID(), func() []session.Change { return nil })
}

// ApplyWith implements session.Durable: one transaction has the state, the sessions and the last entry in it.
func (f *FSM) ApplyWith(batch []raft.Entry, results [][]byte, last raft.EntryID, changes func() []session.Change) error {
	err := f.db.Update(func(tx *bolt.Tx) error {
		for i, entry := range batch {
			answer, err := f.apply(tx, entry)
			if err != nil {
				return err
			}
			results[i] = bytes.Clone(answer) // it may be bytes of the file, which change after the transaction
		}
		return errors.Join(store(tx, changes()), setApplied(tx, last))
	})
	if err == nil {
		f.restored = raft.EntryID{}
	}
	return err
}

func store(tx *bolt.Tx, changes []session.Change) error {
	sessions := tx.Bucket([]byte(Reserved)).Bucket(sessionsKey)
	for _, c := range changes {
		put := func() error { return sessions.Put(c.Key, c.Value) }
		if c.Value == nil {
			put = func() error { return sessions.Delete(c.Key) }
		}
		if err := put(); err != nil {
			return err
		}
	}
	return nil
}

// Sessions implements session.Durable.
func (f *FSM) Sessions(load func(key, value []byte) error) error {
	return f.db.View(func(tx *bolt.Tx) error { return tx.Bucket([]byte(Reserved)).Bucket(sessionsKey).ForEach(load) })
}

func setApplied(tx *bolt.Tx, id raft.EntryID) error {
	value := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(id.Index)), uint64(id.Term))
	return tx.Bucket([]byte(Reserved)).Put(appliedKey, value)
}

// Applied implements raft.DurableFSM.
func (f *FSM) Applied() (id raft.EntryID, err error) {
	return id, f.db.View(func(tx *bolt.Tx) error {
		switch value := tx.Bucket([]byte(Reserved)).Get(appliedKey); {
		case f.restored.Index > 0:
			id = f.restored
		case len(value) == 16:
			id = raft.EntryID{Index: raft.Index(binary.BigEndian.Uint64(value)), Term: raft.Term(binary.BigEndian.Uint64(value[8:]))}
		case value != nil:
			return fmt.Errorf("raft: %s: the last applied entry has %d bytes; the file was not written by this package", f.db.Path(), len(value))
		}
		return nil
	})
}

// Sync implements raft.DurableFSM. Each transaction is durable already. Only here, a restored state gets its entry.
func (f *FSM) Sync() error {
	if f.restored.Index == 0 {
		return nil
	}
	err := f.db.Update(func(tx *bolt.Tx) error { return setApplied(tx, f.restored) })
	if err == nil {
		f.restored = raft.EntryID{}
	}
	return err
}
