package boltfsm

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/session"
	bolt "go.etcd.io/bbolt"
)

// A snapshot is a sequence of steps that make the state again, as encoding/gob writes them. So it depends neither on bbolt's
// format nor on its page size. It has no sessions: session.Wrap puts them in front of it.

type stepKind uint8

const (
	stepBucket stepKind = 1 // the following steps are within this bucket
	stepValue  stepKind = 2
	stepLeave  stepKind = 3 // the bucket has ended
	stepEnd    stepKind = 4
)

type step struct {
	Kind       stepKind
	Key, Value []byte
	Sequence   uint64 // of the bucket
}

// bucket is what *bolt.Tx and *bolt.Bucket have in common.
type bucket interface {
	CreateBucket(name []byte) (*bolt.Bucket, error)
}

// Snapshot implements raft.FSM: a transaction that reads sees nothing of later writes.
func (f *FSM) Snapshot() (raft.FSMSnapshot, error) {
	tx, err := f.db.Begin(false)
	if err != nil {
		return nil, err
	}
	return frozen{tx}, nil
}

type frozen struct{ tx *bolt.Tx }

// WriteTo implements raft.FSMSnapshot.
func (f frozen) WriteTo(ctx context.Context, w io.Writer) error {
	to := gob.NewEncoder(w)
	err := f.tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		if string(name) == Reserved {
			return nil
		}
		return writeBucket(ctx, to, name, b)
	})
	if err != nil {
		return err
	}
	return to.Encode(step{Kind: stepEnd})
}

func writeBucket(ctx context.Context, to *gob.Encoder, name []byte, b *bolt.Bucket) error {
	if err := to.Encode(step{Kind: stepBucket, Key: name, Sequence: b.Sequence()}); err != nil {
		return err
	}
	err := b.ForEach(func(k, v []byte) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if v == nil {
			return writeBucket(ctx, to, k, b.Bucket(k))
		}
		return to.Encode(step{Kind: stepValue, Key: k, Value: v})
	})
	if err != nil {
		return err
	}
	return errors.Join(ctx.Err(), to.Encode(step{Kind: stepLeave}))
}

// Close implements raft.FSMSnapshot.
func (f frozen) Close() error { return f.tx.Rollback() }

// Restore implements raft.FSM, for a program without sessions.
func (f *FSM) Restore(ctx context.Context, id raft.EntryID, r io.Reader) error {
	return f.RestoreWith(ctx, id, r, nil)
}

// RestoreWith implements session.Durable, in one transaction. The state is without its entry until Sync.
func (f *FSM) RestoreWith(ctx context.Context, id raft.EntryID, r io.Reader, sessions []session.Change) error {
	err := f.db.Update(func(tx *bolt.Tx) error {
		if err := empty(tx); err != nil {
			return err
		}
		if err := read(ctx, tx, gob.NewDecoder(r)); err != nil {
			return err
		}
		return store(tx, sessions)
	})
	if err == nil {
		f.restored = id
	}
	return err
}

// read takes the steps of a snapshot.
func read(ctx context.Context, tx *bolt.Tx, from *gob.Decoder) error {
	var within []*bolt.Bucket
	for {
		var s step
		if err := from.Decode(&s); err == io.EOF {
			return io.ErrUnexpectedEOF
		} else if err != nil {
			return err
		}
		err := ctx.Err()
		switch {
		case err != nil:
		case s.Kind == stepEnd && len(within) == 0:
			if err = from.Decode(&s); err == io.EOF {
				return nil
			}
			err = errors.Join(errors.New("raft: the snapshot of a bbolt file goes on behind its end"), err)
		case s.Kind == stepBucket:
			var parent bucket = tx
			if len(within) > 0 {
				parent = within[len(within)-1]
			}
			var b *bolt.Bucket
			if b, err = parent.CreateBucket(s.Key); err == nil {
				within, err = append(within, b), b.SetSequence(s.Sequence)
			}
		case s.Kind == stepValue && len(within) > 0:
			err = within[len(within)-1].Put(s.Key, s.Value)
		case s.Kind == stepLeave && len(within) > 0:
			within = within[:len(within)-1]
		default:
			err = fmt.Errorf("raft: the snapshot of a bbolt file has a step %d at depth %d: it was not written by this package", s.Kind, len(within))
		}
		if err != nil {
			return err
		}
	}
}
