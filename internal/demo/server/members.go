package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/transport"
)

// members answers with the configuration in force, as this member knows it. It never waits.
func (s *Server) members(*http.Request, []byte) answer { return reply(http.StatusOK, s.membersNow()) }

func (s *Server) membersNow() api.Members { return describeMembers(s.node.Members(), s.node.Status()) }

// changeMembers changes the members. If the change takes longer than a request may, the answer has status 202, and GET /members
// shows the progress.
func (s *Server) changeMembers(r *http.Request, body []byte) answer {
	select {
	case s.changing <- struct{}{}:
		defer func() { <-s.changing }()
	default:
		return fail(api.Errorf(api.Overloaded, "try again in a second", "%d requests wait for a membership change", ChangesMax))
	}
	if err := checkJSON(r.Header); err != nil {
		return fail(explain(err))
	}
	asked, err := parseChange(body)
	if err != nil {
		return fail(explain(err))
	}
	change, err := s.asChange(asked)
	if err != nil {
		return s.failOrForward(r, body, err)
	}
	ctx, cancel := r.Context(), context.CancelFunc(func() {})
	if r.Header.Get(api.ForwardedHeader) != "" { // the member that forwarded it must get the answer before it gives up
		ctx, cancel = context.WithTimeout(ctx, ChangeTimeout-forwardDialTimeout)
	}
	defer cancel()
	now, err := s.node.ChangeMembers(ctx, change, raft.Index(asked.IfIndex))
	switch {
	case errors.Is(err, node.ErrOutcomeUnknown) && errors.Is(err, context.DeadlineExceeded):
		return reply(http.StatusAccepted, api.Changed{Members: s.membersNow()})
	case err != nil:
		return s.failOrForward(r, body, err)
	}
	return reply(http.StatusOK, api.Changed{Done: true, Members: describeMembers(now, s.node.Status())})
}

// parseChange parses the body of POST /members. The error is an *api.Error.
func parseChange(body []byte) (api.Change, error) {
	var c api.Change
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	if err := in.Decode(&c); err != nil {
		return c, badChange("it is not a change in JSON: %v", err)
	}
	if in.More() {
		return c, badChange("something follows the change")
	}
	return c, nil
}

func badChange(format string, args ...any) error {
	return api.Errorf(api.BadRequest, "raftkv members --help shows the commands that send changes", format, args...)
}

// asChange converts the change for the library.
func (s *Server) asChange(c api.Change) (raft.Change, error) {
	out := raft.Change{Cancel: c.Cancel}
	var errs []error
	kept := func(err error) { errs = append(errs, err) }
	for _, m := range c.Add {
		member, err := newMember(m)
		kept(err)
		out.Add = append(out.Add, member)
	}
	for _, row := range []struct {
		from []api.Peer
		to   *[]raft.Peer
	}{{c.Promote, &out.Promote}, {c.Demote, &out.Demote}, {c.Remove, &out.Remove}} {
		for _, p := range row.from {
			peer, err := asPeer(p)
			kept(err)
			*row.to = append(*row.to, peer)
		}
	}
	for _, r := range c.Replace {
		replacement, err := s.asReplacement(r)
		kept(err)
		out.Replace = append(out.Replace, replacement)
	}
	for _, u := range c.Update {
		peer, err := asPeer(u.Peer)
		priority, wrong := asPriority(u)
		kept(cmp.Or(err, wrong, checkPlace(u.ID, valueOf(u.Address), valueOf(u.URL))))
		out.Update = append(out.Update, raft.Update{Peer: peer, Address: u.Address, Meta: u.URL, Priority: priority})
	}
	for _, id := range c.Despite {
		out.Despite = append(out.Despite, raft.NodeID(id))
	}
	if c.Patience != "" {
		patience, err := time.ParseDuration(c.Patience)
		if out.Patience = patience; err != nil {
			kept(badChange("patience %q: write a time with its unit, as in 1m30s", c.Patience))
		}
	}
	kept(s.checkURLs(out))
	if c.IfIndex == 0 { // with IfIndex, the library checks first whether that configuration is in force
		kept(s.checkIncarnations(out))
	}
	return out, errors.Join(errs...)
}

