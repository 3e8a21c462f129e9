//go:build !nopeers

package main

import (
	"context"
	"slices"
	"sync"
)

// etcdReads are the reads of a member that wait. As in etcd's server, one request for an index stands for all reads that wait
// when it is made, and the next request is made when that one is confirmed.
type etcdReads struct {
	mu        sync.Mutex
	waiting   []chan error // for the next request
	asked     []chan error // for the answer to the last one
	confirmed []chan error // until the index is applied
	index     uint64
}

// readRequest is the context of every request, since no two are under way.
var readRequest = []byte("read")

// Reader is for the leader, whose Member.Leases decides how the library confirms reads.
func (e *etcdReplica) Reader(context.Context, reading) (func(context.Context) error, error) {
	return e.read, nil
}

func (e *etcdReplica) read(ctx context.Context) error {
	if !e.leads.Load() {
		return errNotLeader
	}
	answer := make(chan error, 1)
	e.reads.mu.Lock()
	e.reads.waiting = append(e.reads.waiting, answer)
	e.reads.mu.Unlock()
	e.mailbox.wake()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// askForReads makes the next request, in the loop.
func (e *etcdReplica) askForReads() {
	r := &e.reads
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.asked)+len(r.confirmed) == 0 && len(r.waiting) > 0 {
		r.asked, r.waiting = r.waiting, nil
		e.raw.ReadIndex(readRequest)
	}
}

// confirm answers the reads of the last request, once the member has applied so much.
func (r *etcdReads) confirm(index, applied uint64) {
	r.mu.Lock()
	r.confirmed, r.asked, r.index = r.asked, nil, index // a late answer, to reads that have failed, has none
	r.mu.Unlock()
	r.answer(applied)
}

// answer answers the reads that are confirmed, if their index is applied. It reports whether the loop may ask for others.
func (r *etcdReads) answer(applied uint64) (next bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.confirmed) == 0 || applied < r.index {
		return false
	}
	answerAll(r.confirmed, nil)
	r.confirmed = nil
	return len(r.waiting) > 0
}

func answerAll(reads []chan error, err error) {
	for _, answer := range reads {
		answer <- err
	}
}

func (r *etcdReads) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answerAll(slices.Concat(r.waiting, r.asked, r.confirmed), err)
	r.waiting, r.asked, r.confirmed = nil, nil, nil
}
