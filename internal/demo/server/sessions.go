package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/session"
)

// openSession opens a session, and answers with its id. Nothing else opens one: the first raises the feature level.
func (s *Server) openSession(r *http.Request, _ []byte) answer {
	if err := s.awaitLeader(r.Context()); err != nil {
		return fail(s.explain(err))
	}
	opened, err := session.Open(r.Context(), s.node, session.Config{})
	if err != nil {
		return fail(s.explain(err))
	}
	return reply(http.StatusOK, api.Session{Session: opened.ID().String()})
}

// sessionOf reads the session headers of a write. It returns nil if there are none.
func sessionOf(h http.Header) (*session.Command, error) {
	const remedy = "send each of Session, Session-Number and Session-Floor once: the id from POST /session; the number of this write, from 1, " +
		"which no other write of the session has; and the lowest number whose answer you still wait for, which is at most the number"
	id, numbers, floors := h.Values(api.SessionHeader), h.Values(api.SessionNumberHeader), h.Values(api.SessionFloorHeader)
	if len(id)+len(numbers)+len(floors) == 0 {
		return nil, nil
	}
	if len(id) != 1 || len(numbers) != 1 || len(floors) != 1 {
		return nil, api.Errorf(api.BadSession, remedy, "%d Session, %d Session-Number and %d Session-Floor headers", len(id), len(numbers), len(floors))
	}
	parsed, err := session.ParseID(id[0])
	if err != nil {
		return nil, api.Errorf(api.BadSession, remedy, "%s: %q is no id of a session", api.SessionHeader, id[0])
	}
	number, err := strconv.ParseUint(numbers[0], 10, 62)
	floor, err2 := strconv.ParseUint(floors[0], 10, 62)
	if err != nil || err2 != nil || floor == 0 || floor > number {
		return nil, api.Errorf(api.BadSession, remedy, "%s %q with %s %q", api.SessionNumberHeader, numbers[0], api.SessionFloorHeader, floors[0])
	}
	return &session.Command{ID: parsed, Number: number, Floor: floor}, nil
}

// proposeIn proposes the data of a command in a session, so that it takes effect once, however often the client sends it.
func (s *Server) proposeIn(ctx context.Context, c session.Command, data []byte) (node.Result, error) {
	c.Data = data
	result, err := session.Do(ctx, s.node, c)
	var answered *session.AnsweredError
	var beyond *session.WindowError
	switch {
	case err == nil:
		return result, nil
	case errors.Is(err, session.ErrSessionExpired):
		err = api.Errorf(api.SessionExpired, "open another with POST /session; read before you repeat this write in it: it may have been carried out before",
			"session %v has ended, or is none of this cluster", c.ID)
	case errors.As(err, &answered):
		err = api.Errorf(api.SessionAnswered, "give a new write a higher number",
			"write %d is below Session-Floor %d, which was sent before, so its answer is no longer kept", c.Number, answered.Floor)
	case errors.As(err, &beyond):
		err = api.Errorf(api.SessionWindow, "wait for answers to lower numbers, then repeat this write with the same number and a higher Session-Floor",
			"write %d is not among the %d from Session-Floor %d on", c.Number, beyond.Window, beyond.Floor)
	case errors.Is(err, node.ErrOutcomeUnknown):
		err = api.Errorf(admin.OutcomeUnknown, "repeat it with the same Session-Number, here or at another member: it takes effect once", "%v", err)
	}
	return node.Result{}, err
}
