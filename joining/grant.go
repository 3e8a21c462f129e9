package joining

import (
	"fmt"
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// Times after which an incarnation of an id gives its place to another one.
const (
	// RefusedMin is the time in which every known address must have refused each try of the leader.
	RefusedMin = 2 * time.Second
	// SilenceMin is the time in which the leader must have heard nothing from the old incarnation, if its addresses are silent.
	SilenceMin = 10 * time.Second
	// quietMax is the most that the time between two petitions adds to the silence. A leader whose process was paused has heard
	// nobody meanwhile, and so must not count the pause.
	quietMax = 2 * time.Second
)

// Leader is what a leader knows when a petition arrives.
type Leader struct {
	Self        raft.Peer
	ClusterName string
	Config      raft.Configuration // in force
	Index       raft.Index         // of Config
	Committed   bool               // whether Config is known to be committed
	Seen        []Seen             // the other incarnations of the caller's id
}

// Seen is what a leader knows about an incarnation whose id another one claims.
type Seen struct {
	Peer    raft.Peer
	Answers raft.Incarnation // the incarnation that has answered at an address of Peer instead; 0: none
	// RefusedFor is how long each try at every address of Peer has been refused; 0: the last one was not.
	RefusedFor time.Duration
	// Silence is the time since the leader has heard Peer, or since it leads if it has not heard Peer in that time.
	Silence time.Duration
}

// Grant decides about the petitions that reach one leader. The zero value has decided about none. It remembers for how long an
// incarnation has been silent while another one has asked for its place.
type Grant struct{ quiet []quiet }

// quiet is the silence of an incarnation, as its leader has watched it from petition to petition.
type quiet struct {
	peer  raft.Peer
	at    raft.Time // of the last petition
	since time.Duration
}

// Decision says what the leader does. If Change is nil, the caller is a member, and nothing is left to do.
type Decision struct {
	// Change makes the caller a member, or is the next step to that. The incarnation of a joining member is 0 in it: the leader
	// makes contact with the caller's address first, so that an address that leads elsewhere never gets into a configuration.
	Change *raft.Change
	Index  raft.Index // of the configuration for which Change was decided
}

// Decide decides about a petition. The caller of Decide has checked that the petitioner has proved its id, so that the petition
// is about its own id, and that the leader still leads. An error says why nothing happens now: a *raft.ChangePendingError or an
// *InUseError may pass, so the petitioner asks again; any other error needs the remedy that it names.
func (g *Grant) Decide(now raft.Time, q raft.Who, l Leader) (Decision, error) {
	if q.ClusterName != l.ClusterName {
		return Decision{}, &OtherClusterError{ID: l.Self.ID, Cluster: l.ClusterName, Want: q.ClusterName}
	}
	if err := CheckAddress(q.Address); err != nil {
		return Decision{}, &raft.ConfigError{Field: "Advertise", Err: err}
	}
	if !l.Committed || l.Config.Joint() || l.Config.Changing() {
		return Decision{}, &raft.ChangePendingError{Index: l.Index, Joint: l.Config.Joint()}
	}
	g.quiet = slices.DeleteFunc(g.quiet, func(q quiet) bool { // of those that are no members any more
		_, named := l.Config.Peer(q.peer)
		return !named
	})
	mine, named := l.Config.Peer(q.From)
	var others []raft.Member
	for _, m := range l.Config.Members {
		if m.ID == q.From.ID && m.Peer() != q.From {
			others = append(others, m)
		}
	}
	var c raft.Change
	u, wrong := correction(mine, q.Address, q.Petition.Meta)
	switch {
	case len(others) > 0 && (!named || mine.Kind == raft.Learner):
		change, err := g.replace(now, q, l, others)
		if err != nil {
			return Decision{}, err
		}
		c = change
	case !named:
		c.Add = []raft.Member{joining(q, l.Config)}
	case wrong: // before it is promoted: it must be found
		c.Update = []raft.Update{u}
	case mine.Kind == raft.Learner && !q.Petition.Learner:
		c.Promote = []raft.Peer{q.From}
	default:
		return Decision{}, nil
	}
	if err := c.ValidateFor(raft.ConfigRun{Index: l.Index, Config: l.Config}); err != nil {
		return Decision{}, err
	}
	if !named {
		for i := range c.Add {
			c.Add[i].Incarnation = 0
		}
		for i := range c.Replace {
			c.Replace[i].New.Incarnation = 0
		}
	}
	return Decision{Change: &c, Index: l.Index}, nil
}

// correction returns the change of a member's entry that gives it the address, and the Meta unless that is "". wrong is false
// if the entry has both.
func correction(entry raft.Member, address, meta string) (u raft.Update, wrong bool) {
	u.Peer = entry.Peer()
	if address != entry.Address {
		u.Address = &address
	}
	if meta != "" && meta != entry.Meta {
		u.Meta = &meta
	}
	return u, u.Address != nil || u.Meta != nil
}

// replace returns the change that gives the caller the place of a lost incarnation of its id. At most two members have one id. If
// another store began to replace the lost one and was lost, too, the change first removes that one.
func (g *Grant) replace(now raft.Time, q raft.Who, l Leader, others []raft.Member) (raft.Change, error) {
	old := others[0]
	var alive error
	for _, m := range others {
		if m.Kind == raft.Voter {
			old = m
		}
		if err := g.Place(now, q.From, m, l); alive == nil {
			alive = err
		}
	}
	if alive != nil {
		return raft.Change{}, alive
	}
	for _, m := range others {
		if m.Peer() != old.Peer() {
			return raft.Change{Remove: []raft.Peer{m.Peer()}}, nil
		}
	}
	return raft.Change{Replace: []raft.Replacement{{Old: old.Peer(), New: joining(q, l.Config)}}}, nil
}

// Place returns nil if another incarnation may take the place of a member now, and otherwise an *InUseError. Call it from time to
// time: only then does the silence of a member count.
func (g *Grant) Place(now raft.Time, by raft.Peer, of raft.Member, l Leader) error {
	if left := g.left(now, by, of.Peer(), l); left > 0 {
		return &InUseError{Member: of, Left: left}
	}
	return nil
}

// left returns the time until the incarnation gives its place to the caller, if it stays silent until then; 0: it does so now.
func (g *Grant) left(now raft.Time, caller, old raft.Peer, l Leader) time.Duration {
	quiet := g.watch(now, old, l)
	i := slices.IndexFunc(l.Seen, func(s Seen) bool { return s.Peer == old })
	switch {
	case old == l.Self || i < 0:
		return SilenceMin
	case l.Seen[i].Answers == caller.Incarnation:
		return 0
	case l.Seen[i].RefusedFor >= RefusedMin && l.Seen[i].Silence >= RefusedMin:
		return 0
	}
	return max(SilenceMin-min(quiet, l.Seen[i].Silence), 0)
}

// watch returns how long the incarnation has been silent from petition to petition.
func (g *Grant) watch(now raft.Time, old raft.Peer, l Leader) time.Duration {
	i := slices.IndexFunc(g.quiet, func(q quiet) bool { return q.peer == old })
	if i < 0 {
		g.quiet = append(g.quiet, quiet{peer: old, at: now})
		return 0
	}
	seen := slices.IndexFunc(l.Seen, func(s Seen) bool { return s.Peer == old })
	q := &g.quiet[i]
	passed := time.Duration(now - q.at)
	if q.at = now; seen < 0 || l.Seen[seen].Silence < passed {
		q.since = 0 // it was heard since the last petition
		return 0
	}
	q.since += min(passed, quietMax)
	return q.since
}

// joining returns the member that the petitioner asks to become. Which version of the application it runs is found out at
// contact.
func joining(q raft.Who, in raft.Configuration) raft.Member {
	m := raft.Member{ID: q.From.ID, Incarnation: q.From.Incarnation, Address: q.Address, Meta: q.Petition.Meta, AppVersion: in.AppVersionMin}
	if q.Petition.Learner {
		m.Kind = raft.Learner
	}
	return m
}

// InUseError refuses a petition, or a replacement: the id is that of a member which may still run. If that member's disk was lost,
// its place is free once every address of the member has refused the leader for RefusedMin, or once the leader has heard nothing
// from it for SilenceMin. If it runs, end it first, or choose another id.
type InUseError struct {
	Member raft.Member   // which has the id
	Left   time.Duration // until it counts as lost, if it stays silent
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("raft: %s is a member already, at %s (incarnation %v): if its disk was lost, its place is free once all its addresses "+
		"have refused the leader for %v, or in %v if nothing is heard from it until then; otherwise end it, or choose another id",
		e.Member.ID, e.Member.Address, e.Member.Incarnation, RefusedMin, seconds(e.Left))
}

// OtherClusterError says that the member at an address is of another cluster than the caller. Correct the seeds or the name of
// the cluster.
type OtherClusterError struct {
	ID            raft.NodeID // which answered
	Cluster, Want string      // its cluster, and the caller's
}

func (e *OtherClusterError) Error() string {
	return fmt.Sprintf("raft: %s is of cluster %q, not of %q: correct the seeds, or the name of the cluster", e.ID, e.Cluster, e.Want)
}
