package raft

import (
	"cmp"
	"slices"
	"time"
)

// Change changes the members, or what all of them go by. New learners, addresses and Metas take effect first. A future voter joins as a learner; all
// other edits wait until every such member has caught up. Then all roles change together, or the change is given up and no
// role changes. A Peer with Incarnation 0 names the voter with its id or, if no voter has it, the only member. In Remove it
// must be the only member with its id. Otherwise the same request, repeated, would remove the other one.
type Change struct {
	Add     []Member // to join as Voter or Learner; a present learner that is added as Voter is promoted, with the priority given
	Promote []Peer   // learners that become voters
	Demote  []Peer   // voters that become learners
	Remove  []Peer
	Replace []Replacement
	Update  []Update
	// LeaseDuration is how long leases last from now on, see Configuration.LeaseDuration; 0 ends them, nil leaves them.
	LeaseDuration *time.Duration `json:",omitempty"` // omitted, because an earlier release refuses a change with unknown fields
	Cancel        bool           // gives up a change that waits for members to catch up; must come alone
	Despite       []NodeID       // future voters that may be silent; without it, a majority of future voters must be heard
	Patience      time.Duration  // longest time without progress of a future voter; default 1 min, at most 24 h
}

// Replacement removes Old and gives its role and its priority to New, whose Kind and Priority are not read. They may differ in
// the incarnation alone.
type Replacement struct {
	Old Peer
	New Member
}

// Update changes the address of a member, its Meta or, of a voter, its priority; nil leaves them.
type Update struct {
	Peer          Peer
	Address, Meta *string
	Priority      *Priority
}

const (
	patienceDefault = time.Minute
	changeEditsMax  = 2 * MembersMax // edits of members in one Change
)

// validate returns all problems of the change that do not depend on the cluster's configuration. It joins them, each a
// *ConfigError, and returns nil if there are none.
func (ch Change) validate() error {
	var p configProblems
	edits := len(ch.Add) + len(ch.Promote) + len(ch.Demote) + len(ch.Remove) + len(ch.Replace) + len(ch.Update)
	if edits > changeEditsMax || len(ch.Despite) > MembersMax {
		p.add("Change", "it edits %d members, despite %d others; the limits are %d and %d", edits, len(ch.Despite), changeEditsMax, MembersMax)
		return p.joined()
	}
	if ch.Cancel && (edits > 0 || ch.LeaseDuration != nil || len(ch.Despite) > 0 || ch.Patience != 0) {
		p.add("Change.Cancel", "it comes with other changes; it must come alone")
	}
	if ch.Patience < 0 || ch.Patience > patienceMax {
		p.add("Change.Patience", "%v; it takes 0 to %v", ch.Patience, patienceMax)
	}
	if d := ch.LeaseDuration; d != nil && (*d < 0 || *d > leaseMax) {
		p.add("Change.LeaseDuration", "%v; it takes 0 to %v, and at most 99 %% of the leader's election timeout", *d, leaseMax)
	}
	for _, m := range ch.Add {
		p.joining("Change.Add", m)
	}
	for _, r := range ch.Replace {
		r.New.Kind, r.New.Priority = Learner, 0
		p.joining("Change.Replace", r.New)
	}
	for _, u := range ch.Update {
		p.updated(u)
	}
	return p.joined()
}

// joining checks a member that is to join.
func (p *configProblems) joining(field string, m Member) {
	var of problems
	m.problems(&of)
	if m.Kind == Leaving {
		of.add("member %q: it can join as a voter or as a learner", m.ID)
	}
	if m.Incarnation == 0 {
		of.add("member %q has no incarnation; it takes the one that its store has drawn", m.ID)
	}
	if m.Next != NextSame {
		of.add("member %q has a next role: its kind says what it becomes", m.ID)
	}
	if m.Kind == Learner && m.Priority.stored() != 0 {
		of = append(of, &PriorityError{ID: m.ID, Number: m.Priority.Number(), Learner: true})
	}
	for _, err := range of {
		p.add(field, "%w", err)
	}
}

