package joining

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// Pauses between two corrections of the entry.
const (
	movePause    = time.Second      // on average; it varies, so that members that moved together do not ask together
	movePauseMax = 30 * time.Second // the same, after several failures
	moveSoon     = 200 * time.Millisecond
)

// mover corrects the entry of a member in the configuration after a start. Once the entry is right, the mover leaves it alone in
// this run, because somebody may change the entry before the next move.
type mover struct {
	address, meta string // what the entry is to have; "": as it is
	right         bool
	asking        bool
	failed        int // failed requests in a row
	next          raft.Time
	entry         raft.Member   // at the open or last request
	first         *raft.Member  // the entry at the first refused request
	along         []raft.NodeID // members that have the address of this one or of each other, and have moved, too
	why           string        // the last failure; ""
	random        *rand.Rand
}

func newMover(cfg Config) mover {
	return mover{address: cfg.Address, meta: cfg.Meta, random: rand.New(rand.NewPCG(uint64(cfg.Self.Incarnation), 1))}
}

// correct asks for a correction of the entry if it is wrong. It looks at the entry while it waits for an answer, too: the answer may
// be lost, and the entry may be right and changed by somebody else before the wait ends.
func (m *mover) correct(now raft.Time, st State, s *Seeker, a *Action) {
	entry, named := st.Config.Peer(s.cfg.Self)
	if m.right || !named || st.Index == 0 || !st.Committed || st.Config.Joint() || st.Config.Changing() || st.Leader == "" {
		return
	}
	m.yield(entry)
	u, wrong := m.correction(entry)
	if !wrong {
		m.right, m.why = true, ""
		return
	}
	if m.asking || now < m.next {
		return
	}
	c := raft.Change{Update: []raft.Update{u}}
	for _, id := range m.along {
		other, _ := st.Config.Member(id)
		r := s.replyOf(id)
		if r == nil || r.From != other.Peer() || CheckAddress(r.Address) != nil {
			continue
		}
		if u, moved := correction(other, r.Address, ""); moved {
			c.Update = append(c.Update, u)
		}
	}
	m.asking, m.entry = true, entry
	a.Change, a.Index = &c, st.Index
}

// correction returns the change that makes the entry right.
func (m *mover) correction(entry raft.Member) (raft.Update, bool) {
	address := m.address
	if address == "" {
		address = entry.Address
	}
	return correction(entry, address, m.meta)
}

// yield gives up the correction of each field that somebody else has changed since the first refused request. The later change
// wins.
func (m *mover) yield(entry raft.Member) {
	if m.first == nil {
		return
	}
	if entry.Address != m.first.Address {
		m.address = ""
	}
	if entry.Meta != m.first.Meta {
		m.meta = ""
	}
}

// Changed takes the outcome of Action.Change.
func (s *Seeker) Changed(now raft.Time, err error) {
	m := &s.move
	m.asking = false
	var later *raft.ConfigChangedError
	var pending *raft.ChangePendingError
	var used *raft.AddressInUseError
	switch {
	case err == nil: // a later call of Next sees it
		m.failed, m.next = 0, now+raft.Time(movePause)
		return
	case errors.As(err, &later), errors.As(err, &pending): // others have moved, too
		m.next = now + raft.Time(moveSoon/2+m.draw(moveSoon))
		return
	case errors.As(err, &used) && !slices.Contains(m.along, used.By):
		m.along = append(m.along, used.By)
	}
	if m.first == nil {
		m.first = &m.entry
	}
	m.why = "the entry of this member is not right yet: " + err.Error()
	pause := min(movePause<<min(m.failed, 10), movePauseMax)
	m.failed++
	m.next = now + raft.Time(pause/2+m.draw(pause))
}

func (m *mover) draw(d time.Duration) time.Duration { return time.Duration(m.random.Int64N(int64(d))) }
