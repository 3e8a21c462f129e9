package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/coxswain/raft"
)

// This file holds the requests that a member may forward: how its callers' calls become requests, and how the leader carries
// them out. Without Config.Forward, a call is carried out on this member or nowhere.

// forwardsCalls reports whether this member sends requests to the leader.
func (n *Node) forwardsCalls() bool { return n.cfg.Forward && n.forwards.bytesMax > 0 }

// forwardable reports whether a call that this member refused with err goes on to the leader.
func (n *Node) forwardable(err error) bool {
	if err == nil || !n.forwardsCalls() {
		return false // before anything is allocated for an error
	}
	var elsewhere *NotLeaderError
	return errors.As(err, &elsewhere)
}

// proposeAnywhere proposes a command, or an entry of a session, here, and otherwise on the leader. A leader pays nothing for it.
func (n *Node) proposeAnywhere(ctx context.Context, kind raft.EntryKind, cmd []byte) (Result, error) {
	if !n.forwardsCalls() || n.leads() {
		result, err := n.proposeEntry(ctx, kind, cmd)
		if !n.forwardable(err) {
			return result, n.withReason(err)
		}
	}
	as := raft.ForwardPropose
	if kind == raft.EntrySession {
		as = raft.ForwardSession
	}
	r, err := n.forwards.carry(ctx, as, slices.Clone(cmd), func() (raft.ForwardReply, error) {
		r, err := n.proposeEntry(ctx, kind, cmd)
		return raft.ForwardReply{Index: r.Index, EntryTerm: r.Term, Data: r.Data}, err
	})
	return Result{Index: r.Index, Term: r.EntryTerm, Data: r.Data}, err
}

// entryOf returns the kind of the entry that a forwarded proposal becomes; 0: the request is no proposal.
func entryOf(k raft.ForwardKind) raft.EntryKind {
	switch k {
	case raft.ForwardPropose:
		return raft.EntryCommand
	case raft.ForwardSession:
		return raft.EntrySession
	}
	return 0
}

// changeOnWire is a change of the members, as it is forwarded.
type changeOnWire struct {
	Change  raft.Change
	IfIndex raft.Index
}

// changeAnywhere changes the members here, and otherwise on the leader.
func (n *Node) changeAnywhere(ctx context.Context, c raft.Change, ifIndex raft.Index) (Members, error) {
	m, err := n.changeHere(ctx, 0, c, ifIndex)
	if !n.forwardable(err) {
		return m, n.withReason(err)
	}
	if err := metaProblem(c); err != nil {
		return Members{}, err
	}
	data, err := json.Marshal(changeOnWire{c, ifIndex})
	if err != nil {
		return Members{}, err
	}
	r, err := n.forwards.carry(ctx, raft.ForwardChange, data, func() (raft.ForwardReply, error) {
		return changed(n.changeHere(ctx, 0, c, ifIndex))
	})
	if err != nil {
		return Members{}, err
	}
	config, err := raft.DecodeConfiguration(r.Data)
	if r.Index == 1 && config.Level == 1 {
		config.Level = 0 // see changed
	}
	return Members{Configuration: config, Index: r.Index, Committed: true}, err
}

// metaProblem returns a *raft.ConfigError if the leader would get another Meta than that of the change: JSON carries only text.
func metaProblem(c raft.Change) error {
	var all []string
	for _, m := range c.Add {
		all = append(all, m.Meta)
	}
	for _, r := range c.Replace {
		all = append(all, r.New.Meta)
	}
	for _, u := range c.Update {
		if u.Meta != nil {
			all = append(all, *u.Meta)
		}
	}
	for _, meta := range all {
		if !utf8.ValidString(meta) {
			return &raft.ConfigError{Field: "Meta", Err: fmt.Errorf("%q is no UTF-8, so it cannot be forwarded: ask the leader itself", meta)}
		}
	}
	return nil
}

// changed returns the answer to a forwarded change. If that changes nothing, the members may still be those of the bootstrap, at
// index 1 and feature level 0. The encoding of a configuration begins with level 1, which no configuration at index 1 has.
func changed(m Members, err error) (raft.ForwardReply, error) {
	if err != nil {
		return raft.ForwardReply{}, err
	}
	m.Level = max(m.Level, 1)
	return raft.ForwardReply{Index: m.Index, Data: m.Encode()}, nil
}

// transferAnywhere transfers leadership from this member, and otherwise asks the leader to.
func (n *Node) transferAnywhere(ctx context.Context, to raft.NodeID) error {
	err := n.transferHere(ctx, 0, to)
	if !n.forwardable(err) {
		return n.withReason(err)
	}
	_, err = n.forwards.carry(ctx, raft.ForwardTransfer, []byte(to), func() (raft.ForwardReply, error) {
		return raft.ForwardReply{}, n.transferHere(ctx, 0, to)
	})
	return err
}

// carryOut carries out the request of another member that is no proposal, in the term that it is meant for.
func (n *Node) carryOut(ctx context.Context, term raft.Term, r raft.Forward) (raft.ForwardReply, error) {
	if r.Kind == raft.ForwardTransfer {
		return raft.ForwardReply{}, n.transferHere(ctx, term, raft.NodeID(r.Data))
	}
	var c changeOnWire
	strict := json.NewDecoder(bytes.NewReader(r.Data)) // a part of a change that this release does not know must not be left out
	strict.DisallowUnknownFields()
	if err := strict.Decode(&c); err != nil {
		return raft.ForwardReply{}, fmt.Errorf("raft: the members were not changed: the change cannot be read, upgrade the leader: %w", err)
	}
	m, err := n.changeHere(ctx, term, c.Change, c.IfIndex)
	n.counters.changedMembers(err)
	return changed(m, err)
}
