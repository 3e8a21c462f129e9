package raft

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
)

// Limits of what is stored and sent.
const (
	NodeIDBytesMax         = 64                // bytes of a NodeID
	AddressBytesMax        = 256               // bytes of a Member's Address
	MetaBytesMax           = 1024              // bytes of a Member's Meta
	ReleaseBytesMax        = 64                // bytes of Hello.Release, printable ASCII
	MembersMax             = 255               // members of a cluster, voters and learners together
	RemovedMax             = 64                // removals that a configuration remembers
	LineageStartsMax       = 64                // of its own starts that a store remembers
	SnapshotRecordBytesMax = bootstrapBytesMax // bytes of Base.Encode and Snapshot.Encode, mostly of the configuration
)

// patienceMax bounds a Configuration's Patience.
const patienceMax = 24 * time.Hour

// The feature levels of a cluster: see docs/versions.md. Each implies all lower ones.
const (
	featureLevelMembers     = 1                    // its members have been changed
	featureLevelPriorities  = 2                    // a member has had a priority
	featureLevelAppVersions = 3                    // all members have announced versions of the application
	featureLevelSessions    = 4                    // a session has been opened
	featureLevelLeases      = 5                    // leases have been switched on
	featureLevelRecovery    = 6                    // the cluster was recovered from one survivor
	featureLevelMax         = featureLevelRecovery // the highest that this release knows
)

// MemberKind says what a member may do. Its numbers are in the log's format.
type MemberKind uint8

const (
	Voter   MemberKind = 0 // votes, may lead, counts towards every quorum
	Learner MemberKind = 1 // receives the log; has no vote unless a joint configuration's outgoing half gives it one
	Leaving MemberKind = 2 // only in a joint configuration: votes in the outgoing half, and is removed with it
)

