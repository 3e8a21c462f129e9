package member

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/hashicorp/go-hclog"
)

// Times for corrections of the member's entry.
const (
	lookPause    = 100 * time.Millisecond // pause between two looks at the configuration
	movePause    = time.Second            // average pause between two requests; it varies, so that members that moved together do not ask together
	movePauseMax = 30 * time.Second       // the same, after several failed requests
	moveTimeout  = 15 * time.Second       // limit of one request
)

// mover corrects the entry of this member in the configuration after a start, if the member has moved. Once the entry is
// right, the mover no longer changes it, because somebody may change the entry before the next move.
type mover struct {
	self   raft.Peer
	stated addresses
	// leader waits for a leader, members returns the configuration in force, and change asks the leader for a change of it.
	leader  func(context.Context) error
	members func() node.Members
	change  func(context.Context, raft.Change, raft.Index) error
	// right is called once the entry is right. Its argument is the entry.
	right func(raft.Member)
	log   hclog.Logger

	first  *raft.Member // the entry at the first refused request, unless the configuration had changed
	asked  bool         // the latest step made a request
	failed int          // failed requests in a row
	said   string       // the latest log line
}

// newMover returns the mover of a running member.
func newMover(o Options, stated addresses, n *node.Node, log hclog.Logger) *mover {
	m := &mover{
		self: raft.Peer{ID: raft.NodeID(o.ID), Incarnation: n.Status().Incarnation}, stated: stated, members: n.Members, log: log,
		leader: func(ctx context.Context) error { _, err := n.WaitLeader(ctx); return err },
		change: func(ctx context.Context, c raft.Change, ifIndex raft.Index) error {
			_, err := n.ChangeMembers(ctx, c, ifIndex)
			return err
		},
	}
	_, known := readAddresses(o.Data)
	m.right = func(entry raft.Member) {
		at := o.listens()
		if !known && stated.Raft == "" && at.Raft != "" && at.Raft != entry.Address {
			log.Info("the other members dial this one at another address than --raft-addr; if it has moved, start it with --advertise",
				"listens", at.Raft, "configuration", entry.Address)
		}
		if err := writeAddresses(o.Data, at.proven(entry)); err != nil {
			log.Warn("a change of --raft-addr or --http-addr will not be noticed at the next start", "error", err)
		}
	}
	return m
}

// run repeats the request until the entry of this member is right, or the context ends.
func (m *mover) run(ctx context.Context) {
	for {
		// A wiped member has no leader, but may still join.
		if err := m.leader(ctx); (err == nil || errors.Is(err, node.ErrWiped)) && m.step(ctx) || errors.Is(err, raft.ErrClosed) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(m.pause()):
		}
	}
}

// pause returns the wait before the next step. The wait is about movePause after a request, and longer while requests fail.
func (m *mover) pause() time.Duration {
	if !m.asked {
		return lookPause
	}
	pause := min(movePause<<min(m.failed, 10), movePauseMax)
	return pause/2 + rand.N(pause)
}

// step compares the entry with the command line, and asks for a correction if they differ. It reports whether nothing is left
// to do.
func (m *mover) step(ctx context.Context) (done bool) {
	now := m.members()
	entry, named := now.Peer(m.self)
	if named && now.Committed {
		m.yield(entry)
	}
	update, wrong := m.correction(entry)
	m.asked = false
	switch {
	case now.Index == 0 || !named || !now.Committed || now.Joint() || now.Changing(): // this member is joining, or a change is running
		return false
	case !wrong:
		if m.said != "" {
			m.log.Info("the configuration has the present addresses of this member", "configuration", now.Index, "address", entry.Address, "url", entry.Meta)
		}
		m.right(entry)
		return true
	}
	m.say("this member has moved; asking to correct the configuration", "configuration", now.Index,
		"was", entry.Address+" "+entry.Meta, "is", fmt.Sprint(m.stated.Raft, " ", m.stated.URL))
	m.asked = true
	asking, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	if err := m.change(asking, raft.Change{Update: []raft.Update{update}}, now.Index); err != nil && ctx.Err() == nil {
		m.failed++
		if later := (*raft.ConfigChangedError)(nil); m.first == nil && !errors.As(err, &later) {
			m.first = &entry
		}
		m.say("the configuration does not have the present addresses of this member yet", "error", err)
		return false
	}
	m.failed = 0
	return false // the next step sees it
}

// yield gives up the correction of each field that somebody else has changed since the first request. The later change wins.
func (m *mover) yield(entry raft.Member) {
	if m.first == nil {
		return
	}
	if entry.Address != m.first.Address {
		m.stated.Raft = ""
	}
	if entry.Meta != m.first.Meta {
		m.stated.URL = ""
	}
}

// correction returns the change that makes the entry right. wrong is false if the entry is already right.
func (m *mover) correction(entry raft.Member) (u raft.Update, wrong bool) {
	u.Peer = m.self
	if m.stated.Raft != "" && m.stated.Raft != entry.Address {
		u.Address = &m.stated.Raft
	}
	if m.stated.URL != "" && !sameURL(m.stated.URL, entry.Meta) {
		u.Meta = &m.stated.URL
	}
	return u, u.Address != nil || u.Meta != nil
}

// say logs a line, unless the line equals the latest one.
func (m *mover) say(what string, args ...any) {
	if line := what + fmt.Sprint(args...); line != m.said {
		m.said = line
		m.log.Info(what, args...)
	}
}
