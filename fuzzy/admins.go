package fuzzy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// admins ask for changes of the members. Each admin has at most one open request. An admin learns the members from the status
// of some node, which may be long out of date. The admins draw from their own random stream.
type admins struct {
	c          *cluster
	random     *sim.Stream
	admins     []admin
	preferring *sim.Stream // for priorities
	begun      int64       // number of changes begun
	rush       sim.Time    // until then admins wait hardly at all between changes
}

// admin is one of the admins.
type admin struct {
	open  raft.RequestID // the request that it waits for; 0: none
	tries *changing      // the change to ask for again, because no answer came in time; nil: draw a new one
}

// changing is a change that an admin asks for.
type changing struct {
	raft.Change
	ifIndex raft.Index
	entry   raft.EntryID  // of the change, once accepted
	met     *loggedConfig // the configuration in force on its member when the admin asked
}

func newAdmins(c *cluster) *admins {
	return &admins{
		c: c, random: sim.NewStream(c.seed.Number, sim.MembersConcern), admins: make([]admin, c.profile.Members.Admins),
		preferring: sim.NewStream(c.seed.Number, sim.MembersConcern<<8),
	}
}

// later schedules an admin's next change.
func (a *admins) later(i int) {
	think := a.c.profile.Members.Think
	if a.c.now() < a.rush {
		think = a.c.profile.ElectionTimeout / 20
	}
	a.c.queue.Push(a.c.now()+1+a.random.Exponential(think), event{kind: evAdmin, node: int16(i)})
}

// hurry makes all admins ask for changes without a pause.
func (a *admins) hurry(until sim.Time) {
	a.rush = until
	for i := range a.admins {
		if a.admins[i].open == 0 {
			a.c.queue.Push(a.c.now()+1, event{kind: evAdmin, node: int16(i)})
		}
	}
}

// begin makes an admin ask for a change.
func (a *admins) begin(i int) {
	c, s := a.c, a.random
	if c.phase != safetyPhase || a.admins[i].open != 0 {
		return
	}
	a.begun++
	ch := a.admins[i].tries
	if a.admins[i].tries = nil; ch == nil {
		ch = a.draw()
	}
	to, anybody := c.leader(), c.nodes[s.IntN(len(c.nodes))]
	if to < 0 || s.IntN(5) == 0 && !c.profile.Members.Gentle {
		to = anybody.index
	}
	n, forwards := c.work.asked(c.nodes[to])
	if ch == nil || n.core == nil || !c.edits.changes(a.begun) || !forwards && !n.letsJoin(ch) {
		a.later(i)
		return
	}
	ask := c.work.change
	if forwards {
		ask = c.work.changeThrough
	}
	t := ask(n, i, ch)
	a.admins[i].open = t
	c.queue.Push(c.now()+1+s.Exponential(2*c.profile.Members.Patience), event{kind: evGiveUp, a: int64(t)})
}

// letsJoin reports whether the stores of all members that a change adds may join, as the member that is asked finds out first.
func (n *node) letsJoin(ch *changing) bool {
	return !slices.ContainsFunc(ch.joiners(), func(m raft.Member) bool {
		joins := n.c.at(m.Peer())
		if n.handshake(n.disk.memory).MayJoin(joins.hello(n.peer())) != nil {
			return true
		}
		n.c.check.checkJoiner(n, joins)
		return false
	})
}

// joiners returns the members that the change adds.
func (ch *changing) joiners() []raft.Member {
	added := slices.Clone(ch.Add)
	for _, r := range ch.Replace {
		added = append(added, r.New)
	}
	return added
}

// change asks a member for a change.
func (w *workload) change(n *node, admin int, ch *changing) raft.RequestID {
	ch.met = configured(n.log)
	requestID := w.ask(request{kind: changeRequest, client: admin, node: n, change: ch, floor: w.c.check.committed()})
	w.c.faulted("admin %d asks %s, if the members are those of %d, to %s", admin+1, n.name(), ch.ifIndex, ch.describe())
	n.post(raft.ChangeRequested{RequestID: requestID, IfIndex: ch.ifIndex, Change: ch.Change})
	return requestID
}

// ended ends an admin's wait, either because an answer has come or because the time is over. Without an answer, the admin
// often asks for the same change again.
func (a *admins) ended(t raft.RequestID, answered bool) {
	r := &a.c.work.requests[t]
	if r.client >= len(a.admins) || a.admins[r.client].open != t {
		return
	}
	a.admins[r.client].open = 0
	if !answered && a.random.Coin() {
		a.admins[r.client].tries = &changing{Change: r.change.Change, ifIndex: r.change.ifIndex}
	}
	a.later(r.client)
}

