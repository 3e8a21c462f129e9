package pipeline

import (
	"errors"
	"time"

	"github.com/coxswain/raft"
)

// A stream carries the bytes of one offered snapshot from one member to another. Its name is the sending peer and the
// raft.SnapshotID: only a stream of the same name is resumed where it broke off, because other bytes may describe the
// same entry. The sender is an Outgoing, the receiver an Incoming:
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
	WindowBytes     int           // bytes that are sent and not acknowledged, at least ChunkBytes
	BytesPerSecond  int64         // that the sender sends at most; 0: no limit
	BytesMax        int64         // bytes of a snapshot that the receiver takes in
}

// How long the sides of a stream wait, in election timeouts.
const (
	// The sender gives up after offerTimeouts without an answer to its offer, and after stallTimeouts in which the
	// receiver acknowledged nothing new although bytes were on their way.
	offerTimeouts = 10
	stallTimeouts = 64
	// A freeze costs its state machine memory. It is held as long for a stream that does not begin, and for a receiver
	// that acknowledges none of its bytes.
	HeldTimeouts = 10
	// The receiver drops what it has after spoolTimeouts without a chunk or an offer.
	spoolTimeouts = 64
)

// burstChunks is how many chunks may leave at once after a pause, so that a timer that fires late costs no rate.
const burstChunks = 2

// windowBytesMin is how many bytes are on their way at most, unless a chunk is smaller, while nothing is acknowledged: a
// link that takes long for them is not filled with their repetitions.
const windowBytesMin = 16 << 10

// pacedChunkBytesMin is the smallest chunk, in bytes, into which a slow pace divides the bytes.
const pacedChunkBytesMin = 1 << 10

func (l StreamLimits) timeouts(n int) raft.Time { return raft.Time(n) * raft.Time(l.ElectionTimeout) }

// ErrStalled is why a stream ends whose receiver acknowledges nothing any more.
var ErrStalled = errors.New("pipeline: the receiver of the snapshot acknowledges nothing")

// ErrRewound is why the stream of a held freeze ends: its receiver has lost bytes that the sender no longer has.
var ErrRewound = errors.New("pipeline: the receiver has lost a part of the snapshot that is no longer in memory here")

// RefuseSnapshot returns the answer of a member that takes nothing of an offered snapshot. The offer is a message with
// an InstallSnapshot.
func RefuseSnapshot(offer raft.Message, why raft.StreamRefusal) raft.Message {
	s := offer.Body.(raft.InstallSnapshot).Snapshot
	return raft.Message{
		From: offer.To, To: offer.From, Cluster: offer.Cluster, Body: raft.SnapshotProgress{File: s.File, Refusal: why},
	}
}
