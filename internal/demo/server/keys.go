package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/session"
)

// serveKey answers requests for one key.
func (s *Server) serveKey(r *http.Request, body []byte, escaped string) answer {
	key, err := url.PathUnescape(escaped)
	if err == nil {
		err = kv.CheckKey(key)
	}
	if err != nil {
		return fail(api.Errorf(api.BadKey, fmt.Sprintf("a key takes 1 to %d bytes, escaped as in a URL", kv.KeyBytesMax), "%v", err))
	}
	write := func(op kv.Op) handler {
		return func(r *http.Request, body []byte) answer { return s.write(r, body, kv.Command{Op: op, Key: key}) }
	}
	return methods(methodTable{
		http.MethodGet:    func(r *http.Request, _ []byte) answer { return s.get(r, key) },
		http.MethodPut:    write(kv.Put),
		http.MethodDelete: write(kv.Delete),
	})(r, body)
}

// get answers with the value as the body.
func (s *Server) get(r *http.Request, key string) answer {
	view, err := s.view(r)
	if err != nil {
		return fail(s.explain(err))
	}
	a := answer{status: http.StatusOK, header: applied(view)}
	item, found := view.Get(key)
	if !found {
		missing := fail(api.Errorf(admin.NotFound, "put it first", "no key %q", key))
		missing.header.Set(api.AppliedHeader, a.header.Get(api.AppliedHeader))
		return missing
	}
	tag := api.ETag(uint64(item.Revision))
	a.header.Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		a.status = http.StatusNotModified
		return a
	}
	a.header.Set("Content-Type", "application/octet-stream")
	a.header.Set("X-Content-Type-Options", "nosniff")
	a.body = item.Value
	return a
}

// view returns the version of the store that answers the request, once it is as fresh as the request asks.
func (s *Server) view(r *http.Request) (kv.View, error) {
	if err := s.awaitConsistency(r); err != nil {
		return kv.View{}, err
	}
	return s.store.View()
}

// awaitConsistency waits until the store may be read for the request.
func (s *Server) awaitConsistency(r *http.Request) error {
	c, confirmed, err := api.ParseConsistency(r.URL.Query().Get("consistency"))
	if err != nil || !confirmed {
		return err
	}
	err = s.confirm(r.Context(), c)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return api.Errorf(admin.ReadTimedOut, "try again, or read with ?consistency=stale", "the read was not confirmed in time")
	}
	return err
}

// confirm waits until this member's state is as fresh as c says. A change of the leader delays it, for leaderPatience at most.
func (s *Server) confirm(ctx context.Context, c raft.Consistency) error {
	for end := time.Now().Add(leaderPatience); ; {
		_, err := s.node.ReadIndexWith(ctx, c)
		var refused *node.NotLeaderError
		if !errors.As(err, &refused) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(leaderPause):
		}
	}
}

// list answers with a page of keys.
func (s *Server) list(r *http.Request, _ []byte) answer {
	query := r.URL.Query()
	limit := api.ListLimitDefault
	if given := query.Get("limit"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > api.ListLimitMax {
			return fail(api.Errorf(admin.BadRequest, "use 1 to "+strconv.Itoa(api.ListLimitMax), "bad limit %q", given))
		}
		limit = n
	}
	view, err := s.view(r)
	if err != nil {
		return fail(s.explain(err))
	}
	items, more := view.List(query.Get("prefix"), query.Get("after"), limit)
	listing := api.Listing{Items: make([]api.Listed, 0, len(items))}
	for _, item := range items {
		listing.Items = append(listing.Items, api.Listed{Key: item.Key, Revision: uint64(item.Revision), Bytes: len(item.Value)})
	}
	if more {
		listing.Next = items[len(items)-1].Key
	}
	a := reply(http.StatusOK, listing)
	maps.Copy(a.header, applied(view))
	return a
}

// write carries out a Put or Delete. The leader applies it, wherever the client asks.
func (s *Server) write(r *http.Request, body []byte, c kv.Command) answer {
	var err error
	if c.Condition, err = condition(r.Header); err != nil {
		return fail(s.explain(err))
	}
	if c.Op == kv.Put {
		c.Value = body
	}
	in, err := sessionOf(r.Header)
	if err != nil {
		return fail(s.explain(err))
	}
	result, err := s.propose(r.Context(), c, in)
	if err != nil {
		return fail(s.explain(err))
	}
	return written(c, result)
}

// propose has the leader apply a command, in a session if in is not nil.
func (s *Server) propose(ctx context.Context, c kv.Command, in *session.Command) (node.Result, error) {
	data, err := c.Encode()
	if err != nil {
		return node.Result{}, api.Errorf(admin.BadRequest, "send another request", "%v", err)
	}
	if err := s.awaitLeader(ctx); err != nil {
		return node.Result{}, err
	}
	if in != nil {
		return s.proposeIn(ctx, *in, data)
	}
	return s.node.Propose(ctx, data)
}

// written returns the answer to a request whose command was applied with this result.
func written(c kv.Command, result node.Result) answer {
	said, err := kv.DecodeAnswer(result.Data)
	switch {
	case err != nil:
		return fail(api.Errorf(admin.Internal, "report this", "%v", err))
	case said.Refused != "":
		return fail(api.Errorf(admin.Internal, "run the same version on all members",
			"the store refused the command: %s", said.Refused))
	}
	var a answer
	switch {
	case said.Failed && said.Existed:
		a = fail(api.Errorf(api.ConditionFailed, "read the key and decide anew", "key %q has revision %d", c.Key, said.Revision))
	case said.Failed:
		a = fail(api.Errorf(api.ConditionFailed, "read the key and decide anew", "no key %q", c.Key))
	default:
		a = reply(http.StatusOK, api.Written{Revision: uint64(said.Revision), Existed: said.Existed})
	}
	if said.Revision != 0 && (c.Op == kv.Put || said.Failed) {
		a.header.Set("ETag", api.ETag(uint64(said.Revision)))
	}
	return a
}

// condition parses If-Match and If-None-Match.
func condition(h http.Header) (kv.Condition, error) {
	const remedy = `use one of If-Match: "revision", If-Match: * (it exists) and If-None-Match: * (it does not)`
	match, noneMatch := h.Values("If-Match"), h.Values("If-None-Match")
	switch {
	case len(match)+len(noneMatch) == 0:
		return kv.Condition{}, nil
	case len(match)+len(noneMatch) > 1:
		return kv.Condition{}, api.Errorf(api.BadCondition, remedy, "more than one condition")
	case len(noneMatch) == 1 && noneMatch[0] == "*":
		return kv.Condition{Kind: kv.IfAbsent}, nil
	case len(noneMatch) == 1:
		return kv.Condition{}, api.Errorf(api.BadCondition, remedy, "If-None-Match of a write takes * only")
	case match[0] == "*":
		return kv.Condition{Kind: kv.IfExists}, nil
	}
	revision, err := api.ParseETag(match[0])
	if err != nil {
		return kv.Condition{}, api.Errorf(api.BadCondition, remedy, "If-Match: %v", err)
	}
	return kv.Condition{Kind: kv.IfRevision, Revision: raft.Index(revision)}, nil
}
