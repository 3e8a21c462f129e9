package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coxswain/raft/node"
)

// MissingWithout says why a voter must not be stopped now, as the leader whose status this is sees it: the other voters would
// not be a majority, or do not hold the leader's log up to the given entry. It returns "" if it may be stopped.
func (s *Status) MissingWithout(p Peer, held uint64) string {
	if s.Phase != "" {
		return "the voters change, " + s.Phase
	}
	voters, ready, late := 0, 0, []string(nil)
	for _, m := range s.Members {
		if m.Kind != StandingVoter {
			continue
		}
		voters++
		switch {
		case m.ID == p.ID && (p.Incarnation == "" || p.Incarnation == m.Incarnation):
		case m.Problem != "" && m.Verdict != node.VerdictAppliesLate:
			late = append(late, m.ID+": "+m.Problem)
		case m.Match < held:
			late = append(late, fmt.Sprintf("%s holds the log up to entry %d of %d", m.ID, m.Match, held))
		default:
			ready++
		}
	}
	needed := voters/2 + 1
	if ready >= needed {
		return ""
	}
	slices.Sort(late)
	return fmt.Sprintf("without %s, %d of %d voters hold what is acknowledged, and %d are needed; %s",
		p.ID, ready, voters, needed, strings.Join(late, "; "))
}

// Stopping is the answer to the question whether a member may be stopped.
type Stopping struct {
	Member    string     `json:"member"`
	May       bool       `json:"may_stop"`
	Says      string     `json:"says"` // why, or why not
	Diagnosis *Diagnosis `json:"diagnosis"`
}

const (
	stopPause = 100 * time.Millisecond // between two looks at voters that lack entries
	stopLooks = 20
)

// MayStop finds out whether a member may be stopped now: the others stay a majority, hold what the leader has committed, and one
// of them reaches a majority, so that it can lead. It asks as Diagnose does, and looks again for some seconds at most while voters are a few entries behind.
func MayStop(ctx context.Context, id string, urls []string, ask Ask) Stopping {
	var held uint64
	for look := 1; ; look++ {
		d := Diagnose(ctx, urls, ask)
		leader := d.Leader()
		if look == 1 && leader != nil {
			held = leader.Commit
		}
		s := mayStop(d, leader, id, held)
		if s.May || leader == nil || d.Severity == node.Outage || look == stopLooks || !strings.Contains(s.Says, "holds the log up to") {
			return s
		}
		select {
		case <-ctx.Done():
			return s
		case <-time.After(stopPause):
		}
	}
}

func mayStop(d *Diagnosis, leader *Status, id string, held uint64) Stopping {
	s := Stopping{Member: id, Diagnosis: d}
	if leader == nil {
		s.Says = "no leader answers, so nobody knows who holds what: first repair what the verdict names"
		return s
	}
	var is *MemberStatus
	voters := 0
	for i := range leader.Members {
		m := &leader.Members[i]
		if m.Kind == StandingVoter {
			voters++
		}
		if m.ID == id && (is == nil || m.Kind == StandingVoter) {
			is = m
		}
	}
	switch {
	case is == nil:
		s.Says = fmt.Sprintf("there is no member %s: raftkv members shows the members", id)
	case is.Kind != StandingVoter:
		s.May, s.Says = true, id+" has no vote, so it may be stopped at any time"
	case voters == 1:
		s.Says = id + " is the only voter: without it, nothing works"
	default:
		s.Says = cmp.Or(leader.MissingWithout(Peer{ID: id}, held), d.apartWithout(id, leader, voters/2+1))
		if s.May = s.Says == ""; !s.May {
			return s
		}
		s.Says = fmt.Sprintf("without %s, a majority of the voters works, and holds everything that %s has committed", id, leader.ID)
		if id == leader.ID {
			s.Says += "; it leads, and transfers its leadership when it is asked to end: raftkv members drain " + id + " does so first"
		}
	}
	return s
}

// apartWithout says which of the other voters do not reach each other, if none of them reaches a majority: then nobody could lead
// once this voter has stopped, although the leader hears all of them now. It returns "" if one does. Of a link to a voter that
// did not answer, only what the other end says is known.
func (d *Diagnosis) apartWithout(id string, leader *Status, needed int) string {
	cut := map[[2]string]bool{}
	for _, l := range d.Links {
		if !l.Works {
			cut[[2]string{l.Member, l.Hears}], cut[[2]string{l.Hears, l.Member}] = true, true
		}
	}
	var rest, pairs []string
	for _, m := range leader.Members {
		if m.Kind == StandingVoter && m.ID != id && (m.Problem == "" || m.Verdict == node.VerdictAppliesLate) {
			rest = append(rest, m.ID)
		}
	}
	for i, a := range rest {
		reached := 0
		for j, b := range rest {
			switch {
			case !cut[[2]string{a, b}]:
				reached++ // itself, too
			case i < j:
				pairs = append(pairs, a+" and "+b)
			}
		}
		if reached >= needed {
			return ""
		}
	}
	return fmt.Sprintf("without %s, %s do not reach each other", id, strings.Join(pairs, ", "))
}