// updated checks a new address, a new Meta and a new priority.
func (p *configProblems) updated(u Update) {
	m := Member{ID: u.Peer.ID, Address: "unchanged"}
	if u.Address != nil {
		m.Address = *u.Address
	}
	if u.Meta != nil {
		m.Meta = *u.Meta
	}
	if u.Priority != nil {
		m.Priority = *u.Priority
	}
	var of problems
	m.problems(&of)
	for _, err := range of {
		p.add("Change.Update", "%w", err)
	}
}

// refusal says why a change is refused. It is zero if the change is not refused.
type refusal struct {
	kind       RefusalKind
	concerns   []NodeID // the members concerned; of RefusedAddressInUse the one that wants it, then the one that has it
	index      Index    // RefusedWasRemoved: the entry that removed it
	address    string   // RefusedAddressInUse
	protocol   uint16   // RefusedEarlierRelease: the lowest that one of them speaks
	needs      uint16   // RefusedEarlierRelease: the protocol that the change needs
	voters     []NodeID // RefusedQuorumLoss: the voters that there would be; RefusedNotElectable: those of which none may lead
	appVersion uint64   // RefusedAppVersion: the one that the member runs
	invalid    error    // RefusedMalformed: what is wrong with the change, or with its first configuration
}

// plan returns the first configuration of a change, as the entry at the given index. It returns c itself if the change has no
// effect. If the change adds or promotes voters, the first configuration has them as learners and waits for them. Otherwise
// it is joint, or the last one of the change if the voters stay the same. live reports whether this member hears a voter.
func (c Configuration) plan(ch Change, at Index, live func(Peer) bool) (Configuration, refusal) {
	if ch.validate() != nil {
		return c, refusal{kind: RefusedMalformed}
	}
	switch {
	case ch.Cancel && c.Changing():
		return c.giveUp(), refusal{}
	case c.Joint() || c.Changing():
		return c, refusal{kind: RefusedChanging, concerns: c.awaited()}
	}
	d := draft{Configuration: c, before: c}
	d.Members = slices.Clone(c.Members)
	d.edit(ch)
	if d.Equal(c) || d.why.kind != 0 {
		return c, d.why
	}
	next := d.first(ch, at)
	d.refuseResult(next)
	d.refuseSilence(ch.Despite, at, live)
	if d.why.kind != 0 {
		return c, d.why
	}
	return next, refusal{}
}