func newMember(m api.NewMember) (raft.Member, error) {
	out := raft.Member{ID: raft.NodeID(m.ID), Address: m.Address, Meta: m.URL}
	switch m.Kind {
	case "", raft.Voter.String():
	case raft.Learner.String():
		out.Kind = raft.Learner
	default:
		return out, badChange("member %q: its kind is %q; use voter or learner", m.ID, m.Kind)
	}
	return out, checkPlace(m.ID, m.Address, m.URL)
}

// asPeer converts the peer. Without an incarnation, the library chooses the incarnation, see raft.Change.
func asPeer(p api.Peer) (raft.Peer, error) {
	if p.Incarnation == "" {
		return raft.Peer{ID: raft.NodeID(p.ID)}, nil
	}
	incarnation, err := strconv.ParseUint(p.Incarnation, 16, 64)
	if err != nil {
		err = badChange("member %q: %q is not an incarnation; write 16 hexadecimal digits, as GET /members does", p.ID, p.Incarnation)
	}
	return raft.Peer{ID: raft.NodeID(p.ID), Incarnation: raft.Incarnation(incarnation)}, err
}

// asPriority converts the priority of an update; nil if it sets none.
func asPriority(u api.Update) (*raft.Priority, error) {
	if u.Priority == nil {
		return nil, nil
	}
	p, err := raft.PriorityOf(*u.Priority)
	if err != nil {
		err = api.Errorf(api.BadRequest, "raftkv members priority --help says more",
			"member %q: priority %d: it takes 1 to %d, or 0 for a member that should never lead", u.ID, *u.Priority, raft.PriorityMax)
	}
	return &p, err
}

// asReplacement adds fields that the body leaves out: the id of the old member, and the address and URL of the member with
// the new id. If this member does not know that address and URL, it leaves the request to the leader.
func (s *Server) asReplacement(r api.Replacement) (raft.Replacement, error) {
	old, err := asPeer(r.Old)
	if err != nil {
		return raft.Replacement{}, err
	}
	by, err := newMember(r.New)
	by.ID = cmp.Or(by.ID, old.ID)
	status := s.node.Status()
	if err == nil && status.Role == raft.Leader && string(by.ID) == s.id {
		err = api.Errorf(api.MemberUnreachable, "raftkv transfer makes another member the leader; then run the same command again",
			"%s leads, and cannot be replaced by itself", s.id)
	}
	if err != nil || by.Address != "" && by.Meta != "" {
		return raft.Replacement{Old: old, New: by}, err
	}
	known := s.node.Members()
	was, found := standsIn(known.Configuration, old, by.ID)
	if !found && status.Role != raft.Leader {
		return raft.Replacement{}, &node.NotLeaderError{Leader: status.LeaderMember}
	}
	if !found {
		return raft.Replacement{}, &raft.UnknownMemberError{ID: by.ID, Known: idsOf(known)}
	}
	by.Address, by.Meta = cmp.Or(by.Address, was.Address), cmp.Or(by.Meta, was.Meta)
	return raft.Replacement{Old: old, New: by}, nil
}

// standsIn returns the member with this id that is to replace the old member. If two members have the id, standsIn returns
// the one that is not the old member.
func standsIn(c raft.Configuration, old raft.Peer, id raft.NodeID) (raft.Member, bool) {
	if old.Incarnation == 0 {
		m, _ := c.Member(old.ID)
		old = m.Peer()
	}
	for _, m := range c.Members {
		if m.ID == id && m.Peer() != old {
			return m, true
		}
	}
	return c.Member(id)
}

func idsOf(m node.Members) (ids []raft.NodeID) {
	for i, member := range m.Configuration.Members {
		if i == 0 || member.ID != m.Configuration.Members[i-1].ID {
			ids = append(ids, member.ID)
		}
	}
	return ids
}

