package elections

import (
	"slices"

	"github.com/coxswain/raft/internal/sim"
)

// invitationAlgorithm merges groups until one is left.
var invitationAlgorithm = &Algorithm{
	Name:   "invitation",
	Title:  "Invitation",
	Source: "H. Garcia-Molina, Elections in a Distributed Computing System, 1982",
	Assumes: "A message that is repeated often enough arrives; clocks measure the heartbeat interval " +
		"and the timeout; a disk keeps one counter, so that no group has the name of another.",
	Guarantees: "The members of one group have one leader; there are as many leaders as groups, by " +
		"definition, and the groups become one while all members reach each other.",
	InCore: []*CorePart{coreNamesLeader}, NotInCore: []*CoreLack{lackGroups},
	Leaves: "The merging of groups: two logs cannot merge.",
	Choices: []string{
		"Ties go to the inviter, crossed invitations to the lower number; they are " +
			"crossed if the member invited the inviter less than T ago.",
		"(leader, counter) names a group; the counter is on disk, and messages of an " +
			"older group are dropped, including a late ACCEPT: its sender is " +
			"a group of one again after a timeout.",
		"The leader that accepts tells its own members.",
		"A leader that was invited less than T ago is not invited again, and a follower that answers with " +
			"the name of the inviter's own group is counted in: its ACCEPT was lost.",
	},
	New: func(Options) Machine { return &invitation{} },
}

// group is the name of a group: (leader, counter) names a group, and messages of an older group are dropped (choice).
type group struct {
	leader  Rank
	counter uint64
}

const groupBytes = RankBytes + NumberBytes

// invite is INVITE: join my group, of this size.
type invite struct {
	group group
	size  int
}

func (invite) Kind() string { return "INVITE" }
func (invite) Bytes() int   { return HeaderBytes + groupBytes + RankBytes }

// acceptance is ACCEPT: these members join the group.
type acceptance struct {
	group   group
	members []Rank
}

func (acceptance) Kind() string { return "ACCEPT" }
func (m acceptance) Bytes() int { return HeaderBytes + groupBytes + RankBytes*len(m.members) }

// merger is JOIN: the group old is now part of another.
type merger struct{ old, into group }

func (merger) Kind() string { return "JOIN" }
func (merger) Bytes() int   { return HeaderBytes + 2*groupBytes }

// referral is REFER, an invited follower's answer: ask my leader.
type referral struct{ group group }

func (referral) Kind() string { return "REFER" }
func (referral) Bytes() int   { return HeaderBytes + groupBytes }

// groupHeartbeat is a leader's heartbeat, to its own group alone.
type groupHeartbeat struct{ group group }

func (groupHeartbeat) Kind() string { return "HEARTBEAT" }
func (groupHeartbeat) Bytes() int   { return HeaderBytes + groupBytes }

// invitation is one member.
type invitation struct {
	Detector
	group   group
	members []Rank   // of the group that it leads, itself included; nil in a follower
	invited sim.Time // when it last invited the members outside
}

// Leader returns the leader of the member's group, and the group's counter.
func (i *invitation) Leader() (Rank, uint64) { return i.group.leader, i.group.counter }

func (i *invitation) leads(e *Env) bool { return i.group.leader == e.Self() }

// Start: every member starts as leader of its own group.
func (i *invitation) Start(e *Env) {
	e.Rule("I start as the leader of a group of one.")
	i.part(e)
}

// part makes the member a group of one, with a new name that no group has had before.
func (i *invitation) part(e *Env) {
	e.Elect()
	counter, _ := e.Stored().(uint64)
	counter++
	e.Keep(counter)
	i.group = group{e.Self(), counter}
	i.members = []Rank{e.Self()}
	i.round(e)
}

// round does a leader's work of one heartbeat interval:
//
//	Leaders contact members outside their group at every heartbeat interval and invite them.
func (i *invitation) round(e *Env) {
	switch len(i.members) {
	case e.N():
		e.Rule("All are in my group: I send heartbeats.")
	case 1:
		e.Rule("I lead a group of one, and invite all others.")
	default:
		e.Rule("I send my group heartbeats, and invite all others.")
	}
	e.Set(TimerHeartbeat, e.Times().Heartbeat)
	i.invited = e.Now()
	for r := Rank(1); r <= Rank(e.N()); r++ {
		switch {
		case r == e.Self():
		case slices.Contains(i.members, r):
			e.Send(r, groupHeartbeat{i.group})
		default:
			e.Send(r, i.invitation())
		}
	}
}