// draw returns a change of the members that some node reports. It returns nil if the node reports no members.
func (a *admins) draw() *changing {
	s := a.random
	if a.c.profile.Members.Gentle {
		return a.next()
	}
	shown := a.c.nodes[s.IntN(len(a.c.nodes))]
	if l := a.c.leader(); l >= 0 && s.IntN(4) > 0 {
		shown = a.c.nodes[l]
	}
	if shown.core == nil || shown.status.ConfigIndex == 0 {
		return nil
	}
	ch := &changing{}
	switch s.IntN(8) {
	case 0: // unconditional
	case 1:
		ch.ifIndex = raft.Index(s.IntN(int(shown.status.ConfigIndex) + 2))
	default:
		ch.ifIndex = shown.status.ConfigIndex
	}
	a.edit(shown, &ch.Change)
	a.prefer(shown, &ch.Change)
	if !ch.Cancel { // the default of a minute would outlast the second phase
		ch.Patience = time.Duration(s.Between(1, 2*a.c.profile.Members.Patience))
	}
	return ch
}

// next returns a change that a healthy cluster makes without a new leader. First a learner joins and becomes a voter. Then
// another member is replaced or removed. next returns nil while there is no leader or no node can join.
func (a *admins) next() *changing {
	l := a.c.leader()
	if l < 0 {
		return nil
	}
	lead, ch := a.c.nodes[l], &changing{}
	config := &lead.status.Config
	var others []raft.Peer // voters that do not lead
	for _, m := range config.Members {
		switch {
		case m.Kind == raft.Learner:
			ch.Promote = []raft.Peer{m.Peer()}
		case m.Peer() != lead.peer():
			others = append(others, m.Peer())
		}
	}
	ch.ifIndex, ch.Patience = lead.status.ConfigIndex, time.Duration(a.c.profile.Members.Patience)
	switch old := others[a.random.IntN(len(others))]; {
	case len(ch.Promote) > 0:
	case len(others) < a.c.profile.Voters:
		ch.Add = a.joiner(lead, raft.Learner)
	case a.random.Coin():
		ch.Remove = []raft.Peer{old}
	default:
		for _, m := range a.joiner(lead, raft.Voter) {
			ch.Replace = []raft.Replacement{{Old: old, New: m}}
		}
	}
	if len(ch.Promote)+len(ch.Add)+len(ch.Remove)+len(ch.Replace) == 0 {
		return nil
	}
	return ch
}

// edit draws what the change does.
func (a *admins) edit(shown *node, ch *raft.Change) {
	s, config := a.random, &shown.status.Config
	member := func() raft.Member { return config.Members[s.IntN(len(config.Members))] }
	if l := a.c.leader(); l >= 0 && s.IntN(3) == 0 {
		if m, ok := config.Peer(a.c.nodes[l].peer()); ok {
			member = func() raft.Member { return m }
		}
	}
	joiner := func(kind raft.MemberKind) []raft.Member { return a.joiner(shown, kind) }
	switch s.IntN(12) {
	case 0, 1, 2:
		ch.Add = joiner(raft.Voter)
	case 3:
		ch.Add = joiner(raft.Learner)
	case 4:
		m := member()
		if i := slices.IndexFunc(config.Members, func(m raft.Member) bool { return m.Kind == raft.Learner }); i >= 0 {
			m = config.Members[i]
		}
		ch.Promote = []raft.Peer{a.called(m)}
	case 5:
		ch.Demote = []raft.Peer{a.called(member())}
	case 6, 7:
		ch.Remove = []raft.Peer{a.called(member())}
	case 8, 9:
		if n := joiner(raft.Voter); len(n) > 0 {
			ch.Replace = []raft.Replacement{{Old: a.called(member()), New: n[0]}}
		}
	case 10:
		a.several(shown, ch)
	case 11:
		if a.random.Coin() {
			ch.Cancel = true
			return
		}
		number := 1 + s.IntN(9)
		address, m := fmt.Sprintf("%s:%d", member().ID, number), member()
		if n := a.c.at(m.Peer()); number > 4 && n != nil {
			address = n.place
		}
		ch.Update = []raft.Update{{Peer: a.called(m), Address: &address, Meta: sim.Pick(s, nil, &address)}}
	}
	if s.IntN(4) == 0 {
		ch.Despite = append(ch.Despite, member().ID)
	}
}

// called returns the name that an admin uses for a member: the id alone, or sometimes the id with the incarnation.
func (a *admins) called(m raft.Member) raft.Peer {
	if a.random.IntN(3) == 0 {
		return m.Peer()
	}
	return raft.Peer{ID: m.ID}
}

// several draws a change of several members: each node gets a role at random.
func (a *admins) several(shown *node, ch *raft.Change) {
	config := &shown.status.Config
	for i := range config.Members {
		m := &config.Members[i]
		switch a.random.IntN(5) {
		case 0:
			ch.Remove = append(ch.Remove, m.Peer())
		case 1:
			if m.Kind == raft.Voter {
				ch.Demote = append(ch.Demote, m.Peer())
			} else {
				ch.Promote = append(ch.Promote, m.Peer())
			}
		}
	}
	for range 2 {
		for _, m := range a.joiner(shown, raft.MemberKind(a.random.IntN(2))) {
			if !slices.ContainsFunc(ch.Add, func(o raft.Member) bool { return o.ID == m.ID }) {
				ch.Add = append(ch.Add, m)
			}
		}
	}
}