// awaited returns the members that are to become voters.
func (c Configuration) awaited() []NodeID {
	var ids []NodeID
	for _, m := range c.Members {
		if m.Next == NextVoter {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// draft is a copy of a configuration. The edits of a change are made to it one after another.
type draft struct {
	Configuration
	before Configuration
	edited []Peer  // the members that the change has named
	why    refusal // the first problem
}

func (d *draft) refuse(kind RefusalKind, concerns ...NodeID) {
	if d.why.kind == 0 {
		d.why = refusal{kind: kind, concerns: concerns}
	}
}

// first returns the configuration that the change begins with.
func (d *draft) first(ch Change, at Index) Configuration {
	next := d.Configuration
	next.Level = max(next.Level, featureLevelMembers)
	if next.prioritized() {
		next.Level = max(next.Level, featureLevelPriorities)
	}
	if next.LeaseDuration > 0 {
		next.Level = max(next.Level, featureLevelLeases)
	}
	if len(next.awaited()) == 0 {
		return next.enter(at)
	}
	next.Patience = ch.Patience
	setDefault(&next.Patience, patienceDefault)
	return next
}

// edit makes all edits of the change.
func (d *draft) edit(ch Change) {
	for _, r := range ch.Replace {
		d.replace(r)
	}
	for _, m := range ch.Add {
		d.join(m, Peer{})
	}
	for _, p := range ch.Promote {
		d.give(p, Learner, NextVoter)
	}
	for _, p := range ch.Demote {
		d.give(p, Voter, NextLearner)
	}
	for _, p := range ch.Remove {
		d.remove(p)
	}
	for _, u := range ch.Update {
		d.update(u)
	}
	if ch.LeaseDuration != nil {
		d.LeaseDuration = *ch.LeaseDuration
	}
	for _, id := range ch.Despite {
		if _, ok := d.Member(id); !ok {
			d.refuse(RefusedUnknownMember, id)
		}
	}
	d.refuseAddresses()
}

// find returns the member of the draft that the change names by p, for editing. If there is no such member, or the change has
// edited it before, find refuses the change and returns nil.
func (d *draft) find(p Peer) *Member {
	if p.Incarnation == 0 {
		m, _ := d.before.Member(p.ID)
		if len(d.before.withID(p.ID)) > 1 && m.Kind != Voter {
			d.refuse(RefusedMalformed, p.ID)
			return nil
		}
		p.Incarnation = m.Incarnation
	}
	if _, ok := d.before.Peer(p); !ok {
		d.refuse(RefusedUnknownMember, p.ID)
		return nil
	}
	i, _ := d.position(p)
	if !d.once(p) {
		return nil
	}
	return &d.Members[i]
}

// once reports whether the change names the peer for the first time. It refuses the change otherwise.
func (d *draft) once(p Peer) bool {
	if slices.Contains(d.edited, p) {
		d.refuse(RefusedMalformed, p.ID)
		return false
	}
	d.edited = append(d.edited, p)
	return true
}

// remove removes a member. If two members have its id, the change must name the incarnation. Otherwise a caller that does not
// learn the outcome, and so repeats the change, would remove the other member too.
func (d *draft) remove(p Peer) {
	if p.Incarnation == 0 && len(d.before.withID(p.ID)) > 1 {
		d.refuse(RefusedMalformed, p.ID)
		return
	}
	if m := d.find(p); m != nil {
		m.Next = NextRemoved
	}
}

// give sets the next role of a member of the given kind. A member of another kind has that role already.
func (d *draft) give(p Peer, kind MemberKind, next NextRole) {
	if m := d.find(p); m != nil && m.Kind == kind {
		m.Next = next
	}
}

func (d *draft) update(u Update) {
	m := d.find(u.Peer)
	if m == nil {
		return
	}
	if u.Address != nil {
		m.Address = *u.Address
	}
	if u.Meta != nil {
		m.Meta = *u.Meta
	}
	if u.Priority != nil {
		m.Priority = u.Priority.stored() // Validate refuses that of a learner
	}
}

// replace gives the new member the role and the priority of the old one.
func (d *draft) replace(r Replacement) {
	old := d.find(r.Old)
	if old == nil {
		return
	}
	old.Next = NextRemoved
	r.New.Kind = old.Kind
	r.New.Priority = old.Priority
	d.join(r.New, old.Peer())
}

// join adds a member. A future voter begins as a learner:
//
//	"In order to avoid availability gaps, Raft introduces an additional phase before the configuration change, in which
//	the new servers join the cluster as non-voting members (the leader replicates log entries to them, but they are not
//	considered for majorities)." (§6)
//
// If another incarnation of the id is already a member, the change must replace it. A present learner that is added as a
// voter is promoted, because a change that was given up leaves such learners.
func (d *draft) join(m Member, replaced Peer) {
	if r, removed := d.before.removal(m.Peer()); removed {
		if d.why.kind == 0 {
			d.why = refusal{kind: RefusedWasRemoved, concerns: []NodeID{m.ID}, index: r.Index}
		}
		return
	}
	if !d.once(m.Peer()) {
		return
	}
	for _, other := range d.withID(m.ID) {
		switch p := other.Peer(); {
		case p == m.Peer() || p == replaced:
			continue
		case d.before.includes(p):
			d.refuse(RefusedMemberExists, m.ID)
		default:
			d.refuse(RefusedMalformed, m.ID) // the change itself brings it
		}
		return
	}
	if m.Priority = m.Priority.stored(); m.Kind == Voter {
		m.Next = NextVoter
	}
	i, present := d.position(m.Peer())
	if present {
		m.AppVersion = d.Members[i].AppVersion
	}
	if !d.mayRun(&m) {
		return
	}
	switch kind := m.Kind; {
	case present && (d.Members[i].Kind == Voter || kind == Learner):
		d.refuse(RefusedMemberExists, m.ID)
	case present:
		m.Kind = Learner
		d.Members[i] = m
	default:
		m.Kind = Learner
		d.Members = slices.Insert(d.Members, i, m)
	}
}

// mayRun refuses a member whose program is below the minimum. While there is no minimum, the configuration keeps no versions.
func (d *draft) mayRun(m *Member) bool {
	switch {
	case d.AppVersionMin == 0:
		m.AppVersion = 0
	case m.AppVersion < d.AppVersionMin:
		if d.why.kind == 0 {
			d.why = refusal{kind: RefusedAppVersion, concerns: []NodeID{m.ID}, appVersion: m.AppVersion}
		}
		return false
	}
	return true
}

// refuseAddresses refuses a new address that another member has. It accepts the address if the change removes that member, or
// if both members have the same id.
func (d *draft) refuseAddresses() {
	for _, m := range d.Members {
		if old, ok := d.before.Peer(m.Peer()); ok && old.Address == m.Address {
			continue
		}
		for _, other := range d.Members {
			if other.Address == m.Address && other.ID != m.ID && other.Next != NextRemoved {
				d.refuse(RefusedAddressInUse, m.ID, other.ID)
				d.why.address = cmp.Or(d.why.address, m.Address)
			}
		}
	}
}

// refuseResult refuses a change that leaves no voter, or no electable one, or that gives two incarnations of one id a vote. It
// also refuses a change if its first configuration exceeds a limit.
func (d *draft) refuseResult(next Configuration) {
	if !slices.ContainsFunc(d.Members, Member.willVote) {
		d.refuse(RefusedLastVoter, d.before.Voters()[0].ID)
	}
	for i, m := range d.Members {
		if i > 0 && m.ID == d.Members[i-1].ID && m.willVote() && d.Members[i-1].willVote() {
			d.refuse(RefusedMemberExists, m.ID)
		}
	}
	if half := next.unelectable(); half != nil && d.why.kind == 0 {
		d.why = refusal{kind: RefusedNotElectable, concerns: d.raises(half), voters: peerIDs(half)}
	}
	if err := next.Validate(); err != nil && d.why.kind == 0 {
		d.why = refusal{kind: RefusedMalformed, invalid: err}
	}
}

// raises returns the voter whose priority is best raised, so that one of these members may lead. It is the first one that
// never led, or else the first one that is a voter now. It returns nil if none is.
func (d *draft) raises(half []Peer) (id []NodeID) {
	for _, p := range half {
		switch m, _ := d.before.Peer(p); {
		case m.Kind != Voter || m.ID == "":
		case !m.electable():
			return []NodeID{m.ID}
		case id == nil:
			id = []NodeID{m.ID}
		}
	}
	return id
}

// refuseSilence refuses a change if, after it, the voters that the leader hears would be no majority. A future voter does not
// count as silent, because the voters do not change before it has caught up.
func (d *draft) refuseSilence(despite []NodeID, at Index, live func(Peer) bool) {
	silent := d.missing(at, func(p Peer) bool {
		m, _ := d.Peer(p)
		return m.Next == NextVoter || slices.Contains(despite, p.ID) || live(p)
	})
	if len(silent) > 0 && d.why.kind == 0 {
		d.why = refusal{kind: RefusedQuorumLoss, concerns: silent, voters: peerIDs(d.enter(at).voterPeers())}
	}
}
