package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
)

const (
	// petitionMax bounds the time of one change that a petition asks for. The change itself continues, as after any call of
	// ChangeMembers whose context ends.
	petitionMax = 15 * time.Second
	// placePause is the time between two looks at a member that is to be replaced.
	placePause = 100 * time.Millisecond
)

// petitions carries out, on the leader, what callers of Who ask for. A petition only ever concerns the id of its caller, which
// the transport has checked. joining.Petitions decides.
type petitions struct {
	node *Node

	mu    sync.Mutex
	rules joining.Petitions
	open  map[raft.Peer]*petition
}

// petition is a change that is being carried out for a caller.
type petition struct {
	done chan struct{}
	err  error // set before done is closed
}

func newPetitions(n *Node) *petitions {
	return &petitions{node: n, open: make(map[raft.Peer]*petition)}
}

// answer returns nil once the caller is a member, and otherwise why it is not, or not yet. It waits until ctx ends for the
// outcome of a change that it begins.
func (p *petitions) answer(ctx context.Context, q raft.Who) error {
	for {
		begun, err := p.begin(q)
		if begun == nil {
			return err
		}
		select {
		case <-begun.done:
			if begun.err != nil {
				return begun.err
			}
		case <-ctx.Done():
			return joining.ErrPetitionOpen
		}
	}
}

// begin decides about a petition, and begins the change that follows from it. It returns the change that runs for the caller,
// or nil for none.
func (p *petitions) begin(q raft.Who) (*petition, error) {
	n := p.node
	now, _ := n.watched.load()
	if now.Role != raft.Leader {
		return nil, n.notLeader(now.Leader, "")
	}
	switch {
	case !n.cfg.Forward:
		return nil, fmt.Errorf("raft: the leader, %s, takes no requests from others (Config.Forward): add this member there", n.cfg.ID)
	case n.cfg.NoRemoteChanges:
		return nil, &RemoteChangesError{Leader: n.cfg.ID}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if begun := p.open[q.From]; begun != nil {
		return begun, nil
	}
	decision, err := p.rules.Begin(n.now().Mono, q, n.knownOf(q.From, now))
	if err != nil || decision.Change == nil {
		return nil, err
	}
	begun := &petition{done: make(chan struct{})}
	p.open[q.From] = begun
	n.wg.Go(func() { p.carryOut(begun, q.From, now.Term, decision) })
	return begun, nil
}

// takenPlace is the place of a member that another incarnation of its id is to take.
type takenPlace struct {
	of raft.Member
	by raft.Peer
}

// takenPlaces returns the places that a change takes. There was contact with the new incarnations. One that has answered at the
// address of the former one proves that this one is gone.
func takenPlaces(c raft.Change, in raft.Configuration) (places []takenPlace) {
	for _, r := range c.Replace {
		old, named := in.Member(r.Old.ID)
		if r.Old.Incarnation != 0 {
			old, named = in.Peer(r.Old)
		}
		if by := r.New.Peer(); named && by.ID == old.ID && by != old.Peer() && r.New.Address != old.Address {
			places = append(places, takenPlace{old, by})
		}
	}
	return places
}

// awaitPlaces waits until each member that another incarnation of its id is to replace may be replaced, by the rules for petitions. It
// fails as soon as the leader hears one of the former incarnations.
func (p *petitions) awaitPlaces(ctx context.Context, c raft.Change) error {
	n := p.node
	places := takenPlaces(c, n.Members().Configuration)
	term, began := raft.Term(0), n.now().Mono
	for len(places) > 0 {
		led, _ := n.watched.load()
		if term = cmp.Or(term, led.Term); led.Role != raft.Leader || led.Term != term {
			return n.notLeader(led.Leader, "")
		}
		err, final := p.inUse(places, led, began)
		if err == nil || final {
			return err
		}
		pause := time.NewTimer(placePause)
		select {
		case <-pause.C:
		case <-n.stop:
			pause.Stop()
			return n.ended()
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("%w (%w)", err, ctx.Err())
		}
	}
	return nil
}

// inUse returns why one of the places may not be taken now. It looks at all of them, so that the silence of each counts. It is final
// if that member runs.
func (p *petitions) inUse(places []takenPlace, led raft.Leadership, began raft.Time) (why error, final bool) {
	n := p.node
	for _, place := range places {
		now, known := n.now().Mono, n.knownOf(place.by, led)
		p.mu.Lock()
		err := p.rules.Place(now, place.by, place.of, known)
		p.mu.Unlock()
		if err == nil {
			continue
		}
		i := slices.IndexFunc(known.Seen, func(s joining.Seen) bool { return s.Peer == place.of.Peer() })
		if i < 0 || known.Seen[i].Silence < time.Duration(now-began) {
			return err, true
		}
		why = err
	}
	return why, false
}

func (p *petitions) carryOut(begun *petition, of raft.Peer, term raft.Term, d joining.Decision) {
	n := p.node
	ctx, cancel := context.WithTimeout(context.Background(), petitionMax)
	defer cancel()
	_, err := n.changeHere(ctx, term, *d.Change, d.Index)
	n.counters.changedMembers(err)
	var failed error
	if contactFailed(err) {
		failed = err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, of)
	p.rules.Ended(n.now().Mono, of, failed)
	begun.err = err
	close(begun.done)
}

// contactFailed reports whether contact would fail again soon with the same error.
func contactFailed(err error) bool {
	var silent *UnreachableError
	var store *raft.NotEmptyError
	var removed *raft.WasRemovedError
	return errors.As(err, &silent) || errors.As(err, &store) || errors.As(err, &removed)
}

// knownOf returns what this leader knows when a petition of the caller arrives.
func (n *Node) knownOf(caller raft.Peer, led raft.Leadership) joining.Leader {
	m := n.Members()
	known := joining.Leader{
		Self: n.identity.self, ClusterName: n.cfg.Cluster, Config: m.Configuration, Index: m.Index, Committed: m.Committed,
	}
	office := n.history.inOffice(n.now().Mono, led)
	for _, other := range m.Members {
		if other.ID != caller.ID || other.Peer() == caller || other.Peer() == n.identity.self {
			continue
		}
		last := n.connection(other.Peer())
		seen := joining.Seen{Peer: other.Peer(), RefusedFor: last.RefusedFor, Silence: office}
		heard, refusal, _ := n.identity.seen(other.Peer())
		if !heard.IsZero() {
			seen.Silence = min(office, time.Since(heard))
		}
		// An answer counts only while it is the last one: the member itself may answer at another of its addresses, or later.
		var rejected *raft.Rejection
		if refusal != nil && refusal.Reason == raft.RejectWrongIncarnation && refusal.From.ID == caller.ID &&
			errors.As(last.Err, &rejected) && rejected.From == refusal.From {
			seen.Answers = refusal.From.Incarnation
		}
		known.Seen = append(known.Seen, seen)
	}
	return known
}
