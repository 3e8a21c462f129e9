package transporttest

import (
	"bytes"

	"github.com/coxswain/raft"
)

// Messages returns messages of every type from one peer to another. Together they set every field.
func Messages(from, to raft.Peer) []raft.Message {
	id := raft.RPCID{StartCount: 3, Counter: 14}
	moment := raft.Moment{StartCount: 3, At: 1 << 50}
	last := raft.EntryID{Term: 6, Index: 21}
	list := raft.NewConfiguration([]raft.Member{
		{ID: "m1", Address: "localhost:1", Meta: "http://one", Incarnation: 11},
		{ID: "m2", Address: "localhost:2", Kind: raft.Learner},
		{ID: "m3", Address: "localhost:3", Priority: 7}, {ID: "m4", Address: "localhost:4", Priority: raft.PriorityNever},
	})
	open := raft.NewConfiguration([]raft.Member{{ID: "m1"}, {ID: "m2", Kind: raft.Learner}})
	bodies := []raft.Body{
		raft.BootstrapProbe{ID: id, List: list},
		raft.BootstrapProbeReply{
			ID: id, Result: raft.ProbeInitialized, List: list, Bootstrapper: raft.Peer{ID: "m1", Incarnation: 11},
		},
		raft.BootstrapProbeReply{ID: id, Result: raft.ProbeInitialized, List: open, HeardOf: raft.ClusterID{4, 15: 5}, HeardFrom: "m9"},
		raft.BootstrapRequest{Entry: Entry(raft.EntryID{Index: 1}, raft.EntryBootstrap, 100)},
		raft.BootstrapReply{ID: id},
		raft.PreVoteRequest{ID: id, Last: last, FSMHangs: true},
		raft.PreVoteReply{ID: id, Granted: true, Leader: "m2", LeaderIncarnation: 12},
		raft.VoteRequest{Last: last, Transfer: true},
		raft.VoteReply{Granted: true, Wall: -7},
		Append(last, []int{0, 1, 300, 70_000}, 19),
		raft.AppendRequest{Prev: last, Last: last, Commit: 20, Acknowledged: 18, Promise: raft.Promise{SentAt: 77_000_000, Duration: 100_000_000}},
		raft.AppendReply{Match: 20}, raft.AppendReply{Match: 20, Moment: moment, Promise: raft.Promise{SentAt: 77_000_000, Duration: 90_000_000}},
		raft.AppendConflict{Prev: 20, Hint: raft.EntryID{Term: 4, Index: 17}, Acknowledged: 16},
		raft.Heartbeat{Round: id, Commit: 20, Successors: []raft.Peer{{ID: "n2", Incarnation: 1 << 63}, {ID: "n3", Incarnation: 3}}, Span: 10_000_000, Promise: raft.Promise{SentAt: 78_000_000, Duration: 100_000_000}},
		raft.Heartbeat{Commit: 20, Fresh: raft.Freshness{Since: moment, Index: 21}},
		raft.HeartbeatReply{Round: id, Match: 20, Wall: 1 << 61, Applied: 19, Hindered: raft.HinderedNoRoom | raft.HinderedSuspected, Backoff: 10_000_000_000, AppVersion: 7, Moment: moment, Promise: raft.Promise{SentAt: 78_000_000, Duration: 100_000_000}},
		raft.ReadRequest{ID: id},
		raft.ReadReply{ID: id, OK: true, Index: 20}, raft.ReadReply{ID: id, Refusal: raft.RefusedNotLeader},
		raft.TimeoutNow{Named: true},
		raft.SteppedDown{},
	}
	bodies = append(append(bodies, snapshotBodies()...), forwardBodies()...)
	messages := make([]raft.Message, 0, len(bodies))
	for _, b := range bodies {
		m := raft.Message{From: from, To: to, Cluster: raft.ClusterID{1, 2, 3, 15: 16}, Term: 7, Body: b}
		messages = append(messages, m)
	}
	return messages
}