// joiner returns a drawn node as a member that is to join. It may be a learner that is to become a voter. If no member has to
// find it, its address may be wrong. joiner returns no member if the drawn node may not join or is down.
func (a *admins) joiner(shown *node, kind raft.MemberKind) []raft.Member {
	config := &shown.status.Config
	var others []*node
	for _, n := range a.c.nodes {
		if m := member(config, n.peer()); m == nil || m.Kind == raft.Learner && kind == raft.Voter {
			others = append(others, n)
		}
	}
	if len(others) == 0 {
		return nil
	}
	n := others[a.random.IntN(len(others))]
	if n.core == nil || n.frozen || !a.c.net.Links.Up(shown.index, n.index) || !a.c.net.Links.Up(n.index, shown.index) {
		return nil
	}
	m := raft.Member{ID: n.id, Address: n.place, Kind: kind, Incarnation: n.disk.incarnation, AppVersion: n.version}
	if number := a.random.IntN(6); number > 2 && !a.c.profile.Members.Gentle {
		if m.Meta = fmt.Sprintf("%s:%d", n.id, number); !a.c.finds() {
			m.Address = m.Meta
		}
	}
	return []raft.Member{m}
}

// describe returns the change as part of a sentence.
func (ch *changing) describe() string {
	var parts []string
	say := func(what string, members ...raft.NodeID) {
		if len(members) > 0 {
			parts = append(parts, fmt.Sprintf("%s %v", what, members))
		}
	}
	for _, m := range ch.Add {
		say(fmt.Sprintf("add as %v with priority %v", m.Kind, m.Priority), m.ID)
	}
	say("promote", idsOfPeers(ch.Promote)...)
	say("demote", idsOfPeers(ch.Demote)...)
	say("remove", idsOfPeers(ch.Remove)...)
	for _, r := range ch.Replace {
		say("replace", r.Old.ID, r.New.ID)
	}
	for _, u := range ch.Update {
		if say("update", u.Peer.ID); u.Priority != nil {
			parts[len(parts)-1] += fmt.Sprintf(" to priority %v", *u.Priority)
		}
	}
	if ch.LeaseDuration != nil {
		parts = append(parts, fmt.Sprintf("set leases of %v", *ch.LeaseDuration))
	}
	if ch.Cancel {
		parts = append(parts, "cancel")
	}
	say("despite", ch.Despite...)
	if len(parts) == 0 {
		return "change nothing"
	}
	return strings.Join(parts, ", ")
}

func idsOfPeers(peers []raft.Peer) (ids []raft.NodeID) {
	for _, p := range peers {
		ids = append(ids, p.ID)
	}
	return ids
}

// repair empties damaged disks and the disks of removed members, and starts their nodes again. These nodes then count as new
// members, which may join.
func (a *admins) repair() {
	c := a.c
	if c.phase != safetyPhase {
		return
	}
	for _, n := range c.nodes {
		if (n.ended || n.disk.damaged) && n.core == nil && c.newestCommitted() != nil && a.random.Coin() && !n.returns() {
			c.faulted("the disk of %s is emptied", n.name())
			n.empty()
			n.ended, n.disk.damaged = false, false
			n.restartIn(a.random.Exponential(c.profile.ElectionTimeout))
		}
	}
	a.repairLater()
}

func (a *admins) repairLater() {
	if every := a.c.profile.Members.Emptied; every > 0 {
		a.c.queue.Push(a.c.now()+1+a.random.Exponential(every), event{kind: evRepair})
	}
}

// empty empties a node's disk, which gives the node a new incarnation. A node that is to join an existing cluster starts
// without a list of members. With a list, several emptied nodes could bootstrap a second cluster.
func (n *node) empty() {
	n.disk.wipe()
	n.appliedMost = 0
	n.forgetHands()
	if n.aside != nil {
		n.aside.closed = true // the search was for leave to give up the store that was here
	}
	if n.c.profile.Members.on() && n.c.newestCommitted() != nil {
		n.initial = raft.Configuration{}
	}
}

// mayEmpty reports whether a damaged disk may be emptied. Members that were started with an incomplete list by mistake may
// have bootstrapped a cluster of their own. One of these members has to keep its disk. If all their disks were emptied, these
// members could join another cluster, and no rule tells the entries of two clusters apart.
func (n *node) mayEmpty() bool {
	c := n.c
	if !n.keepsOne() {
		return false
	}
	if c.profile.Node.OtherLists == 0 || n.index < c.others || n.index >= c.profile.Voters {
		return true
	}
	short := c.nodes[c.others:c.profile.Voters]
	return slices.ContainsFunc(short, func(other *node) bool { return other != n && len(other.disk.ghosts) == 0 })
}
