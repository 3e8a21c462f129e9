package pipeline

import (
	"hash/crc32"

	"github.com/coxswain/raft"
)

// Incoming is the receiving side of the streams to one member. It receives one stream at a time. The bytes go to a spool, an
// unfinished snapshot file. Incoming decides which bytes to write. Its host writes, syncs, measures the room on the disk, and
// keeps the time. Until the host reports the result of its work, Incoming ignores all other input. Senders repeat what it
// ignored.
type Incoming struct {
	self   raft.Peer
	limits StreamLimits
	stream *incoming  // nil: none
	done   streamName // name of the last stream that arrived completely
}

// streamName identifies a stream. After a break, a stream is resumed only if the new offer has the same name.
type streamName struct {
	from raft.Peer
	file raft.SnapshotID
}

// incoming is the stream that is being received.
type incoming struct {
	streamName
	snapshot raft.Snapshot
	pending  pending
	chunk    raft.SnapshotChunk // chunk that is being written
	at       int64              // number of bytes in the spool
	sum      uint32             // CRC-32C of these bytes
	heard    raft.Time          // when the last chunk or offer came
	gap      int64              // bytes of chunks that came too early, since the last answer to such a chunk
}

// pending is the host's present work for the stream.
type pending uint8

const (
	nothing pending = iota
	opening
	writing
	finishing
)

// NewIncoming returns the receiving side of a member.
func NewIncoming(self raft.Peer, limits StreamLimits) *Incoming {
	return &Incoming{self: self, limits: limits}
}

// Work is what the host must do for an Incoming, in the order of the fields. At most one of Open, Write and Finish is set.
// When the host has done this work, it calls Opened, Written or Finished. It passes a raft.StreamRefusal: zero for success,
// or StreamNoSpace, StreamLaterFormat or StreamFailed as the reason of the failure.
type Work struct {
	Abort  bool           // delete the spool
	Open   *raft.Snapshot // create the spool of this snapshot
	Write  []byte         // append these bytes to the spool
	Finish *raft.Snapshot // make the spool the file of this snapshot: complete, synced, under its name

	Arrived *raft.SnapshotArrived // for the core
	Send    []raft.Message
}

// Receive begins or resumes the stream that the core requests. If the stream in progress has another name, it ends. room is
// how many bytes a snapshot may take on the disk: the free bytes without the reserve.
func (in *Incoming) Receive(now raft.Time, r raft.Receive, room int64) Work {
	name := streamName{r.From, r.Snapshot.File}
	s := in.stream
	switch {
	case s != nil && s.pending != nothing:
		return Work{}
	case s != nil && s.streamName == name:
		s.heard = now
		return in.answer(s.snapshot.Cluster, name, raft.SnapshotProgress{Begin: true, At: s.at})
	case name == in.done:
		return in.answer(r.Snapshot.Cluster, name, raft.SnapshotProgress{Done: true})
	}
	var w Work
	if s != nil {
		w = in.refuse(raft.StreamSuperseded)
	}
	next := &incoming{streamName: name, snapshot: r.Snapshot, heard: now, pending: opening}
	in.stream = next
	why := raft.StreamRefusal(0)
	switch {
	case r.Snapshot.Size > in.limits.BytesMax:
		why = raft.StreamTooLarge
	case room < max(r.Snapshot.Size, 0):
		why = raft.StreamNoSpace
	}
	if why != 0 {
		in.stream = nil
		w.Send = append(w.Send, in.message(r.Snapshot.Cluster, name, raft.SnapshotProgress{Refusal: why}))
		return w
	}
	w.Open = &next.snapshot
	return w
}

// Opened reports that the host created the spool. If why is not 0, it is the reason why the host could not.
func (in *Incoming) Opened(why raft.StreamRefusal) Work {
	s := in.stream
	s.pending = nothing
	if why != 0 {
		w := in.refuse(why)
		w.Abort = false // there is no spool
		return w
	}
	return in.answer(s.snapshot.Cluster, s.streamName, raft.SnapshotProgress{Begin: true})
}

// Chunk takes a message with a SnapshotChunk.
func (in *Incoming) Chunk(now raft.Time, m raft.Message) Work {
	c, ok := m.Body.(raft.SnapshotChunk)
	s := in.stream
	if !ok || m.To != in.self || s != nil && s.pending != nothing {
		return Work{}
	}
	name := streamName{m.From, c.File}
	switch {
	case s != nil && s.streamName == name:
		s.heard = now
		return in.take(s, c)
	case name == in.done:
		return in.answer(m.Cluster, name, raft.SnapshotProgress{Done: true})
	}
	return in.answer(m.Cluster, name, raft.SnapshotProgress{Refusal: raft.StreamUnknown})
}

