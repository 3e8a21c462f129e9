package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/joining"
)

// change is administer for a request that only a leader can carry out.
func (s *Server) change(r *http.Request, body []byte) answer {
	if r.Method == http.MethodPost {
		if err := s.awaitLeader(r.Context()); err != nil {
			return fail(s.explain(err))
		}
	}
	return s.administer(r, body)
}

// administer lets package admin answer a request, in the words of raftkv.
func (s *Server) administer(r *http.Request, body []byte) answer {
	asked := r.WithContext(r.Context())
	asked.Body = io.NopCloser(bytes.NewReader(body))
	c := captured{answer: answer{status: http.StatusOK, header: http.Header{}}}
	s.admin.ServeHTTP(&c, asked)
	if c.body = c.buf.Bytes(); c.status < http.StatusBadRequest {
		return c.answer
	}
	var failure admin.Error
	switch err := json.Unmarshal(c.body, &failure); {
	case err == nil:
	case c.status == http.StatusServiceUnavailable: // metrics are not those of package admin
		return fail(api.Errorf(admin.Overloaded, "try again in a second", "%s", bytes.TrimSpace(c.body)))
	case c.status == http.StatusNotFound:
		return fail(api.Errorf(admin.NotFound, "ask for another path", "%s", bytes.TrimSpace(c.body)))
	default:
		return fail(api.Errorf(admin.Internal, "look at the log of this member", "%s", bytes.TrimSpace(c.body)))
	}
	c.body = fail(s.explain(&failure)).body
	return c.answer
}

// status answers with the node's status, and the number of keys.
func (s *Server) status(*http.Request, []byte) answer {
	status := api.Status{Status: admin.StatusOf(s.node)}
	if view, err := s.store.View(); err == nil {
		status.Keys = view.Len()
	}
	return reply(http.StatusOK, status)
}

// explain returns the answer for an error of this member, in the words of raftkv.
func (s *Server) explain(err error) *admin.Error {
	if errors.Is(err, kv.ErrRestoring) {
		return api.Errorf(api.Restoring, "ask another member", "%v", err)
	}
	e := admin.Explain(s.node, err)
	e.Remedy = inCommands.Replace(e.Remedy)
	return e
}

// inCommands replaces what remedies of package admin say by the commands and flags of raftkv.
var inCommands = strings.NewReplacer(commands...)

var commands = []string{
	"GET /status", "raftkv status",
	"GET /members shows the incarnations", "raftkv members --json shows the incarnations",
	"GET /members", "raftkv members",
	"POST /transfer", "raftkv transfer",
	"send the same change again", "run the same command again",
	`a change with "add"`, "raftkv members add ID ADDRESS URL",
	`a change with "cancel"`, "raftkv members cancel",
	"a change of the priority of ", "raftkv members priority ",
	" to 1 lets it lead", " 1 lets it lead",
	"a promotion of ", "raftkv members add ",
	"a replacement of ", "raftkv members replace ",
	"a replacement puts", "raftkv members replace puts",
	"an update of ", "raftkv members address ",
	" with its new address", " ADDRESS URL",
	`"despite"`, "--despite",
	`"patience"`, "--patience",
	"give all members certificates, or Insecure", "start all members with --tls-cert, --tls-key and --tls-ca, or with --insecure",
	"an empty directory", "an empty --data directory",
	"Config.SnapshotReserveBytes", "--snapshot-reserve-bytes",
	"the name in its URL, or one in Options.Hosts", "or the name in its URL, which --url and raftkv members address set",
	"list this origin in Options.Origins", "start the members with --page-origin",
	"the documentation of admin.Change shows what a change holds", "raftkv members --help shows the commands that send changes",
	"the documentation of raft.Change", "raftkv members --help",
	"the documentation of raft.Priority", "raftkv members priority --help",
	"propose less at once", "store less under one key",
	"a longer ElectionTimeout", "a longer --election-timeout",
	"read with Linearizable, or accept an older state", "read with ?consistency=linearizable, or accept an older state with ?consistency=stale=AGE",
	"read the state of this member, which may be old", "read with ?consistency=stale",
}

// checkChange refuses a change with an address or a URL that this store cannot use.
func (s *Server) checkChange(c raft.Change) *admin.Error {
	var wrong *admin.Error
	for _, m := range c.Add {
		wrong = cmp.Or(wrong, checkPlace(m.ID, m.Address, m.Meta))
	}
	for _, r := range c.Replace {
		wrong = cmp.Or(wrong, checkPlace(r.New.ID, r.New.Address, r.New.Meta))
	}
	for _, u := range c.Update {
		wrong = cmp.Or(wrong, checkPlace(u.Peer.ID, valueOf(u.Address), valueOf(u.Meta)))
	}
	return cmp.Or(wrong, s.checkURLs(c))
}

// checkPlace returns an error if the address or the URL of a member cannot be used. Either may be "". The library accepts any
// address, because a program may have a resolver. This store has no resolver.
func checkPlace(id raft.NodeID, address, url string) *admin.Error {
	var wrong error
	if address != "" {
		wrong = joining.CheckAddress(address)
	}
	if url != "" {
		wrong = cmp.Or(wrong, api.CheckURL(url))
	}
	if wrong != nil {
		return api.Errorf(admin.BadRequest, "raftkv members --help shows the commands that send changes", "member %q: %v", id, wrong)
	}
	return nil
}

func valueOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// checkURLs refuses to give a member the URL of another member, because clients would ask the wrong member.
func (s *Server) checkURLs(c raft.Change) *admin.Error {
	given := map[raft.NodeID]string{} // URLs that the change gives, by member
	for _, m := range c.Add {
		given[m.ID] = m.Meta
	}
	for _, u := range c.Update {
		given[u.Peer.ID] = valueOf(u.Meta)
	}
	for _, p := range c.Remove {
		given[p.ID] = ""
	}
	for _, r := range c.Replace {
		given[r.Old.ID] = ""
		given[r.New.ID] = r.New.Meta
	}
	for id, url := range given {
		for _, m := range s.node.Members().Configuration.Members {
			if _, changes := given[m.ID]; url != "" && m.Meta == url && !changes {
				return api.Errorf(admin.AddressInUse, "give each member its own URL; raftkv members shows them",
					"%s cannot have the URL %s: it is the URL of %s", id, url, m.ID)
			}
		}
	}
	return nil
}
