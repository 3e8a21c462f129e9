package joining

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coxswain/raft"
)

const (
	// petitionsMax bounds the members whose petitions are carried out at the same time.
	petitionsMax = 16
	// A caller with which contact has failed waits for contactPause, doubled with each failure, up to contactPauseMax.
	contactPause    = time.Second
	contactPauseMax = time.Minute
)

// Petitions is what a leader remembers of those who ask to join. The zero value has heard of nobody. Its methods must not be
// called at the same time.
type Petitions struct {
	grant Grant
	open  []raft.Peer // for which a change is being made
	// waiting holds the callers that could not be reached lately, or whose store may not join. Contact with them would keep others
	// from joining, so each of them waits.
	waiting []waiting
}

// waiting says until when a caller is not contacted again, and for how long it waits then.
type waiting struct {
	id    raft.NodeID
	until raft.Time
	pause time.Duration
	err   error
}

// Begin decides about a petition, as Grant.Decide does. If the decision has a Change, it counts as being made until the call of
// Ended. Meanwhile no other incarnation of the id gets one.
func (p *Petitions) Begin(now raft.Time, q raft.Who, l Leader) (Decision, error) {
	for _, of := range p.open {
		switch {
		case of == q.From:
			return Decision{}, ErrPetitionOpen
		case of.ID == q.From.ID:
			return Decision{}, fmt.Errorf("raft: another incarnation of %s, %v, is joining at this moment: end one of the two", of.ID, of.Incarnation)
		}
	}
	if i := p.waits(q.From.ID); i >= 0 && now < p.waiting[i].until {
		return Decision{}, p.waiting[i].err
	}
	d, err := p.grant.Decide(now, q, l)
	switch {
	case err != nil || d.Change == nil:
		return Decision{}, err
	case len(p.open) >= petitionsMax:
		return Decision{}, fmt.Errorf("raft: %d members are joining at this moment: ask again later", len(p.open))
	}
	p.open = append(p.open, q.From)
	return d, nil
}

// ErrPetitionOpen says that the change for a petitioner has not ended yet.
var ErrPetitionOpen = errors.New("raft: this is being done: ask again")

// Ended notes that the change of Begin has ended. err is why contact with the caller has failed; otherwise it is nil.
func (p *Petitions) Ended(now raft.Time, of raft.Peer, err error) {
	p.open = slices.DeleteFunc(p.open, func(o raft.Peer) bool { return o == of })
	u := waiting{id: of.ID, err: err}
	if i := p.waits(of.ID); i >= 0 {
		u.pause = p.waiting[i].pause
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
	if err == nil {
		return
	}
	if len(p.waiting) >= petitionsMax {
		p.waiting = nil
	}
	u.pause = min(max(2*u.pause, contactPause), contactPauseMax)
	u.until = now + raft.Time(u.pause)
	p.waiting = append(p.waiting, u)
}

func (p *Petitions) waits(id raft.NodeID) int {
	return slices.IndexFunc(p.waiting, func(u waiting) bool { return u.id == id })
}

// Place is as Grant.Place.
func (p *Petitions) Place(now raft.Time, by raft.Peer, of raft.Member, l Leader) error {
	return p.grant.Place(now, by, of, l)
}
