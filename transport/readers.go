package transport

import (
	"context"
	"sync"
	"time"

	"github.com/coxswain/raft"
)

// readersWait bounds how long news of a peer's end waits for the connections from that peer to end. When a process is killed,
// all its connections end within a moment. If one stays open, the process lives. The bound is below election timeouts.
const readersWait = 100 * time.Millisecond

// readers counts, for each peer, the connections on which this member receives. A connection counts until its last message
// has been passed to Receive. The zero value is ready.
type readers struct {
	mu sync.Mutex
	of map[raft.Peer]*reading
}

type reading struct {
	count int           // 0 while news of the peer's end is told
	ended chan struct{} // closed when it is removed from readers.of
}

// enter counts a connection before it delivers anything. It waits while news of the peer's end is told.
func (r *readers) enter(p raft.Peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.of[p] != nil && r.of[p].count == 0 {
		told := r.of[p].ended
		r.mu.Unlock()
		<-told
		r.mu.Lock()
	}
	if r.of[p] == nil {
		r.add(p)
	}
	r.of[p].count++
}

// add is called with mu held.
func (r *readers) add(p raft.Peer) {
	if r.of == nil {
		r.of = map[raft.Peer]*reading{}
	}
	r.of[p] = &reading{ended: make(chan struct{})}
}

// remove is called with mu held.
func (r *readers) remove(p raft.Peer) {
	close(r.of[p].ended)
	delete(r.of, p)
}

// leave is the reverse of enter.
func (r *readers) leave(p raft.Peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[p].count--
	if r.of[p].count == 0 {
		r.remove(p)
	}
}

// whenNone calls tell once no connection from the peer is counted. It returns false without a call if that takes longer than
// readersWait, or if ctx ends.
func (r *readers) whenNone(ctx context.Context, p raft.Peer, tell func()) bool {
	ctx, cancel := context.WithTimeout(ctx, readersWait)
	defer cancel()
	for ctx.Err() == nil {
		of := r.tellIfNone(p, tell)
		if of == nil {
			return true
		}
		select {
		case <-of.ended:
		case <-ctx.Done():
		}
	}
	return false
}

// tellIfNone calls tell if no connection from the peer is counted. Otherwise it returns those that are.
func (r *readers) tellIfNone(p raft.Peer, tell func()) *reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	if of := r.of[p]; of != nil {
		return of
	}
	r.add(p)
	r.mu.Unlock()
	tell()
	r.mu.Lock()
	r.remove(p)
	return nil
}
