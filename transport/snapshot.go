package transport

import (
	"fmt"
	"math"

	"github.com/coxswain/raft"
)

// This file converts between the messages of snapshots and wireMessage.

// setSnapshotBody does the same as setBody, for the messages of snapshots.
func (w *wireMessage) setSnapshotBody(body raft.Body) (frameType, error) {
	switch b := body.(type) {
	case raft.InstallSnapshot:
		w.File, w.Acked = append(w.File, b.Snapshot.File[:]...), uint64(b.Acknowledged)
		if b.Snapshot.ID != (raft.EntryID{}) {
			w.Snapshot = append(w.Snapshot, b.Snapshot.Encode()...)
		}
		return frameInstallSnapshot, nil
	case raft.SnapshotChunk:
		if b.At < 0 || b.Size < 0 {
			return 0, fmt.Errorf("transport: a chunk at offset %d of a snapshot of %d bytes", b.At, b.Size)
		}
		w.File, w.At = append(w.File, b.File[:]...), uint64(b.At)
		w.End, w.Size, w.Sum = b.Last, uint64(b.Size), uint64(b.Sum)
		return frameSnapshotChunk, nil
	case raft.SnapshotProgress:
		if b.At < 0 {
			return 0, fmt.Errorf("transport: snapshot progress at offset %d", b.At)
		}
		w.File, w.At = append(w.File, b.File[:]...), uint64(b.At)
		w.Begin, w.Done, w.Refusal = b.Begin, b.Done, uint8(b.Refusal)
		return frameSnapshotProgress, nil
	}
	return w.setForwardBody(body)
}

// snapshotBody is the reverse of setSnapshotBody.
func (w *wireMessage) snapshotBody(kind frameType, rest []byte) (raft.Body, error) {
	var file raft.SnapshotID
	switch {
	case kind < frameInstallSnapshot || kind > frameSnapshotProgress:
		return nil, fmt.Errorf("%w: type %d is not a message", ErrMalformed, kind)
	case len(w.File) != len(file):
		return nil, fmt.Errorf("%w: a snapshot id of %d bytes instead of %d", ErrMalformed, len(w.File), len(file))
	}
	copy(file[:], w.File)
	switch kind {
	case frameInstallSnapshot:
		return w.installSnapshot(file)
	case frameSnapshotChunk:
		return w.snapshotChunk(file, rest)
	}
	return raft.SnapshotProgress{
		File: file, At: int64(w.At), Begin: w.Begin, Done: w.Done, Refusal: raft.StreamRefusal(w.Refusal),
	}, nil
}

// installSnapshot decodes an offer. If only a later release can read the description of the snapshot, this is no reason to
// close the connection. In that case, installSnapshot passes the offer on with only the id of the snapshot. Then the core
// refuses the offer.
func (w *wireMessage) installSnapshot(file raft.SnapshotID) (raft.Body, error) {
	offer := raft.InstallSnapshot{Snapshot: raft.Snapshot{File: file}, Acknowledged: raft.Index(w.Acked)}
	if len(w.Snapshot) == 0 {
		return offer, nil
	}
	s, err := raft.DecodeSnapshot(w.Snapshot)
	if ofLaterRelease(err) {
		return offer, nil
	}
	if err == nil {
		err = checkNumbers(uint64(s.ID.Index), uint64(s.ID.Term), uint64(max(s.Size, 0)))
	}
	if err == nil && s.File != file {
		err = fmt.Errorf("the offer of snapshot %v describes %v", file, s.File)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	offer.Snapshot = s
	return offer, nil
}

func (w *wireMessage) snapshotChunk(file raft.SnapshotID, rest []byte) (raft.Body, error) {
	data, err := takeData(rest)
	if err == nil && (len(data) > chunkBytesMax || w.Sum > math.MaxUint32) {
		err = fmt.Errorf("%w: a chunk of %d bytes, with a checksum of the snapshot of %x", ErrMalformed, len(data), w.Sum)
	}
	return raft.SnapshotChunk{File: file, At: int64(w.At), Data: data, Last: w.End, Size: int64(w.Size), Sum: uint32(w.Sum)}, err
}