func (i *invitation) invitation() invite { return invite{i.group, len(i.members)} }

// Receive handles a message.
func (i *invitation) Receive(e *Env, from Rank, m Message) {
	switch m := m.(type) {
	case invite:
		i.onInvite(e, from, m)
	case acceptance:
		i.onAccept(e, m)
	case merger:
		i.onJoin(e, m)
	case referral:
		i.onRefer(e, from, m)
	case groupHeartbeat:
		if m.group != i.group {
			e.Rule("A heartbeat of a group that I am not in: I drop it.")
			return
		}
		e.Rule("My group's heartbeat: I restart my timer.")
		i.Watch(e)
	}
}

// onInvite: an invited leader merges its group; an invited follower answers with its leader's id.
func (i *invitation) onInvite(e *Env, from Rank, m invite) {
	if !i.leads(e) {
		e.Rule("I am invited and do not lead: I answer with my leader's name.")
		e.Send(from, referral{i.group})
		return
	}
	left := slices.Contains(i.members, from)
	i.members = slices.DeleteFunc(i.members, func(r Rank) bool { return r == from }) // it leads its own group
	crossed := e.Now()-i.invited < e.Times().Answer
	switch {
	case i.joins(e, from, m.size, crossed):
		e.Rule("A group that wins over mine invites me: mine joins it.")
		i.join(e, m.group)
	case m.size < len(i.members) && !crossed:
		e.Rule("I am invited by a smaller group: I invite it into mine.")
		e.Send(from, i.invitation())
	case left:
		e.Rule("One that was in my group invites me: I invite it next time.")
	default:
		e.Rule("We invited each other: my invitation counts.")
	}
}

// joins reports whether the member's group joins the inviter's:
//
//	The leader of the larger group leads the merged one; ties go to the inviter, crossed invitations
//	to the lower number (choice).
//
// Invitations are crossed if the member invited the inviter so recently that the answer may be in flight.
func (i *invitation) joins(e *Env, inviter Rank, size int, crossed bool) bool {
	if size == len(i.members) {
		return !crossed || inviter < e.Self()
	}
	return size > len(i.members)
}

// join takes the member's whole group into another group. It notifies the members of its own group, because only the smaller
// group is told.
func (i *invitation) join(e *Env, into group) {
	e.Send(into.leader, acceptance{into, i.members})
	for _, r := range i.members {
		if r != e.Self() {
			e.Send(r, merger{old: i.group, into: into})
		}
	}
	i.group, i.members = into, nil
	i.Watch(e)
}

func (i *invitation) onAccept(e *Env, m acceptance) {
	if m.group != i.group || !i.leads(e) {
		e.Rule("This accepts a group that I no longer lead: I drop it.")
		return
	}
	e.Rule("My invitation is accepted: two groups are one, and I lead it.")
	for _, r := range m.members {
		i.add(r)
	}
}

func (i *invitation) add(r Rank) {
	if !slices.Contains(i.members, r) {
		i.members = append(i.members, r)
	}
}

func (i *invitation) onJoin(e *Env, m merger) {
	if m.old != i.group {
		e.Rule("This is about a group that I have left: I drop it.")
		return
	}
	e.Rule("My leader has joined another group: so have I.")
	i.group = m.into
	i.Watch(e)
}

// onRefer handles REFER: the two leaders merge their groups. If this leader has just invited the other leader, it does not
// invite that leader again (choice). If a follower names this very group, it belongs to the group, and only its ACCEPT was
// lost (choice).
func (i *invitation) onRefer(e *Env, from Rank, m referral) {
	leader := m.group.leader
	switch {
	case !i.leads(e):
		e.Rule("I am referred to another leader, but no longer lead myself.")
	case m.group == i.group:
		e.Rule("The one I invited is in my group already: I count it in.")
		i.add(from)
	case !slices.Contains(i.members, leader) && e.Now()-i.invited >= e.Times().Answer:
		e.Rule("I am referred to another leader: I invite it.")
		e.Send(leader, i.invitation())
	case slices.Contains(i.members, leader):
		e.Rule("I am referred to a leader that is in my group already.")
	default:
		e.Rule("I am referred to a leader, and invited all outside just now.")
	}
}

// Fire handles an expired timer:
//
//	A member without its leader for a timeout is a group of one again.
func (i *invitation) Fire(e *Env, t Timer) {
	switch t {
	case TimerHeartbeat:
		i.round(e)
	case TimerSuspect:
		e.Rule("My leader is silent: I am a group of one again, and invite.")
		i.part(e)
	}
}
