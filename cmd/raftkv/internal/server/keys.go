package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/cmd/raftkv/internal/api"
	"github.com/coxswain/raft/cmd/raftkv/internal/kv"
)

// serveKey answers requests for one key.
func (s *Server) serveKey(w http.ResponseWriter, r *http.Request, escaped string) {
	key, err := url.PathUnescape(escaped)
	if err == nil {
		err = kv.CheckKey(key)
	}
	if err != nil {
		fail(w, api.Errorf(api.BadKey, fmt.Sprintf("a key takes 1 to %d bytes, escaped as in a URL", kv.KeyBytesMax), "%v", err))
		return
	}
	write := func(op kv.Op) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { s.write(w, r, kv.Command{Op: op, Key: key}) }
	}
	methods(methodTable{
		http.MethodGet:    func(w http.ResponseWriter, r *http.Request) { s.get(w, r, key) },
		http.MethodPut:    write(kv.Put),
		http.MethodDelete: write(kv.Delete),
	})(w, r)
}

// get answers with the value as the body.
func (s *Server) get(w http.ResponseWriter, r *http.Request, key string) {
	if err := s.awaitConsistency(r); err != nil {
		fail(w, explain(err))
		return
	}
	s.setApplied(w)
	item, found := s.store.Get(key)
	if !found {
		fail(w, api.Errorf(api.NotFound, "put it first", "no key %q", key))
		return
	}
	tag := api.ETag(uint64(item.Revision))
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Length", strconv.Itoa(len(item.Value)))
	_, _ = w.Write(item.Value) // the client has gone: nobody to tell
}

// awaitConsistency returns when the store may be read for the request. A linearizable read is
// confirmed by the leader and then served here.
func (s *Server) awaitConsistency(r *http.Request) error {
	switch level := r.URL.Query().Get("consistency"); level {
	case "", api.Linearizable:
		_, err := s.node.ReadIndex(r.Context())
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return api.Errorf(api.ReadTimedOut, "try again, or read with ?consistency=stale", "the read was not confirmed in time")
		}
		return err
	case api.Stale:
		return nil
	default:
		return api.Errorf(api.BadRequest, "use linearizable or stale", "unknown consistency %q", level)
	}
}

// list answers with a page of keys.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit := api.ListLimitDefault
	if given := query.Get("limit"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > api.ListLimitMax {
			fail(w, api.Errorf(api.BadRequest, "use 1 to "+strconv.Itoa(api.ListLimitMax), "bad limit %q", given))
			return
		}
		limit = n
	}
	if err := s.awaitConsistency(r); err != nil {
		fail(w, explain(err))
		return
	}
	s.setApplied(w)
	items, more := s.store.List(query.Get("prefix"), query.Get("after"), limit)
	listing := api.Listing{Items: make([]api.Listed, 0, len(items))}
	for _, item := range items {
		listing.Items = append(listing.Items, api.Listed{Key: item.Key, Revision: uint64(item.Revision), Bytes: len(item.Value)})
	}
	if more {
		listing.Next = items[len(items)-1].Key
	}
	reply(w, http.StatusOK, listing)
}

// write carries out a Put or Delete, here or at the leader.
func (s *Server) write(w http.ResponseWriter, r *http.Request, c kv.Command) {
	var err error
	if c.Condition, err = condition(r.Header); err != nil {
		fail(w, explain(err))
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		fail(w, explain(err))
		return
	}
	if c.Op == kv.Put {
		c.Value = body
	}
	result, err := s.propose(r.Context(), c)
	if err != nil {
		s.failOrForward(w, r, body, err)
		return
	}
	s.answer(w, c, result)
}

func (s *Server) propose(ctx context.Context, c kv.Command) (raft.Result, error) {
	data, err := c.Encode()
	if err != nil {
		return raft.Result{}, api.Errorf(api.BadRequest, "send another request", "%v", err)
	}
	return s.node.Propose(ctx, data)
}

// answer writes the store's answer to a command.
func (s *Server) answer(w http.ResponseWriter, c kv.Command, result raft.Result) {
	answer, err := kv.DecodeAnswer(result.Data)
	switch {
	case err != nil:
		fail(w, api.Errorf(api.Internal, "report this", "%v", err))
		return
	case answer.Refused != "":
		fail(w, api.Errorf(api.Internal, "run the same version on all members",
			"the store refused the command: %s", answer.Refused))
		return
	}
	if answer.Revision != 0 && (c.Op == kv.Put || answer.Failed) {
		w.Header().Set("ETag", api.ETag(uint64(answer.Revision)))
	}
	switch {
	case answer.Failed && answer.Existed:
		fail(w, api.Errorf(api.ConditionFailed, "read the key and decide anew", "key %q has revision %d", c.Key, answer.Revision))
	case answer.Failed:
		fail(w, api.Errorf(api.ConditionFailed, "read the key and decide anew", "no key %q", c.Key))
	default:
		reply(w, http.StatusOK, api.Written{Revision: uint64(answer.Revision), Existed: answer.Existed})
	}
}

// condition reads If-Match and If-None-Match.
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

// readBody returns the whole body, which forwarding needs as well as proposing.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, kv.ValueBytesMax))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, api.Errorf(api.ValueTooLarge, "store less under one key",
			"the value is over the limit of %d bytes", kv.ValueBytesMax)
	case err != nil:
		return nil, api.Errorf(api.BadRequest, "send it again", "the body broke off: %v", err)
	}
	return body, nil
}
