package cli

import (
	"cmp"
	"slices"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
)

// goal decides whether a membership change is done. A command keeps no state. It compares the present configuration with the
// configuration that it found at its start.
type goal struct {
	// reached reports whether nothing is left to do. The command calls it while no change runs.
	reached func(first, now admin.Members) bool
	// already reports whether the change was made before. The command calls it if a server refuses the change because a
	// member is there, or because a member is not there.
	already func(now admin.Members) bool
	joins   string // the id of the member that is to become a voter; "" if there is none
	// sameID is true if the new member has the same id as the member that it replaces. In that case, the id alone does not
	// show that the change was made. Only a member that itself has answered may be the new one.
	sameID bool
}

// refusedAsDone reports whether a change was refused because it was made before.
func (g goal) refusedAsDone(err error, now admin.Members) bool {
	switch api.CodeOf(err) {
	case admin.MemberExists:
		return g.shows(now) && !g.sameID
	case admin.UnknownMember, admin.MemberRuns:
		return g.shows(now)
	}
	return false
}

// shows reports whether a committed configuration shows that the change was made before.
func (g goal) shows(now admin.Members) bool {
	return now.Change == nil && now.Committed && g.already(now)
}

// state returns this goal: the member is the only one with its id, it has this kind, address and URL, and its disk is not
// lost. An argument "" matches anything. If the caller names the incarnation, another member may have the same id.
func state(p admin.Peer, kind, address, url string) goal {
	is := func(now admin.Members) bool {
		of := slices.DeleteFunc(now.Of(p.ID), func(m admin.ClusterMember) bool { return !isMember(p, m) })
		return len(of) == 1 && !of[0].Replace && (kind == "" || of[0].Kind == kind) &&
			(address == "" || of[0].Address == address) && (url == "" || of[0].URL == url)
	}
	return goal{reached: func(_, now admin.Members) bool { return is(now) }, already: is}
}

// allOf returns the goal that all of the given goals are reached.
func allOf(goals []goal) goal {
	already := func(now admin.Members) bool {
		return !slices.ContainsFunc(goals, func(g goal) bool { return !g.already(now) })
	}
	return goal{reached: func(_, now admin.Members) bool { return already(now) }, already: already}
}

// voting returns the goal that the member is a voter at this address.
func voting(p admin.Peer, address, url string) goal {
	g := state(p, admin.StandingVoter, address, url)
	g.joins = p.ID
	return g
}

// demoted returns the goal that the member has no vote. Without an incarnation, the goal applies to any member with the id.
func demoted(p admin.Peer) goal {
	is := func(now admin.Members) bool {
		of := slices.DeleteFunc(now.Of(p.ID), func(m admin.ClusterMember) bool { return !isMember(p, m) })
		return len(of) > 0 && !slices.ContainsFunc(of, func(m admin.ClusterMember) bool { return m.Kind != admin.StandingLearner })
	}
	return goal{reached: func(_, now admin.Members) bool { return is(now) }, already: is}
}

// isMember reports whether a peer names the member. Without an incarnation, the id suffices.
func isMember(p admin.Peer, m admin.ClusterMember) bool {
	return m.ID == p.ID && (p.Incarnation == "" || m.Incarnation == p.Incarnation)
}

// located returns the goal that the member has this address and, unless it is "", this URL.
func located(p admin.Peer, address, url string) goal {
	return of(p, func(m admin.ClusterMember) bool { return m.Address == address && (url == "" || m.URL == url) })
}

// preferred returns the goal that the member has this priority.
func preferred(p admin.Peer, priority int) goal {
	return of(p, func(m admin.ClusterMember) bool { return m.Priority != nil && *m.Priority == priority })
}

// leased returns the goal that leases last this long.
func leased(d time.Duration) goal {
	is := func(now admin.Members) bool {
		lasts, _ := time.ParseDuration(cmp.Or(now.LeaseDuration, "0s"))
		return lasts == d
	}
	return goal{reached: func(_, now admin.Members) bool { return is(now) }, already: is}
}

// of returns a goal for one member. Without an incarnation, the goal applies to the voter with that id, or to the only member
// with that id.
func of(p admin.Peer, holds func(admin.ClusterMember) bool) goal {
	is := func(now admin.Members) bool {
		if p.Incarnation != "" {
			return holds(now.Member(p))
		}
		return holds(roleOf(now, p.ID))
	}
	return goal{reached: func(_, now admin.Members) bool { return is(now) }, already: is}
}

// gone returns the goal that there is no such member. Without an incarnation, the goal applies to any member with the id.
func gone(p admin.Peer) goal {
	isThere := func(now admin.Members) bool {
		return slices.ContainsFunc(now.Members, func(m admin.ClusterMember) bool { return isMember(p, m) })
	}
	return goal{
		reached: func(_, now admin.Members) bool { return !isThere(now) },
		already: func(now admin.Members) bool {
			return !isThere(now) && slices.ContainsFunc(now.Removed, func(r admin.Removed) bool {
				return r.ID == p.ID && (p.Incarnation == "" || r.Incarnation == p.Incarnation)
			})
		},
	}
}

// replaced returns this goal: the new member is the only one with its id, and the old member is gone.
func replaced(old admin.Peer, by admin.NewMember) goal {
	there := state(admin.Peer{ID: by.ID}, "", by.Address, by.URL).already
	if by.ID != old.ID {
		left := gone(old)
		return goal{
			joins:   by.ID,
			reached: func(first, now admin.Members) bool { return there(now) && left.reached(first, now) },
			already: func(now admin.Members) bool { return there(now) && left.already(now) },
		}
	}
	return goal{
		joins: old.ID, sameID: true,
		reached: func(first, now admin.Members) bool {
			was := cmp.Or(old.Incarnation, roleOf(first, old.ID).Incarnation)
			return there(now) && now.Of(old.ID)[0].Incarnation != was
		},
		already: func(now admin.Members) bool { return there(now) && (old.Incarnation == "" || gone(old).already(now)) },
	}
}

// roleOf returns the member with that id. If two members have the id, roleOf returns the voter, because the other member is
// to take the role of the voter.
func roleOf(m admin.Members, id string) (member admin.ClusterMember) {
	for i, of := range m.Of(id) {
		if i == 0 || of.Kind == admin.StandingVoter {
			member = of
		}
	}
	return member
}
