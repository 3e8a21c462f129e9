package pipeline

import (
	"errors"
	"time"

	"github.com/coxswain/raft"
)

// A stream carries the bytes of one offered snapshot from one member to another. Its name is the sending peer and the
// raft.SnapshotID. Only a stream of the same name is resumed after a break, because two snapshots of the same entry may
// have different bytes. The sender is an Outgoing, the receiver an Incoming:
//
//	sender                                            receiver
//	InstallSnapshot (from core to core)          →    Keep.Receive
//	                                             ←    SnapshotProgress{Begin, At}: send from here on
//	SnapshotChunk{At}, one window ahead          →    written in order, without gaps
//	                                             ←    SnapshotProgress{At}
//	SnapshotChunk{At, Last, Size, Sum}           →    size and checksum compared, synced
//	                                             ←    SnapshotProgress{Done}, or a Refusal at any time

// StreamLimits bound a stream.
type StreamLimits struct {
	ElectionTimeout time.Duration // node.Config.ElectionTimeout: the unit of all waiting
	ChunkBytes      int           // bytes of one chunk, at least 1
	WindowBytes     int           // bytes in flight, at least ChunkBytes
	BytesPerSecond  int64         // maximum rate of the sender; 0: no limit
	BytesMax        int64         // size of the largest snapshot that the receiver accepts
}

// How long the sides of a stream wait, in election timeouts.
const (
	// The sender gives up after offerTimeouts without an answer to its offer, and after stallTimeouts without progress
	// while bytes are in flight.
	offerTimeouts = 10
	stallTimeouts = 64
	// A freeze costs memory in the FSM. The sender gives the freeze up after HeldTimeouts if no stream begins, or if the
	// receiver acknowledges none of its bytes.
	HeldTimeouts = 10
	// The receiver drops the spool after spoolTimeouts without a chunk or an offer.
	spoolTimeouts = 64
)

// burstChunks is how many chunks the sender may send at once after a pause. It is more than one so that late timers do not
// lower the rate.
const burstChunks = 2

// windowBytesMin bounds the bytes in flight until the receiver acknowledges some of them. If a chunk is smaller, the size of
// the chunk is the bound. So repetitions do not fill a slow link.
const windowBytesMin = 16 << 10

// pacedChunkBytesMin is the size of the smallest chunk at a slow pace, in bytes.
const pacedChunkBytesMin = 1 << 10

func (l StreamLimits) timeouts(n int) raft.Time { return raft.Time(n) * raft.Time(l.ElectionTimeout) }

// ErrStalled ends a stream whose receiver has stopped acknowledging bytes.
var ErrStalled = errors.New("pipeline: the receiver of the snapshot acknowledges nothing")

// ErrRewound ends the stream of a held freeze. The receiver has lost bytes that the sender no longer has.
var ErrRewound = errors.New("pipeline: the receiver has lost a part of the snapshot that is no longer in memory here")

// RefuseSnapshot returns the answer of a member that refuses an offered snapshot. The offer is a message with an
// InstallSnapshot.
func RefuseSnapshot(offer raft.Message, why raft.StreamRefusal) raft.Message {
	s := offer.Body.(raft.InstallSnapshot).Snapshot
	return raft.Message{
		From: offer.To, To: offer.From, Cluster: offer.Cluster, Body: raft.SnapshotProgress{File: s.File, Refusal: why},
	}
}
