package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// changeMembers changes the members. If the change takes longer than a request may, the answer has status 202, and GET /members
// shows the progress.
func (h *handler) changeMembers(w http.ResponseWriter, r *http.Request) (int, any, error) {
	if err := checkJSON(r.Header); err != nil {
		return 0, nil, err
	}
	body, err := h.readBody(w, r)
	if err != nil {
		return 0, nil, err
	}
	asked, err := parseChange(body)
	if err != nil {
		return 0, nil, err
	}
	leave, err := enter(h.changes, "wait for a membership change")
	if err != nil {
		return 0, nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), ChangeTimeout)
	defer cancel()
	change, err := h.asChange(asked, h.upToDate(ctx))
	if err != nil {
		return 0, nil, err
	}
	now, err := h.member.ChangeMembers(ctx, change, raft.Index(asked.IfIndex))
	switch {
	case errors.Is(err, node.ErrOutcomeUnknown) && errors.Is(err, context.DeadlineExceeded):
		return http.StatusAccepted, Changed{Members: h.membersNow()}, nil
	case err != nil:
		return 0, nil, err
	}
	return http.StatusOK, Changed{Done: true, Members: describeMembers(now, h.member.Status())}, nil
}

// upToDate makes this member learn of the configuration in force. It returns false if it could not.
func (h *handler) upToDate(ctx context.Context) bool {
	if h.member.Status().Role == raft.Leader {
		return true
	}
	_, err := h.member.ReadIndex(ctx)
	return err == nil
}

// parseChange parses the body of POST /members. The error is an *Error.
func parseChange(body []byte) (Change, error) {
	var c Change
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
	return errorf(BadRequest, "the documentation of admin.Change shows what a change holds", format, args...)
}

// asChange converts the change for the library. If this member is not up to date, asChange leaves to the leader what depends on
// the configuration.
func (h *handler) asChange(c Change, upToDate bool) (raft.Change, error) {
	out := raft.Change{Cancel: c.Cancel}
	var errs []error
	kept := func(err error) { errs = append(errs, err) }
	for _, m := range c.Add {
		member, err := newMember(m)
		kept(err)
		out.Add = append(out.Add, member)
	}
	for _, row := range []struct {
		from []Peer
		to   *[]raft.Peer
	}{{c.Promote, &out.Promote}, {c.Demote, &out.Demote}, {c.Remove, &out.Remove}} {
		for _, p := range row.from {
			peer, err := asPeer(p)
			kept(err)
			*row.to = append(*row.to, peer)
		}
	}
	for _, r := range c.Replace {
		replacement, err := h.asReplacement(r, upToDate)
		kept(err)
		out.Replace = append(out.Replace, replacement)
	}
	for _, u := range c.Update {
		peer, err := asPeer(u.Peer)
		priority, wrong := asPriority(u)
		kept(cmp.Or(err, wrong))
		out.Update = append(out.Update, raft.Update{Peer: peer, Address: u.Address, Meta: u.URL, Priority: priority})
	}
	for _, id := range c.Despite {
		out.Despite = append(out.Despite, raft.NodeID(id))
	}
	if c.Patience != "" {
		patience, err := asDuration("patience", c.Patience)
		out.Patience = patience
		kept(err)
	}
	if c.LeaseDuration != "" {
		lease, err := asDuration("lease_duration", c.LeaseDuration)
		out.LeaseDuration = &lease
		kept(err)
	}
	if h.options.CheckChange != nil {
		if e := h.options.CheckChange(out); e != nil {
			kept(e)
		}
	}
	if upToDate && c.IfIndex == 0 { // with IfIndex, the library checks first whether that configuration is in force
		kept(h.checkIncarnations(out))
	}
	return out, errors.Join(errs...)
}

func asDuration(field, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		err = badChange("%s %q: write a time with its unit, as in 1m30s", field, text)
	}
	return d, err
}

func newMember(m NewMember) (raft.Member, error) {
	out := raft.Member{ID: raft.NodeID(m.ID), Address: m.Address, Meta: m.URL}
	switch m.Kind {
	case "", raft.Voter.String():
	case raft.Learner.String():
		out.Kind = raft.Learner
	default:
		return out, badChange("member %q: its kind is %q; use voter or learner", m.ID, m.Kind)
	}
	return out, nil
}

// asPeer converts the peer. Without an incarnation, the library chooses the incarnation, see raft.Change.
func asPeer(p Peer) (raft.Peer, error) {
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
func asPriority(u Update) (*raft.Priority, error) {
	if u.Priority == nil {
		return nil, nil
	}
	p, err := raft.PriorityOf(*u.Priority)
	if err != nil {
		err = errorf(BadRequest, "the documentation of raft.Priority says more",
			"member %q: priority %d: it takes 1 to %d, or 0 for a member that should never lead", u.ID, *u.Priority, raft.PriorityMax)
	}
	return &p, err
}

// asReplacement adds fields that the body leaves out: the id of the old member, and the address and URL of the member with
// the new id.
func (h *handler) asReplacement(r Replacement, upToDate bool) (raft.Replacement, error) {
	old, err := asPeer(r.Old)
	if err != nil {
		return raft.Replacement{}, err
	}
	by, err := newMember(r.New)
	by.ID = cmp.Or(by.ID, old.ID)
	status := h.member.Status()
	if err == nil && upToDate && by.ID == status.Leader {
		err = errorf(MemberUnreachable, "POST /transfer makes another member the leader; then send the same change again",
			"%s leads, and cannot be replaced by itself", by.ID)
	}
	if err != nil || by.Address != "" && by.Meta != "" {
		return raft.Replacement{Old: old, New: by}, err
	}
	known := h.member.Members()
	was, found := standsIn(known.Configuration, old, by.ID)
	if !found && !upToDate {
		return raft.Replacement{Old: old, New: by}, &node.NotLeaderError{Leader: status.LeaderMember}
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

// checkIncarnations refuses a change that names an unknown incarnation of a known id. It also refuses to give a vote to an id
// that belongs to both a voter and a learner. While a change is under way, the library judges the request instead, because the
// request may ask again for the same change.
func (h *handler) checkIncarnations(c raft.Change) error {
	members := h.member.Members()
	known := members.Configuration
	if !members.Committed || known.Joint() || known.Changing() {
		return nil
	}
	named := slices.Concat(c.Promote, c.Demote, c.Remove)
	for _, r := range c.Replace {
		named = append(named, r.Old)
	}
	for _, u := range c.Update {
		named = append(named, u.Peer)
	}
	for _, p := range c.Promote {
		voter, _ := known.Member(p.ID)
		if by, _ := standsIn(known, voter.Peer(), p.ID); p.Incarnation == 0 && voter.Kind == raft.Voter && by.Kind == raft.Learner {
			return errorf(MemberExists, fmt.Sprintf("a replacement of %s puts the learner in the place of the voter", p.ID),
				"the members were not changed: two members have the id %s, the voter with the incarnation %v, and the learner with %v",
				p.ID, voter.Incarnation, by.Incarnation)
		}
	}
	for _, p := range named {
		if _, found := known.Peer(p); found || p.Incarnation == 0 {
			continue
		}
		if m, found := known.Member(p.ID); found {
			return errorf(UnknownMember, "GET /members shows the incarnations",
				"the members were not changed: no %s has the incarnation %v; there is one with %v", p.ID, p.Incarnation, m.Incarnation)
		}
	}
	return nil
}
