package joining

import (
	"errors"
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// Times of a seeker.
const (
	roundMax    = time.Second      // longest pause between two rounds of questions
	roundMin    = roundMax >> 4    // the first one; it doubles
	AskMax      = 2 * time.Second  // after which a silent address counts as failed
	PetitionMax = 20 * time.Second // the same, of an address that was asked with a petition
	lostMax     = 2 * time.Second  // time without a leader after which a member that was settled asks again
	lookPause   = 100 * time.Millisecond
)

// State is what the member's own store holds, and what the member knows of its cluster.
type State struct {
	Cluster   raft.ClusterID // whose entry 1 the store holds; zero: none
	Term      raft.Term
	Leader    raft.NodeID        // "": none is known
	Config    raft.Configuration // in force
	Index     raft.Index         // of Config; 0: there is no cluster yet
	Committed bool               // whether Config is known to be committed
}

func (st *State) uninitialized() bool { return st.Cluster == raft.ClusterID{} && st.Term == 0 }

// Action is what a member does after a call of Next, in the order of the fields. All of it is optional.
type Action struct {
	// Heard is the answer by which this member has heard of a cluster. Tell the core before anything else happens.
	Heard *raft.WhoReply
	// List is the list of initial members, to be given to the core. Addresses may be open ("") in it, except in the list of the
	// founder with the lowest id.
	List    []raft.Member
	Resolve bool       // look the seeds up, and call Resolved
	Ask     []Question // ask each of them, and call Answered
	// Change corrects this member's entry in the configuration, which must be that of Index. Call Changed with its outcome.
	Change *raft.Change
	Index  raft.Index
	Wake   raft.Time // when to call Next again, at the latest
}

// Question is asked at one address, for at most Timeout.
type Question struct {
	Address string
	Who     raft.Who
	Timeout time.Duration
}

// Seeker looks for the cluster of one member, in one run of its process. Call Next at the start, after each other call, and at
// Action.Wake.
type Seeker struct {
	cfg       Config
	places    []place
	resolving bool
	unknown   string    // why the seeds could not be resolved, or not all of them; ""
	next      raft.Time // when the next round begins
	pause     time.Duration
	began     bool // the seeds were resolved once
	seeded    bool // each seed that is known now has answered or failed once (rule 3)
	settled   bool // this member was a member with a leader when Next was last called, or looks for none
	lost      raft.Time

	heard *raft.WhoReply // the first answer by which a cluster was heard of (rule 4)
	told  bool           // Action.Heard was returned
	given bool           // Action.List was returned

	petition string // the address of the open petition; ""
	asked    bool   // a petition was sent in this run
	reason   string // why the last petition was not carried out, or why none is sent
	move     mover
}

// place is an address that is asked.
type place struct {
	address string
	seed    bool
	due     bool      // to be asked by the next call of Next
	open    bool      // asked, and neither answered nor failed
	until   raft.Time // open: when it counts as failed
	known   bool      // it has answered or failed in this run
	reply   *raft.WhoReply
	fresh   bool   // reply has not led to a petition yet
	failure string // why the latest question has no reply
}

// NewSeeker returns the seeker of a member that has just started. The configuration must be valid.
func NewSeeker(cfg Config) *Seeker {
	return &Seeker{cfg: cfg, pause: roundMin, settled: cfg.EntryOnly, move: newMover(cfg)}
}

// Next says what to do now.
func (s *Seeker) Next(now raft.Time, st State) (a Action) {
	s.expire(now)
	if !s.cfg.EntryOnly && s.looking(now, st) {
		if a.Resolve = !s.resolving && now >= s.next; a.Resolve {
			s.resolving = true
		}
		s.ask(now, &a)
	}
	if !s.settled {
		s.bootstrap(st, &a)
		s.petitions(st, &a)
	}
	s.move.correct(now, st, s, &a)
	a.Wake = now + raft.Time(lookPause)
	if s.settled && s.move.right {
		a.Wake = now + raft.Time(roundMax)
	}
	return a
}

// looking reports whether this member still has to ask others. A member with a leader that has the role that it wants does not,
// except to find out where the member is that has its address.
func (s *Seeker) looking(now raft.Time, st State) bool {
	mine, named := st.Config.Peer(s.cfg.Self)
	named = named && st.Index > 0
	switch {
	case st.Leader != "" && named && !(st.Committed && s.waits(mine, st.Config)):
		s.settled, s.lost, s.reason, s.pause = true, 0, "", roundMin
		s.asked = s.asked && mine.Kind != raft.Voter // as a learner afterwards, it was demoted on purpose
		return len(s.move.along) > 0 && !s.move.right
	case !s.settled:
		return true
	case s.lost == 0:
		s.lost = now + raft.Time(lostMax)
	}
	if now < s.lost {
		return false
	}
	s.settled = false
	return true
}

// waits reports whether the member is a learner that is to vote, and no change makes it a voter. Somebody may have demoted it on
// purpose. But if it has asked for a vote, or another store has its id, it is a learner because a change was given up.
func (s *Seeker) waits(mine raft.Member, in raft.Configuration) bool {
	twin := slices.ContainsFunc(in.Members, func(m raft.Member) bool { return m.ID == mine.ID && m.Incarnation != mine.Incarnation })
	return mine.Kind == raft.Learner && mine.Next == raft.NextSame && !s.cfg.Learner && (s.asked || twin)
}

// Resolved begins a round with the addresses of the seeds. err says why some or all seeds have none. Of too many addresses, the
// first SeedsMax are asked.
func (s *Seeker) Resolved(now raft.Time, seeds []string, err error) {
	s.resolving, s.began = false, s.began || err == nil || len(seeds) > 0 // a look-up that failed has asked nobody
	s.next, s.pause = now+raft.Time(s.pause), min(2*s.pause, roundMax)
	if s.unknown = ""; err != nil {
		s.unknown = err.Error()
	}
	s.places = slices.DeleteFunc(s.places, func(p place) bool {
		return !p.open && !slices.Contains(seeds, p.address) && !s.referred(p.address)
	})
	for i := range s.places {
		s.places[i].seed = false
	}
	for _, address := range seeds[:min(len(seeds), SeedsMax)] {
		s.add(address, true, false)
	}
	for i := range s.places {
		s.places[i].due = !s.places[i].open
	}
	s.noteSeeded()
}

// referred reports whether an answer names the address.
func (s *Seeker) referred(address string) bool {
	return slices.ContainsFunc(s.places, func(p place) bool {
		return p.reply != nil && (p.reply.Address == address || LeaderAddress(p.reply) == address)
	})
}

// add adds an address unless it is known. It leaves out an address that was found if there are too many. The address that a
// founder gives for itself takes the place of another one that was found.
func (s *Seeker) add(address string, seed, founders bool) {
	p := s.at(address)
	if p == nil && founders && len(s.places) >= 2*SeedsMax {
		i := slices.IndexFunc(s.places, func(p place) bool { return !p.seed && (p.reply == nil || !s.founder(p.reply.From.ID)) })
		if i >= 0 {
			s.places = slices.Delete(s.places, i, i+1)
		}
	}
	switch {
	case p != nil:
		p.seed = p.seed || seed
	case seed || len(s.places) < 2*SeedsMax:
		s.places = append(s.places, place{address: address, seed: seed, due: true})
	}
}

func (s *Seeker) founder(id raft.NodeID) bool { return slices.Contains(s.cfg.Founders, id) }

func (s *Seeker) at(address string) *place {
	i := slices.IndexFunc(s.places, func(p place) bool { return p.address == address })
	if i < 0 {
		return nil
	}
	return &s.places[i]
}

// noteSeeded notes whether each seed, also one that was found later, has answered or failed once.
func (s *Seeker) noteSeeded() {
	s.seeded = s.began && !slices.ContainsFunc(s.places, func(p place) bool { return p.seed && !p.known })
}

// ask asks all addresses that are due.
func (s *Seeker) ask(now raft.Time, a *Action) {
	for i := range s.places {
		p := &s.places[i]
		if p.due && !p.open {
			p.due, p.open, p.until = false, true, now+raft.Time(AskMax)
			a.Ask = append(a.Ask, Question{Address: p.address, Who: s.who(), Timeout: AskMax})
		}
	}
}

func (s *Seeker) who() raft.Who {
	return raft.Who{ClusterName: s.cfg.ClusterName, From: s.cfg.Self, Address: s.cfg.Address}
}

// expire lets silent addresses fail.
func (s *Seeker) expire(now raft.Time) {
	for i := range s.places {
		if p := &s.places[i]; p.open && now >= p.until {
			p.fails("no answer for " + AskMax.String())
		}
	}
	s.noteSeeded()
}

func (p *place) fails(why string) {
	p.open, p.known, p.reply, p.failure = false, true, nil, why
}

// Answered takes the answer to a question, or the error of asking it.
func (s *Seeker) Answered(q Question, r raft.WhoReply, err error) {
	if q.Who.Petition != nil && q.Address == s.petition {
		s.petition = ""
		switch {
		case err != nil:
			s.reason = "the petition to " + q.Address + " failed: " + err.Error()
		case !r.Granted:
			s.reason = r.Reason
		}
	}
	p := s.at(q.Address)
	if p == nil {
		return
	}
	if err == nil {
		err = s.foreign(r)
	}
	if err != nil {
		if known := p.known; q.Who.Petition == nil {
			p.fails(err.Error())
			p.known = known || !undecided(err)
		}
		s.noteSeeded()
		return
	}
	p.open, p.known, p.fresh, p.reply, p.failure = false, true, q.Who.Petition == nil, &r, ""
	if r.From != s.cfg.Self {
		s.learn(r)
	}
	s.noteSeeded()
}

// undecided reports whether a member answered without saying what its store holds: it was too busy, or its release does not
// know the question. It may belong to a cluster, so a founder waits for it.
func undecided(err error) bool {
	var r *raft.Rejection
	return errors.As(err, &r) && (r.Reason == raft.RejectBusy || r.VersionsMax > 0 && r.VersionsMax < raft.ProtocolFounding)
}

// foreign returns an error for an answer that does not count.
func (s *Seeker) foreign(r raft.WhoReply) error {
	if err := raft.ValidateName("member id", string(r.From.ID)); err != nil {
		return err
	}
	if r.ClusterName != s.cfg.ClusterName {
		return &OtherClusterError{ID: r.From.ID, Cluster: r.ClusterName, Want: s.cfg.ClusterName}
	}
	return nil
}

// learn takes the addresses in an answer, and notes that it is of a cluster.
func (s *Seeker) learn(r raft.WhoReply) {
	for _, address := range []string{r.Address, LeaderAddress(&r)} {
		if CheckAddress(address) == nil {
			s.add(address, false, address == r.Address && s.founder(r.From.ID))
		}
	}
	if r.Term > 0 && s.heard == nil {
		s.heard = &r
	}
}

// LeaderAddress returns the address of the leader in the configuration of the one that answered; "" if there is none.
func LeaderAddress(r *raft.WhoReply) string {
	i := slices.IndexFunc(r.Members, func(m raft.Member) bool { return m.ID == r.Leader })
	if i < 0 || r.Leader == "" {
		return ""
	}
	return r.Members[i].Address
}
