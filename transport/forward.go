package transport

import (
	"bytes"
	"fmt"

	"github.com/coxswain/raft"
)

// This file converts between the messages that carry callers' requests and wireMessage.

// setForwardBody does the same as setBody, for callers' requests and their answers.
func (w *wireMessage) setForwardBody(body raft.Body) (frameType, error) {
	switch b := body.(type) {
	case raft.Forward:
		if b.Left < 0 {
			return 0, fmt.Errorf("transport: a request whose deadline passed %d ns ago", -b.Left)
		}
		w.StartCount, w.Counter, w.ToStart = b.StartCount, b.Counter, b.ToStart
		w.Left, w.Kind = uint64(b.Left), uint8(b.Kind)
		return frameForward, nil
	case raft.ForwardReply:
		if len(b.Error) > raft.ForwardErrorBytesMax {
			return 0, fmt.Errorf("%w: an error of %d bytes in an answer; the limit is %d", ErrOversized, len(b.Error), raft.ForwardErrorBytesMax)
		}
		w.StartCount, w.Counter, w.Verdict = b.StartCount, b.Counter, uint8(b.Outcome)
		w.setLast(raft.EntryID{Term: b.EntryTerm, Index: b.Index})
		w.Error = append(w.Error, b.Error...)
		w.Leader, w.LeaderIncarnation = append(w.Leader, b.Leader.ID...), uint64(b.Leader.Incarnation)
		return frameForwardReply, nil
	}
	return 0, fmt.Errorf("transport: %T is not a message of this version", body)
}

// forwardBody is the reverse of setForwardBody. It passes on kinds and outcomes of later releases.
func (d *decoder) forwardBody(kind frameType, rest []byte) (raft.Body, error) {
	w := &d.wire
	data, err := takeData(rest)
	if err != nil {
		return nil, err
	}
	if len(rest) <= readBufferBytes { // the next frame may overwrite it: see frameReader.next
		data = bytes.Clone(data)
	}
	if kind == frameForward {
		return raft.Forward{
			StartCount: w.StartCount, Counter: w.Counter, ToStart: w.ToStart,
			Left: raft.Time(w.Left), Kind: raft.ForwardKind(w.Kind), Data: data,
		}, nil
	}
	if len(w.Error) > raft.ForwardErrorBytesMax {
		return nil, fmt.Errorf("%w: an error of %d bytes in an answer; the limit is %d", ErrMalformed, len(w.Error), raft.ForwardErrorBytesMax)
	}
	leader, err := d.optionalID(w.Leader)
	r := raft.ForwardReply{
		StartCount: w.StartCount, Counter: w.Counter, Outcome: raft.ForwardOutcome(w.Verdict),
		Index: raft.Index(w.LastIndex), EntryTerm: raft.Term(w.LastTerm), Data: data,
		Leader: raft.Peer{ID: leader, Incarnation: raft.Incarnation(w.LeaderIncarnation)},
	}
	if len(w.Error) > 0 { // the decoder's next message overwrites it
		r.Error = bytes.Clone(w.Error)
	}
	return r, err
}
