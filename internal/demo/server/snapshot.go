package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/node"
)

// snapshot makes this member take a snapshot. If that takes longer than a request may, the answer has status 202, and /status
// shows the progress.
func (s *Server) snapshot(r *http.Request, _ []byte) answer {
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return fail(api.Errorf(api.Overloaded, "try again in a second", "%d requests wait for a snapshot", SnapshotsMax))
	}
	before := s.node.Status().Applied
	last, err := s.node.Snapshot(r.Context())
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return reply(http.StatusAccepted, api.Snapshotted{ID: s.id, Last: uint64(before)})
	case err != nil:
		return fail(explain(err))
	}
	return reply(http.StatusOK, api.Snapshotted{
		ID: s.id, Taken: true, Last: uint64(last.Index), Term: uint64(last.Term), Bytes: s.node.Status().Snapshot.Bytes,
	})
}

func describeSnapshot(s node.SnapshotStatus) api.Snapshot {
	described := api.Snapshot{
		Last: uint64(s.Last.Index), Bytes: s.Bytes, AgeMS: -1, None: s.Unsupported,
		Taking: describeTransfer(s.Taking), Restoring: describeTransfer(s.Restoring),
		Receiving: describeTransfer(s.Receiving), Sending: describeTransfer(s.Sending),
	}
	if !s.At.IsZero() {
		described.AgeMS = milliseconds(time.Since(s.At))
	}
	for _, row := range []struct {
		err  error
		text *string
	}{{s.Err, &described.Error}, {s.SendErr, &described.SendErr}, {s.ReceiveErr, &described.RecvErr}} {
		if row.err != nil {
			*row.text = row.err.Error()
		}
	}
	return described
}

func describeTransfer(t *node.Transfer) *api.Transfer {
	if t == nil {
		return nil
	}
	return &api.Transfer{Last: uint64(t.ID.Index), Peer: string(t.Peer), Done: t.Done, Total: t.Total, ForMS: milliseconds(t.Since), LeftMS: milliseconds(t.Left)}
}