func (k MemberKind) String() string {
	switch k {
	case Voter:
		return "voter"
	case Learner:
		return "learner"
	case Leaving:
		return "leaving"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// NextRole says what a member becomes once all future voters have caught up. The numbers are part of the log's format.
type NextRole uint8

const (
	NextSame    NextRole = 0 // the member keeps its role
	NextVoter   NextRole = 1 // of a learner: it becomes a voter
	NextLearner NextRole = 2 // of a voter: it becomes a learner
	NextRemoved NextRole = 3 // the member is removed
)

func (n NextRole) String() string {
	switch n {
	case NextSame:
		return "same"
	case NextVoter:
		return "voter"
	case NextLearner:
		return "learner"
	case NextRemoved:
		return "removed"
	}
	return fmt.Sprintf("role %d", uint8(n))
}

// Member is one member of a cluster as its configuration names it.
type Member struct {
	ID          NodeID
	Address     string // "host:port" that other members dial; a host name is resolved on every dial
	Meta        string // the application's text, such as a client URL: in the configuration and in *node.NotLeaderError
	Kind        MemberKind
	Priority    Priority    // of a voter; 0: it counts as 1
	Incarnation Incarnation // set by the bootstrap; 0 in node.Config.Initial
	Next        NextRole    // set by a running change; 0 in node.Config.Initial
	AppVersion  uint64      // node.Config.AppVersion, when the minimum was raised or the member joined; 0 while there is no minimum
}

// Peer names one incarnation of one member. Votes and acknowledgements count by Peer, never by id alone.
type Peer struct {
	ID          NodeID
	Incarnation Incarnation
}

// compare orders peers by id, then by incarnation.
func (p Peer) compare(other Peer) int {
	return cmp.Or(cmp.Compare(p.ID, other.ID), cmp.Compare(p.Incarnation, other.Incarnation))
}

// Peer returns the member's id and incarnation.
func (m Member) Peer() Peer { return Peer{m.ID, m.Incarnation} }

// willVote reports whether the member is a voter once the running change, if there is one, has taken effect.
func (m Member) willVote() bool {
	return m.Kind == Voter && m.Next == NextSame || m.Next == NextVoter
}

// Removal says that the entry at Index removed the peer from the cluster.
type Removal struct {
	Peer  Peer
	Index Index
}

// Halves says in which halves of a configuration a peer votes. Only a joint configuration has an outgoing half.
type Halves uint8

const (
	IncomingHalf Halves = 1 << 0 // the members whose kind is Voter
	OutgoingHalf Halves = 1 << 1 // Configuration.Outgoing
)

// Configuration names the members of a cluster, and the state of a change of them. It is immutable. While one incarnation
// replaces another, both are in it. In a joint configuration, the paper's C_old,new, the Outgoing voters (C_old) and the
// members of kind Voter (C_new) must agree. A Voter outside Outgoing is being promoted, and a Learner in it demoted.
type Configuration struct {
	Members  []Member      // sorted by id, then by incarnation
	Outgoing []Peer        // the voters of the configuration that a joint one replaces, sorted; else empty
	Removed  []Removal     // the latest removals, at most RemovedMax, sorted by index and peer
	Patience time.Duration // Change.Patience of a change that waits for members; 0: none waits
	// AppVersionMin is the lowest version of the application that a member may run, and never falls; 0: there is none. It is
	// raised once every member has announced that it runs at least that version.
	AppVersionMin uint64
	Sessions      bool // a session was opened, so that every FSM must be a SessionFSM; it stays so
	// LeaseDuration is how long a member promises its leader not to elect another one; 0: leaders have no leases, and answer
	// every read with a round of messages. See docs/reads.md.
	LeaseDuration time.Duration
	Level         uint64 // the cluster's feature level, see docs/versions.md: 0 as bootstrapped, if nobody has a priority
}

// NewConfiguration returns a configuration of the members, sorted, not validated. Of their priorities, it writes 1 as 0.
func NewConfiguration(members []Member) Configuration {
	sorted := slices.Clone(members)
	for i := range sorted {
		sorted[i].Priority = sorted[i].Priority.stored()
	}
	slices.SortFunc(sorted, func(a, b Member) int { return a.Peer().compare(b.Peer()) })
	return Configuration{Members: sorted}
}

// Peer returns the member with this id and this incarnation.
func (c Configuration) Peer(p Peer) (Member, bool) {
	i, ok := c.position(p)
	if !ok {
		return Member{}, false
	}
	return c.Members[i], true
}

func (c Configuration) includes(p Peer) bool {
	_, ok := c.position(p)
	return ok
}

func (c Configuration) position(p Peer) (int, bool) {
	return sort.Find(len(c.Members), func(i int) int { return p.compare(c.Members[i].Peer()) }) // copies no members
}

// Member returns the member with this id. Of two, it prefers a Voter to a Learner to a Leaving member, and then the first.
func (c Configuration) Member(id NodeID) (Member, bool) {
	of := c.withID(id)
	if len(of) == 0 {
		return Member{}, false
	}
	return slices.MinFunc(of, func(a, b Member) int { return cmp.Compare(a.Kind, b.Kind) }), true
}

// withID returns the members with this id.
func (c Configuration) withID(id NodeID) []Member {
	from, _ := c.position(Peer{ID: id})
	to := from
	for to < len(c.Members) && c.Members[to].ID == id {
		to++
	}
	return c.Members[from:to:to]
}

// ids returns the ids of the members, each once.
func (c Configuration) ids() []NodeID {
	var ids []NodeID
	for i, m := range c.Members {
		if i == 0 || m.ID != c.Members[i-1].ID {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// Voters returns the members of kind Voter, sorted by id.
func (c Configuration) Voters() []Member {
	voters := make([]Member, 0, len(c.Members))
	for _, m := range c.Members {
		if m.Kind == Voter {
			voters = append(voters, m)
		}
	}
	return voters
}

// VotesIn returns the halves in which the peer votes; 0 if it has no vote.
func (c Configuration) VotesIn(p Peer) Halves {
	var halves Halves
	if m, ok := c.Peer(p); ok && m.Kind == Voter {
		halves |= IncomingHalf
	}
	if _, ok := slices.BinarySearchFunc(c.Outgoing, p, Peer.compare); ok {
		halves |= OutgoingHalf
	}
	return halves
}

// needs reports whether the cluster may need the peer as a leader. It does if the peer has a vote, or gets one by the change
// that is waiting.
func (c Configuration) needs(p Peer) bool {
	m, ok := c.Peer(p)
	return ok && m.Next == NextVoter || c.VotesIn(p) != 0
}

// Joint reports whether the voters are changing: two sets of them must agree.
func (c Configuration) Joint() bool { return len(c.Outgoing) > 0 }

// Changing reports whether a change waits for members to catch up.
func (c Configuration) Changing() bool {
	return slices.ContainsFunc(c.Members, func(m Member) bool { return m.Next != NextSame })
}

// Protocol returns the lowest protocol version that a member must speak to read the configuration, in an entry or in a
// snapshot. It depends on the feature level: see docs/versions.md.
func (c Configuration) Protocol() uint16 {
	switch {
	case c.Level >= featureLevelRecovery:
		return ProtocolRecovery
	case c.Level >= featureLevelSessions:
		return ProtocolSessions
	case c.Level >= featureLevelAppVersions:
		return ProtocolAppVersions
	case c.Level >= featureLevelPriorities:
		return ProtocolPriorities
	case c.Level >= featureLevelMembers:
		return ProtocolMembership
	}
	return ProtocolSnapshots
}

// Equal reports whether both are the same in every field.
func (c Configuration) Equal(other Configuration) bool {
	return slices.Equal(c.Members, other.Members) && slices.Equal(c.Outgoing, other.Outgoing) &&
		slices.Equal(c.Removed, other.Removed) && c.Patience == other.Patience && c.Level == other.Level &&
		c.AppVersionMin == other.AppVersionMin && c.Sessions == other.Sessions && c.LeaseDuration == other.LeaseDuration
}

// SameList reports whether both name the same members, of any incarnation. The Address and Meta of a member count only where
// both have an address: see ValidateList.
func (c Configuration) SameList(other Configuration) bool {
	return slices.EqualFunc(c.Members, other.Members, func(a, b Member) bool {
		a.Incarnation, b.Incarnation = 0, 0
		if a.Address == "" || b.Address == "" {
			a.Address, a.Meta, b.Address, b.Meta = "", "", "", ""
		}
		return a == b
	})
}

// isOpen reports whether the member is one of a list of initial members that leaves its address and Meta open.
func (m Member) isOpen() bool { return m.Address == "" && m.Meta == "" }

// ListText returns the members as text, with everything that SameList compares. An open address is not shown.
func (c Configuration) ListText() string {
	parts := make([]string, len(c.Members))
	for i, m := range c.Members {
		if parts[i] = string(m.ID); !m.isOpen() {
			parts[i] += "=" + m.Address
		}
		if m.Meta != "" {
			parts[i] += "=" + m.Meta
		}
		if m.Kind != Voter {
			parts[i] += fmt.Sprintf(" (%v)", m.Kind)
		}
		if m.Priority != 0 {
			parts[i] += fmt.Sprintf(" (priority %v)", m.Priority)
		}
		if m.AppVersion != 0 {
			parts[i] += fmt.Sprintf(" (version %d)", m.AppVersion)
		}
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// problems collects what is wrong with a value.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// Validate returns all problems of the configuration, joined; nil: none.
func (c Configuration) Validate() error {
	var p problems
	c.listProblems(&p)
	c.voterProblems(&p)
	c.changeProblems(&p)
	c.outgoingProblems(&p)
	c.removedProblems(&p)
	c.priorityProblems(&p)
	c.appVersionProblems(&p)
	c.sessionProblems(&p)
	c.leaseProblems(&p)
	if c.Level == 0 && (c.Joint() || c.Changing() || len(c.Removed) > 0) {
		p.add("its feature level is 0, at which members are not changed")
	}
	return errors.Join(p...)
}

// ValidateList is Validate for a list of initial members. In it, a member may have neither Address nor Meta: they are open,
// because this member need not know them. Entry 1 has those of the bootstrapper's list, which leaves none open.
func (c Configuration) ValidateList() error {
	c.Members = slices.Clone(c.Members)
	for i := range c.Members {
		if m := &c.Members[i]; m.isOpen() {
			m.Address = "open" // Validate takes any
		}
	}
	return c.Validate()
}

// listProblems checks each member, and the order of the list.
func (c Configuration) listProblems(p *problems) {
	if len(c.Members) > MembersMax {
		p.add("it has %d members; the limit is %d", len(c.Members), MembersMax)
	}
	for i, m := range c.Members {
		m.problems(p)
		if m.Incarnation == 0 && c.Level > 0 {
			p.add("member %q has no incarnation", m.ID)
		}
		if i == 0 {
			continue
		}
		switch before := c.Members[i-1]; {
		case m.ID == before.ID && (m.Incarnation == before.Incarnation || c.Level == 0):
			p.add("member %q is listed twice", m.ID)
		case m.Peer().compare(before.Peer()) < 0:
			p.add("member %q is listed after %q; the list must be sorted", m.ID, before.ID)
		case i > 1 && m.ID == c.Members[i-2].ID:
			p.add("member %q is listed with more than two incarnations", m.ID)
		}
	}
}

// problems checks the fields of one member, without looking at other members.
func (m Member) problems(p *problems) {
	if err := validateNodeID(m.ID); err != nil {
		*p = append(*p, err)
	}
	if m.Address == "" || len(m.Address) > AddressBytesMax {
		p.add("member %q: the address has %d bytes; it must have 1 to %d", m.ID, len(m.Address), AddressBytesMax)
	}
	if len(m.Meta) > MetaBytesMax {
		p.add("member %q: Meta has %d bytes; the limit is %d", m.ID, len(m.Meta), MetaBytesMax)
	}
	if m.Kind > Leaving {
		p.add("member %q: unknown kind %d", m.ID, m.Kind)
	}
	if m.Priority < PriorityNever || m.Priority > PriorityMax {
		*p = append(*p, &PriorityError{ID: m.ID, Number: int(m.Priority)})
	}
}

// voterProblems checks that a member can lead, both now and after the running change. It also checks that, at both times, at
// most one incarnation of each id votes.
func (c Configuration) voterProblems(p *problems) {
	voters, remaining := 0, 0
	for i, m := range c.Members {
		if m.Kind == Voter {
			voters++
		}
		if m.willVote() {
			remaining++
		}
		if i == 0 || c.Members[i-1].ID != m.ID {
			continue
		}
		if before := c.Members[i-1]; before.Kind == Voter && m.Kind == Voter || before.willVote() && m.willVote() {
			p.add("member %q: two of its incarnations would vote", m.ID)
		}
	}
	switch {
	case voters == 0:
		p.add("it has no voter, so no member could lead")
	case remaining == 0:
		p.add("its running change leaves no voter, so no member could lead")
	}
}

// changeProblems checks the roles that the running change gives. A change may wait only if it has future voters, because it
// waits for no other members.
func (c Configuration) changeProblems(p *problems) {
	waits := false
	for _, m := range c.Members {
		waits = waits || m.Next == NextVoter
		switch {
		case m.Next > NextRemoved:
			p.add("member %q: unknown next role %d", m.ID, m.Next)
		case m.Next != NextSame && c.Joint():
			p.add("member %q is to change its role, and the configuration is joint: it must be left first", m.ID)
		case m.Next == NextVoter && m.Kind != Learner, m.Next == NextLearner && m.Kind != Voter:
			p.add("member %q: a %v cannot take the next role %v", m.ID, m.Kind, m.Next)
		}
	}
	if c.Changing() && !waits {
		p.add("its running change waits for no member")
	}
	if c.Patience < 0 || c.Patience > patienceMax || (c.Patience > 0) != waits {
		p.add("its patience is %v; it takes more than 0 and at most %v if a learner is to vote, else 0", c.Patience, patienceMax)
	}
}

// outgoingProblems checks the outgoing half of a joint configuration.
func (c Configuration) outgoingProblems(p *problems) {
	for i, o := range c.Outgoing {
		if _, ok := c.Peer(o); !ok {
			p.add("outgoing voter %q, incarnation %v, is no member", o.ID, o.Incarnation)
		}
		if i > 0 && c.Outgoing[i-1].ID >= o.ID {
			p.add("outgoing voter %q stands after %q; they must be sorted, each id once", o.ID, c.Outgoing[i-1].ID)
		}
	}
	for _, m := range c.Members {
		if m.Kind == Leaving && c.VotesIn(m.Peer()) != OutgoingHalf {
			p.add("member %q is leaving, and does not vote in an outgoing half", m.ID)
		}
	}
}

// removedProblems checks the removals that the configuration remembers.
func (c Configuration) removedProblems(p *problems) {
	if len(c.Removed) > RemovedMax {
		p.add("it remembers %d removals; the limit is %d", len(c.Removed), RemovedMax)
		return
	}
	for i, r := range c.Removed {
		if err := validateNodeID(r.Peer.ID); err != nil {
			*p = append(*p, err)
		}
		if r.Peer.Incarnation == 0 || r.Index == 0 || r.Index >= 1<<63 {
			p.add("the removal of %q has incarnation %v and index %d", r.Peer.ID, r.Peer.Incarnation, r.Index)
		}
		if _, ok := c.Peer(r.Peer); ok {
			p.add("member %q, incarnation %v, was removed by entry %d", r.Peer.ID, r.Peer.Incarnation, r.Index)
		}
		if i > 0 && c.Removed[i-1].compare(r) >= 0 {
			p.add("the removal of %q by entry %d is out of order", r.Peer.ID, r.Index)
		}
		if slices.ContainsFunc(c.Removed[:i], func(o Removal) bool { return o.Peer == r.Peer }) {
			p.add("the removal of %q, incarnation %v, is listed twice", r.Peer.ID, r.Peer.Incarnation)
		}
	}
}

// compare orders removals by index, then by peer.
func (r Removal) compare(other Removal) int {
	return cmp.Or(cmp.Compare(r.Index, other.Index), r.Peer.compare(other.Peer))
}

func validateNodeID(id NodeID) error { return ValidateName("member id", string(id)) }

// ValidateName checks that a name has 1 to NodeIDBytesMax bytes of printable ASCII without spaces. kind is "member
// id" or "cluster name". The error names the kind, the name and what is wrong with it.
func ValidateName(kind, name string) error {
	if len(name) == 0 || len(name) > NodeIDBytesMax {
		return fmt.Errorf("%s %q has %d bytes; it takes 1 to %d", kind, name, len(name), NodeIDBytesMax)
	}
	for _, b := range []byte(name) {
		if b <= ' ' || b > '~' {
			return fmt.Errorf("%s %q: byte 0x%02x; only printable ASCII without spaces is allowed", kind, name, b)
		}
	}
	return nil
}