// take takes a chunk of the present stream. The host writes only the chunk that continues the spool. An earlier chunk is a
// repetition, because its acknowledgement was lost. A later chunk means that chunks before it were lost. A whole window of
// later chunks may follow, so take answers only one per window.
func (in *Incoming) take(s *incoming, c raft.SnapshotChunk) Work {
	length := int64(len(c.Data))
	switch {
	case c.At > s.at:
		s.gap += length
		if s.gap > length && s.gap <= int64(in.limits.WindowBytes) {
			return Work{}
		}
		s.gap = length
		return in.progress(s)
	case c.At < s.at || length == 0 && !c.Last:
		return in.progress(s)
	}
	if why := in.misfit(s, c); why != 0 {
		return in.refuse(why)
	}
	s.gap, s.chunk = 0, c
	if length == 0 {
		return in.finish(s)
	}
	s.pending = writing
	s.sum = crc32.Update(s.sum, castagnoli, c.Data) // before the host can change the buffer
	return Work{Write: c.Data}
}

// misfit returns the reason why the chunk cannot be the next one of the offered snapshot, or 0 if it can.
func (in *Incoming) misfit(s *incoming, c raft.SnapshotChunk) raft.StreamRefusal {
	end := s.at + int64(len(c.Data))
	size := s.snapshot.Size
	switch {
	case end > in.limits.BytesMax:
		return raft.StreamTooLarge
	case size >= 0 && (end > size || c.Last && end < size):
		return raft.StreamDamaged
	case c.Last && c.Size != end:
		return raft.StreamDamaged
	}
	return 0
}

// Written reports that the bytes are in the spool. If why is not 0, it is the reason why they are not. room has the same
// meaning as in Receive, and is measured after this write, because a snapshot must not take the reserve.
func (in *Incoming) Written(room int64, why raft.StreamRefusal) Work {
	s := in.stream
	s.pending = nothing
	if why == 0 && room < 0 {
		why = raft.StreamNoSpace
	}
	if why != 0 {
		return in.refuse(why)
	}
	s.at += int64(len(s.chunk.Data))
	last := s.chunk.Last
	s.chunk.Data = nil
	if last {
		return in.finish(s)
	}
	return in.progress(s)
}

// finish compares the checksum of the whole snapshot with the announced checksum. For a held freeze, the last chunk announces
// the checksum; for other snapshots, the offer does.
func (in *Incoming) finish(s *incoming) Work {
	announced := s.snapshot.Sum
	if s.snapshot.Held {
		announced = s.chunk.Sum
	}
	if s.sum != announced {
		return in.refuse(raft.StreamDamaged)
	}
	s.snapshot.Size, s.snapshot.Sum, s.snapshot.Held = s.at, s.sum, false
	s.pending = finishing
	w := in.progress(s) // syncing the file may take a while
	w.Finish = &s.snapshot
	return w
}

// Finished reports that the file of the snapshot is complete and synced. If why is not 0, it is the reason why the file is
// not.
func (in *Incoming) Finished(why raft.StreamRefusal) Work {
	s := in.stream
	s.pending = nothing
	if why != 0 {
		return in.refuse(why)
	}
	in.stream, in.done = nil, s.streamName
	w := in.answer(s.snapshot.Cluster, s.streamName, raft.SnapshotProgress{Done: true, At: s.at})
	w.Arrived = &raft.SnapshotArrived{From: s.from, Snapshot: s.snapshot}
	return w
}

// Discarded reports that the core has discarded the file. If a sender offers this stream again, the stream begins from its
// first byte.
func (in *Incoming) Discarded(file raft.SnapshotID) {
	if in.done.file == file {
		in.done = streamName{}
	}
}

// Expire drops the stream if no chunk and no offer has come for too long.
func (in *Incoming) Expire(now raft.Time) Work {
	if wake := in.Wake(); wake == 0 || now < wake {
		return Work{}
	}
	in.stream = nil
	return Work{Abort: true}
}

// Wake returns the time at which to call Expire, or 0 if there is nothing to drop.
func (in *Incoming) Wake() raft.Time {
	if s := in.stream; s != nil && s.pending == nothing {
		return s.heard + in.limits.timeouts(spoolTimeouts)
	}
	return 0
}

// Receiving returns the stream that this member receives, and how many bytes the spool holds. It returns false if there is no
// stream.
func (in *Incoming) Receiving() (r raft.Receive, bytes int64, ok bool) {
	s := in.stream
	if s == nil {
		return raft.Receive{}, 0, false
	}
	return raft.Receive{From: s.from, Snapshot: s.snapshot}, s.at, true
}

// refuse ends the present stream.
func (in *Incoming) refuse(why raft.StreamRefusal) Work {
	s := in.stream
	in.stream = nil
	w := in.answer(s.snapshot.Cluster, s.streamName, raft.SnapshotProgress{Refusal: why})
	w.Abort = true
	return w
}

func (in *Incoming) progress(s *incoming) Work {
	return in.answer(s.snapshot.Cluster, s.streamName, raft.SnapshotProgress{At: s.at})
}

func (in *Incoming) answer(cluster raft.ClusterID, to streamName, p raft.SnapshotProgress) Work {
	return Work{Send: []raft.Message{in.message(cluster, to, p)}}
}

func (in *Incoming) message(cluster raft.ClusterID, to streamName, p raft.SnapshotProgress) raft.Message {
	p.File = to.file
	return raft.Message{From: in.self, To: to.from, Cluster: cluster, Body: p}
}
