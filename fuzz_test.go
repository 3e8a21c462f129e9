package raft_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/coxswain/raft"
)

// FuzzCoreStep drives a member with anything that its peers and its node may send, well-formed or not, in any
// order. The member must not panic, and its term and commit index must never fall.
func FuzzCoreStep(f *testing.F) {
	for state := range byte(16) {
		f.Add([]byte{state, 0, 1, 5, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	}
	f.Add([]byte{4, 10, 5, 1, 2, 3, 3, 9, 18, 1, 10, 6, 2, 1, 0, 4, 5, 18, 2, 14, 5, 3, 3, 1})
	f.Add([]byte{9, 20, 3, 11, 5, 1, 5, 0, 18, 9, 21, 22, 13, 5, 1, 4, 23, 24, 19, 200, 19, 200})
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &fuzzInput{data: data}
		all := states(t)
		names := slices.Sorted(maps.Keys(all))
		c := all[names[in.small(len(names))]]()
		for n := 0; len(in.data) > 0 && n < 200; n++ {
			before := c.Status()
			events := []raft.Event{in.event(c)}
			if in.small(4) == 0 {
				events = append(events, in.message(c))
			}
			c.step(events...)
			after := c.Status()
			if after.Term < before.Term || after.Commit < before.Commit || after.Persisted > after.Last.Index {
				t.Fatalf("%+v became %+v", before, after)
			}
		}
	})
}

// fuzzInput turns bytes into events.
type fuzzInput struct{ data []byte }

func (in *fuzzInput) byte() byte {
	if len(in.data) == 0 {
		return 0
	}
	b := in.data[0]
	in.data = in.data[1:]
	return b
}

func (in *fuzzInput) small(n int) int { return int(in.byte()) % n }

// near returns a number close to n, or a very large one.
func (in *fuzzInput) near(n uint64) uint64 {
	switch b := in.byte(); {
	case b < 240:
		return max(n+uint64(b%7), 3) - 3
	case b < 250:
		return uint64(b % 5)
	default:
		return math.MaxUint64 - uint64(b-250)
	}
}

func (in *fuzzInput) term(c *core) raft.Term { return raft.Term(in.near(uint64(c.Leadership().Term))) }

func (in *fuzzInput) index(c *core) raft.Index {
	return raft.Index(in.near(uint64(c.Status().Last.Index)))
}

func (in *fuzzInput) id(c *core) raft.EntryID { return id(in.index(c), in.term(c)) }

func (in *fuzzInput) request(c *core) raft.RPCID {
	return []raft.RPCID{c.beat, c.round, {StartCount: 3, Counter: in.near(3)}}[in.small(3)]
}

func (in *fuzzInput) peer() raft.Peer {
	return []raft.Peer{peer("b"), peer("c"), peer("B"), {ID: "b", Incarnation: 7}}[in.small(4)]
}

func (in *fuzzInput) event(c *core) raft.Event {
	switch in.small(15) {
	case 12:
		return raft.SnapshotArrived{From: in.peer(), Snapshot: offered(id(9, 4), 1)}
	case 13:
		return raft.SnapshotSent{To: in.peer(), File: fileOf(1), Err: []error{nil, raft.StreamFailed}[in.small(2)]}
	case 14:
		return []raft.Event{raft.SnapshotRequested{RequestID: 9}, raft.SnapshotTaken{Take: c.Status().Taking, Err: raft.StreamFailed}}[in.small(2)]
	case 0:
		return raft.Persisted{Seq: c.seq}
	case 1:
		return raft.Applied{ID: id(0, 0)}
	case 2:
		return raft.Proposed{Proposals: []raft.Proposal{
			{RequestID: 1, Kind: raft.EntryCommand, Data: make([]byte, 4*in.small(256))}, {RequestID: 2, Kind: raft.EntryNoop},
		}}
	case 3:
		return []raft.Event{raft.ReadRequested{RequestID: 3}, raft.TransferRequested{RequestID: 4, To: in.peer().ID}}[in.small(2)]
	case 4:
		p := in.peer()
		return []raft.Event{raft.PeerUp{ID: p.ID, Incarnation: p.Incarnation, AppendBytesMax: 4 * in.small(64)}, raft.PeerLost{Peer: p}}[in.small(2)]
	case 5:
		e := raft.SendDropped{To: in.peer(), Span: raft.Span{After: in.index(c), Last: in.index(c)}}
		if in.small(2) == 0 {
			e.Oversized, e.OversizedBytes = id(e.Span.After+1, in.term(c)), in.small(256)
		}
		return e
	case 6:
		c.now += raft.Time(in.byte()) * ms
	}
	return in.message(c)
}

func (in *fuzzInput) message(c *core) raft.Event {
	m := raft.Message{From: in.peer(), To: peer("a"), Cluster: c.Status().Cluster, Term: in.term(c)}
	m.Body = in.body(c)
	return raft.Received{Message: m}
}

func (in *fuzzInput) body(c *core) raft.Body {
	switch in.small(14) {
	case 0:
		return raft.PreVoteRequest{ID: in.request(c), Last: in.id(c)}
	case 1:
		return raft.PreVoteReply{ID: in.request(c), Granted: in.small(3) > 0, Leader: in.peer().ID}
	case 2:
		return raft.VoteRequest{Last: in.id(c), Transfer: in.small(2) == 0}
	case 3:
		return raft.VoteReply{Granted: in.small(3) > 0}
	case 4, 5:
		return in.append(c)
	case 6:
		return raft.AppendReply{Match: in.index(c)}
	case 7:
		return raft.AppendConflict{Prev: in.index(c), Hint: in.id(c)}
	case 8:
		return raft.Heartbeat{Round: in.request(c), Commit: in.index(c)}
	case 9:
		return raft.HeartbeatReply{Round: in.request(c), Match: in.index(c)}
	case 10:
		return raft.ReadRequest{ID: in.request(c)}
	case 11:
		return raft.ReadReply{ID: in.request(c), OK: in.small(2) == 0, Index: in.index(c)}
	case 12:
		return raft.TimeoutNow{}
	case 13:
		return raft.SteppedDown{}
	}
	all := someBodies()
	return all[in.small(len(all))]
}

// append returns an append that is usually well-formed.
func (in *fuzzInput) append(c *core) raft.Body {
	r := raft.AppendRequest{Prev: in.id(c), Commit: in.index(c)}
	if in.small(2) == 0 {
		r.Prev = c.Status().Last
	}
	for range in.small(4) {
		r.Entries = append(r.Entries, entries(r.Prev.Index+1+raft.Index(len(r.Entries)), in.term(c))...)
	}
	r.Last = r.Prev
	if n := len(r.Entries); n > 0 && in.small(8) > 0 {
		r.Last = r.Entries[n-1].ID()
	}
	return r
}