func snapshotBodies() []raft.Body {
	s := raft.Snapshot{
		Base: raft.Base{
			ID: raft.EntryID{Term: 6, Index: 19}, Time: 1_700_000_000_000_000_000, Cluster: raft.ClusterID{1, 2, 3, 15: 16},
			Bootstrapper: raft.Peer{ID: "m1", Incarnation: 11}, ConfigIndex: 1,
			Config: raft.NewConfiguration([]raft.Member{
				{ID: "m1", Address: "localhost:1", Meta: "http://one", Incarnation: 11},
				{ID: "m2", Address: "localhost:2", Kind: raft.Learner, Incarnation: 12},
			}),
		},
		File: raft.SnapshotID{7, 15: 8}, Size: 1 << 33, Sum: 1 << 31,
	}
	held := s
	held.Size, held.Sum, held.Held = -1, 0, true
	return []raft.Body{
		raft.InstallSnapshot{Snapshot: s, Acknowledged: 16},
		raft.InstallSnapshot{Snapshot: held},
		Chunk(0, 3),
		raft.SnapshotChunk{File: s.File, At: 1 << 32, Data: Chunk(0, 20_000).Data, Last: true, Size: s.Size, Sum: s.Sum},
		raft.SnapshotChunk{File: s.File, At: s.Size, Last: true, Size: s.Size, Sum: s.Sum},
		raft.SnapshotProgress{File: s.File, At: 1 << 32, Begin: true},
		raft.SnapshotProgress{File: s.File, Done: true},
		raft.SnapshotProgress{File: s.File, Refusal: raft.StreamNoSpace},
	}
}

func forwardBodies() []raft.Body {
	return []raft.Body{
		Request(14, 20_000),
		raft.Forward{StartCount: 3, Counter: 15, ToStart: 4, Kind: raft.ForwardChange},
		raft.ForwardReply{StartCount: 3, Counter: 14, Outcome: raft.ForwardApplied, Index: 22, EntryTerm: 6, Data: Chunk(0, 300).Data},
		raft.ForwardReply{
			StartCount: 3, Counter: 15, Outcome: raft.ForwardRefused, Error: []byte("why"),
			Leader: raft.Peer{ID: "m2", Incarnation: 1 << 63},
		},
	}
}

// Request returns a Forward with dataBytes bytes of data.
func Request(counter uint64, dataBytes int) raft.Forward {
	return raft.Forward{
		StartCount: 3, Counter: counter, ToStart: 4, Left: 2_000_000_000, Kind: raft.ForwardPropose, Data: Chunk(0, dataBytes).Data,
	}
}

// Chunk returns a SnapshotChunk with dataBytes bytes of data.
func Chunk(at int64, dataBytes int) raft.SnapshotChunk {
	data := bytes.Repeat([]byte("snapshot"), dataBytes/8+1)[:dataBytes]
	return raft.SnapshotChunk{File: raft.SnapshotID{7, 15: 8}, At: at, Data: data}
}

// Entry returns an entry with dataBytes bytes of data. It decodes the entry from its record, so that the result equals what a
// receiver sees.
func Entry(id raft.EntryID, kind raft.EntryKind, dataBytes int) raft.Entry {
	e := raft.Entry{
		Index: id.Index, Term: id.Term, Kind: kind, Time: 1_700_000_000_000_000_000,
		Data: bytes.Repeat([]byte{byte(id.Index)}, dataBytes),
	}
	decoded, err := raft.DecodeEntry(e.Record())
	if err != nil {
		panic(err) // impossible: the record was just encoded
	}
	return decoded
}

// Append returns an AppendRequest after prev with one command entry for each size in dataBytes.
func Append(prev raft.EntryID, dataBytes []int, commit raft.Index) raft.AppendRequest {
	r := raft.AppendRequest{Prev: prev, Last: prev, Commit: commit}
	for _, n := range dataBytes {
		r.Last.Index++
		r.Entries = append(r.Entries, Entry(r.Last, raft.EntryCommand, n))
	}
	return r
}
