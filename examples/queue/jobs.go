package main

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/coxswain/raft"
	bolt "go.etcd.io/bbolt"
)

// command is what programs propose. One of its fields is set.
type command struct {
	Enqueue []byte        `json:",omitempty"` // a job's payload; the answer has its ID
	Lease   time.Duration `json:",omitempty"` // take the oldest free job for so long; an answer without an ID: there is none
	Done    *job          `json:",omitempty"` // as leased; an answer without an ID: it was leased to somebody else, or is done
}

// job is a job in the store, and the answer to each command. ID is the index of the entry that enqueued it, and Lease that of
// the entry that leased it last: who holds an earlier lease cannot end the job any more.
type job struct {
	ID, Lease raft.Index
	Until     int64 // when the lease ends, by the stamps of entries: all members agree on it, whatever their clocks say
	Payload   []byte
}

// apply applies one command: the whole state machine.
func apply(tx *bolt.Tx, entry raft.Entry) ([]byte, error) {
	jobs, err := tx.CreateBucketIfNotExists([]byte("jobs"))
	if err != nil {
		return nil, err
	}
	var c command
	if json.Unmarshal(entry.Data, &c) != nil {
		return encode(job{}), nil // on every member
	}
	switch {
	case c.Lease > 0:
		cursor := jobs.Cursor()
		for k, v := cursor.First(); k != nil; k, v = cursor.Next() {
			if free := decode(v); free.Until <= entry.Time {
				free.Lease, free.Until = entry.Index, entry.Time+int64(c.Lease)
				return encode(free), jobs.Put(k, encode(free))
			}
		}
		return encode(job{}), nil
	case c.Done != nil:
		leased := decode(jobs.Get(key(c.Done.ID)))
		if leased.ID == 0 || leased.Lease != c.Done.Lease {
			return encode(job{}), nil
		}
		return encode(leased), jobs.Delete(key(leased.ID))
	}
	added := job{ID: entry.Index, Payload: c.Enqueue}
	return encode(added), jobs.Put(key(added.ID), encode(added))
}

func key(id raft.Index) []byte { return binary.BigEndian.AppendUint64(nil, uint64(id)) } // the oldest job comes first

func encode(j job) []byte {
	text, _ := json.Marshal(j) // of numbers and bytes, which cannot fail
	return text
}

func decode(text []byte) (j job) {
	_ = json.Unmarshal(text, &j) // of nothing: job 0
	return j
}