// explainChange returns the API's error for an error of a membership change, with the command that helps. It returns nil for
// any other error. Some errors of membership changes also match the error of a context that has ended.
func explainChange(err error) *api.Error {
	if e := explainMember(err); e != nil {
		return e
	}
	var pending *raft.ChangePendingError
	var changed *raft.ConfigChangedError
	var last *raft.LastVoterError
	var standbys *raft.NotElectableError
	var priority *raft.PriorityError
	var silent *raft.QuorumLossError
	var earlier *raft.EarlierReleaseError
	var field *raft.ConfigError
	switch {
	case errors.As(err, &pending) && pending.Joint:
		return api.Errorf(api.ChangePending, "try again when it is done; raftkv members shows it", "%v", err)
	case errors.As(err, &pending):
		return api.Errorf(api.ChangePending, "try again when it is done; raftkv members shows it, and raftkv members cancel ends it", "%v", err)
	case errors.As(err, &changed):
		return api.Errorf(api.ConfigChanged, "look at raftkv members, and decide again", "%v", err)
	case errors.As(err, &last):
		return api.Errorf(api.LastVoter, "raftkv members add ID ADDRESS URL adds another voter", "%v", err)
	case errors.As(err, &standbys):
		return api.Errorf(api.NotElectable, fmt.Sprintf("raftkv members priority %s 1 lets it lead; then try again", cmp.Or(standbys.Raise, "ID")), "%v", err)
	case errors.As(err, &priority) && priority.Learner:
		return api.Errorf(api.BadRequest, fmt.Sprintf("raftkv members add %s makes it a voter", priority.ID), "%v", err)
	case errors.As(err, &silent):
		return api.Errorf(api.QuorumLoss, "bring them back; if enough of them will return: --despite "+joined(silent.Silent, ","), "%v", err)
	case errors.As(err, &earlier):
		return api.Errorf(api.EarlierRelease, "upgrade "+joined(earlier.IDs, ", ")+" first, then try again", "%v", err)
	case errors.As(err, &field):
		return api.Errorf(api.BadRequest, "see raftkv members --help", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// explainMember is like explainChange, for errors about one member.
func explainMember(err error) *api.Error {
	var late *raft.CatchUpError
	var unknown *raft.UnknownMemberError
	var exists *raft.MemberExistsError
	var unreachable *node.UnreachableError
	var insecure *transport.InsecureError
	var full *raft.NotEmptyError
	var before *raft.WasRemovedError
	var used *raft.AddressInUseError
	switch {
	case errors.As(err, &late):
		return api.Errorf(api.GivenUp, "run the same command again: it continues from there; --patience waits longer", "%v", err)
	case errors.Is(err, raft.ErrChangeGivenUp):
		return api.Errorf(api.GivenUp, "raftkv members shows what is left of it; run the same command again: it continues from there", "%v", err)
	case errors.As(err, &unknown):
		return api.Errorf(api.UnknownMember, "raftkv members shows the members", "%v", err)
	case errors.As(err, &exists) && exists.Answers:
		return api.Errorf(api.MemberRuns, "raftkv members --json shows the incarnations", "%v", err)
	case errors.As(err, &exists):
		id := exists.Member.ID
		return api.Errorf(api.MemberExists, fmt.Sprintf("if it has moved: raftkv members address %s ADDRESS URL; "+
			"if its disk was lost: raftkv members replace %s", id, id), "%v", err)
	case errors.As(err, &unreachable) && errors.As(err, &insecure):
		return api.Errorf(api.MemberUnreachable, "start all members with --tls-cert, --tls-key and --tls-ca, or with --insecure on a private network",
			"the members were not changed: %s at %s: other machines reach that address, and there is no TLS", unreachable.ID, unreachable.Address)
	case errors.As(err, &unreachable):
		return api.Errorf(api.MemberUnreachable, fmt.Sprintf("check that %s runs, that it listens at %s, and that it can reach this member",
			unreachable.ID, unreachable.Address), "%v", err)
	case errors.As(err, &full) && full.Removed > 0:
		return api.Errorf(api.WasRemoved, fmt.Sprintf("start %s with an empty --data directory", full.ID), "%v", err)
	case errors.As(err, &full):
		return api.Errorf(api.NotEmpty, fmt.Sprintf("start %s with an empty --data directory", full.ID), "%v", err)
	case errors.As(err, &before):
		return api.Errorf(api.WasRemoved, fmt.Sprintf("start %s with an empty --data directory", before.ID), "%v", err)
	case errors.As(err, &used):
		return api.Errorf(api.AddressInUse, "give each member its own address; raftkv members shows them", "%v", err)
	}
	return nil
}

func joined(ids []raft.NodeID, separator string) string {
	texts := make([]string, 0, len(ids))
	for _, id := range ids {
		texts = append(texts, string(id))
	}
	return strings.Join(texts, separator)
}
