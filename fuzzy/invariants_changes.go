package fuzzy

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// The invariants of changes of the members: the answers that admins get.
//
//	N69  A change is accepted if nothing is wrong with it and the index that it names is in force, and refused only for a reason that holds. The answer is changed or given up exactly if a committed configuration shows this result. A change that waits is given up once a member has made no progress for its patience, and not before.

// asked is the result that a change asks for: the role of each member at the end of the change. It is relative to the
// configuration that the change meets. It is a separate model, and does not know the steps that the core takes.
type asked struct {
	config   *raft.Configuration
	roles    map[raft.Peer]raft.MemberKind // roles of all members
	prefers  map[raft.Peer]raft.Priority   // priorities of the voters; 0 is written for 1
	named    map[raft.Peer]int             // how often the change names a member
	problems []raft.RefusalKind            // the change may be refused for each of these
}

// meets returns the result that a change asks for when it meets a configuration without a change in progress.
func (ch *changing) meets(config *raft.Configuration) *asked {
	a := &asked{config: config, roles: map[raft.Peer]raft.MemberKind{}, prefers: map[raft.Peer]raft.Priority{}, named: map[raft.Peer]int{}}
	for _, m := range config.Members {
		a.roles[m.Peer()], a.prefers[m.Peer()] = m.Kind, m.Priority
	}
	for _, r := range ch.Replace {
		if old, ok := a.find(r.Old); ok {
			delete(a.roles, old.Peer())
			r.New.Priority = old.Priority
			a.joins(r.New, old.Kind, old.Peer())
		}
	}
	for _, m := range ch.Add {
		a.joins(m, m.Kind, raft.Peer{})
	}
	for _, p := range ch.Promote {
		a.gives(p, raft.Voter)
	}
	for _, p := range ch.Demote {
		a.gives(p, raft.Learner)
	}
	for _, p := range ch.Remove {
		if p.Incarnation == 0 && a.twice(p.ID) {
			a.wrong(raft.RefusedMalformed)
			continue
		}
		if m, ok := a.find(p); ok {
			delete(a.roles, m.Peer())
		}
	}
	for _, u := range ch.Update {
		m, ok := a.find(u.Peer)
		if u.Priority == nil {
			continue
		}
		if a.prefers[m.Peer()] = *u.Priority; !inRange(*u.Priority) || ok && m.Kind != raft.Voter && u.Priority.Number() != 1 {
			a.wrong(raft.RefusedMalformed)
		}
	}
	for _, id := range ch.Despite {
		joins := slices.ContainsFunc(ch.Add, func(m raft.Member) bool { return m.ID == id }) ||
			slices.ContainsFunc(ch.Replace, func(r raft.Replacement) bool { return r.New.ID == id })
		if _, ok := config.Member(id); !ok && !joins {
			a.wrong(raft.RefusedUnknownMember)
		}
	}
	a.judge(ch)
	return a
}

func (a *asked) wrong(kind raft.RefusalKind) { a.problems = append(a.problems, kind) }

// find returns the configuration's member that a change names.
func (a *asked) find(p raft.Peer) (raft.Member, bool) {
	m, ok := a.config.Peer(p)
	if p.Incarnation == 0 {
		m, ok = a.config.Member(p.ID)
		if a.twice(p.ID) && m.Kind != raft.Voter {
			a.wrong(raft.RefusedMalformed)
			return m, false
		}
	}
	if !ok {
		a.wrong(raft.RefusedUnknownMember)
		return m, false
	}
	a.named[m.Peer()]++
	return m, true
}

// twice reports whether two members share the id.
func (a *asked) twice(id raft.NodeID) bool {
	times := 0
	for _, m := range a.config.Members {
		if m.ID == id {
			times++
		}
	}
	return times > 1
}

func (a *asked) gives(p raft.Peer, kind raft.MemberKind) {
	if m, ok := a.find(p); ok {
		a.roles[m.Peer()] = kind
	}
}

// joins adds a member. The member may replace another one.
func (a *asked) joins(m raft.Member, kind raft.MemberKind, replaced raft.Peer) {
	p := m.Peer()
	a.named[p]++
	was, there := a.roles[p]
	if there && (was == raft.Voter || kind == raft.Learner) {
		a.wrong(raft.RefusedMemberExists)
	}
	if slices.ContainsFunc(a.config.Removed, func(r raft.Removal) bool { return r.Peer == p }) {
		a.wrong(raft.RefusedWasRemoved)
	}
	for other := range a.roles {
		if other.ID == p.ID && other != p && other != replaced {
			a.wrong(raft.RefusedMemberExists)
		}
	}
	if !inRange(m.Priority) || kind == raft.Learner && replaced == (raft.Peer{}) && m.Priority.Number() != 1 {
		a.wrong(raft.RefusedMalformed)
	}
	if is := member(a.config, p); is != nil {
		m.AppVersion = is.AppVersion
	}
	if m.AppVersion < a.config.AppVersionMin {
		a.wrong(raft.RefusedAppVersion)
	}
	a.roles[p], a.prefers[p] = kind, m.Priority
}

func inRange(p raft.Priority) bool { return p >= raft.PriorityNever && p <= raft.PriorityMax }

// electable reports whether one of the voters may lead, both of those that the configuration has, with the priorities that
// the change gives them, and of those at the end.
func (a *asked) electable() bool {
	now, then := false, false
	for _, m := range a.config.Members {
		now = now || m.Kind == raft.Voter && a.prefers[m.Peer()] != raft.PriorityNever
	}
	for p, kind := range a.roles {
		then = then || kind == raft.Voter && a.prefers[p] != raft.PriorityNever
	}
	return now && then
}

// judge finds what is wrong with the outcome.
func (a *asked) judge(ch *changing) {
	voters, of := 0, map[raft.NodeID]int{}
	for p, kind := range a.roles {
		if kind == raft.Voter {
			voters++
			of[p.ID]++
		}
	}
	for _, times := range of {
		if times > 1 {
			a.wrong(raft.RefusedMemberExists)
		}
	}
	switch {
	case voters == 0:
		a.wrong(raft.RefusedLastVoter)
	case !a.electable():
		a.wrong(raft.RefusedNotElectable)
	}
	for _, times := range a.named {
		if times > 1 {
			a.wrong(raft.RefusedMalformed)
		}
	}
	if a.clashes(ch) {
		a.wrong(raft.RefusedAddressInUse)
	}
	if ch.Cancel {
		a.problems = nil
	}
}

// clashes reports whether the change sets an address that a member with a different id also has.
func (a *asked) clashes(ch *changing) bool {
	given := map[raft.Peer]string{}
	for _, m := range ch.joiners() {
		given[m.Peer()] = m.Address
	}
	for _, u := range ch.Update {
		if m, ok := a.find(u.Peer); ok && u.Address != nil {
			a.named[m.Peer()]--
			given[m.Peer()] = *u.Address
		}
	}
	for p, address := range given {
		for other := range a.roles {
			theirs, changed := given[other]
			if m, ok := a.config.Peer(other); ok && !changed {
				theirs = m.Address
			}
			if other.ID != p.ID && theirs == address {
				return true
			}
		}
	}
	return false
}

// made reports whether a configuration is the result that a change asks for.
func (a *asked) made(ch *changing, config *raft.Configuration) bool {
	for _, u := range ch.Update {
		if m, ok := a.find(u.Peer); ok {
			is := member(config, m.Peer())
			if is == nil || u.Address != nil && is.Address != *u.Address || u.Meta != nil && is.Meta != *u.Meta {
				return false
			}
		}
	}
	for _, m := range ch.joiners() {
		if is := member(config, m.Peer()); is == nil || is.Address != m.Address || is.Meta != m.Meta {
			return false
		}
	}
	if len(config.Outgoing) > 0 || waits(config) || len(config.Members) != len(a.roles) {
		return false
	}
	for _, m := range config.Members {
		if kind, ok := a.roles[m.Peer()]; !ok || kind != m.Kind || kind == raft.Voter && m.Priority.Number() != a.prefers[m.Peer()].Number() {
			return false
		}
	}
	return true
}

// checkChangeAnswer checks an answer to an admin.
func (k *checker) checkChangeAnswer(n *node, r *request, a raft.Answer) {
	switch ch := r.change; a.Kind {
	case raft.AnswerAccepted:
		k.checkChangeAccepted(n, ch, a.ID)
	case raft.AnswerRefused:
		if why := k.groundless(n, r, a); why != "" {
			k.broken("N69", "%s refuses to %s (%d): %s", n, ch.describe(), a.Refusal, why)
		}
	case raft.AnswerChanged:
		k.c.stats.Changed++
		l := k.configOf(n, a.ID)
		if l == nil {
			k.broken("N69", "%s has changed the members by %v, which is not committed, or not a configuration", n, a.ID)
			return
		}
		// After lost acknowledgements, members may elect a leader that lacks a committed configuration (as with G13).
		if newest := committedConfig(k.canonical[:r.floor]); newest != nil && newest.index > l.index && !k.c.lostToDisks() {
			k.broken("N69", "%s says that entry %d has done what was asked, but entry %d was committed before", n, l.index, newest.index)
		}
		began := l // where a change without effect began
		if ch.entry != (raft.EntryID{}) {
			if began = n.log[ch.entry.Index-1].config; began.index == ch.entry.Index {
				began = began.before
			}
		}
		if ch.Cancel && waits(&l.Configuration) || !ch.Cancel && !ch.meets(&began.Configuration).made(ch, &l.Configuration) {
			k.broken("N69", "%s says that it has done what was asked, %s, but entry %d says %v", n, ch.describe(), l.index, l.Members)
		}
	case raft.AnswerGivenUp:
		l := k.configOf(n, a.ID)
		if l == nil || l.before == nil || !waits(&l.before.Configuration) || waits(&l.Configuration) || len(l.Outgoing) > 0 {
			k.broken("N69", "%s says that it has given up to %s by %v, but that entry does not say so", n, ch.describe(), a.ID)
		}
	}
}

// checkWaiting checks that a leader gives up a change that waits neither before nor after its patience has ended. While the
// leader takes a snapshot or streams a frozen state, the members may wait for that.
func (k *checker) checkWaiting(n *node, before *raft.CoreStatus, out *raft.Output) {
	s, w, l := &n.status, &n.seen, n.configBefore
	since, patience := max(w.inOffice.since, w.led), raft.Time(l.Patience)
	canceled := slices.ContainsFunc(out.Answers, func(a raft.Answer) bool {
		r := k.c.work.request(a.RequestID)
		return a.Kind == raft.AnswerAccepted && r != nil && r.change != nil && r.change.Cancel
	})
	for i := range out.Trace {
		if out.Trace[i].Kind == raft.TraceChangeGivenUp && !canceled && w.now-since < patience {
			k.broken("N69", "%s gives up the change of entry %d after %v, before its patience of %v", n, l.index, time.Duration(w.now-since), l.Patience)
		}
	}
	if configured(n.log) != l || l.index > before.Commit || before.Commit <= n.earlier(s.Term) || w.closed || s.TransferringUntil > 0 || s.DiskStalled {
		return
	}
	for _, m := range l.Members {
		p := progressOn(s, m.Peer())
		if m.Next != raft.NextVoter || p == nil || p.CatchUp.Ready {
			continue
		}
		seen := w.of(m.Peer())
		if seen.failed = seen.failed && p.State == "snapshot"; n.vault.held != nil || s.Taking.Index > 0 && w.now-since < takePatiences*patience {
			seen.movedAt = w.now
		}
		if idle := w.now - max(seen.movedAt, seen.provedAt, since); idle >= patience {
			k.broken("N69", "%s still waits for %s, which has made no progress for %v", n, k.c.title(m.Peer()), time.Duration(idle))
		}
	}
}

// takePatiences is the number of patiences for which a change waits for snapshots that are being taken.
const takePatiences = 10

// configOf returns the configuration in an entry that a member knows to be committed; nil if the entry holds no
// configuration. The id may lack a term, because the answer to a change without effect names no term.
func (k *checker) configOf(n *node, id raft.EntryID) *loggedConfig {
	if id.Index == 0 || id.Index > n.status.Commit || id.Term > 0 && n.log[id.Index-1].entry.ID() != id {
		return nil
	}
	if l := n.log[id.Index-1].config; l.index == id.Index {
		return l
	}
	return nil
}

// checkChangeAccepted checks the entry with which a change begins.
func (k *checker) checkChangeAccepted(n *node, ch *changing, id raft.EntryID) {
	if int(id.Index) > len(n.log) || n.log[id.Index-1].entry.ID() != id || n.log[id.Index-1].config.index != id.Index {
		k.broken("N69", "%s takes a change as %v, which is not a configuration in its log", n, id)
		return
	}
	before := n.log[id.Index-1].config.before
	if ch.ifIndex != 0 && ch.ifIndex != before.index {
		k.broken("N69", "%s takes a change of the configuration of entry %d, but that of %d is in force", n, ch.ifIndex, before.index)
	}
	if ch.Cancel {
		if !waits(&before.Configuration) {
			k.broken("N69", "%s cancels a change, but none waits", n)
		}
		return
	}
	if a := ch.meets(&before.Configuration); len(a.problems) > 0 {
		k.broken("N69", "%s takes a change (%s) that must be refused for %v", n, ch.describe(), a.problems)
	}
	after := n.log[id.Index-1].config
	if d := ch.LeaseDuration; d != nil && after.LeaseDuration != *d {
		k.broken("N69", "%s takes a change (%s), and its leases last %v", n, ch.describe(), after.LeaseDuration)
	}
	for _, m := range after.Members {
		speaks, known := n.seen.speaks[m.Peer()]
		if needs := levelNeeds(after.Level); known && speaks < needs && m.Kind != raft.Leaving && m.Next != raft.NextRemoved {
			k.broken("N69", "%s takes a change (%s) to feature level %d, but %s speaks protocol %d", n, ch.describe(), after.Level, m.ID, speaks)
		}
	}
}

// groundless returns the reason why a refusal is wrong; "" if the refusal is right. Other checks cover the refusals that
// apply to all requests.
func (k *checker) groundless(n *node, r *request, a raft.Answer) string {
	ch, now := r.change, configured(n.log)
	if now == nil || a.Refusal < raft.RefusedConfigIndex {
		return ""
	}
	for _, l := range []*loggedConfig{now, n.configBefore} { // the step may have changed the configuration after the refusal
		if l != nil && k.grounded(n, r, ch, l, a.Refusal) {
			return ""
		}
	}
	for l := now; a.Refusal != raft.RefusedChanging && l != nil && l != ch.met; { // the request has waited for its configuration to be confirmed
		if l = l.before; l != nil && k.grounded(n, r, ch, l, a.Refusal) {
			return ""
		}
	}
	return fmt.Sprintf("the configuration of entry %d is in force", now.index)
}

func (k *checker) grounded(n *node, r *request, ch *changing, l *loggedConfig, why raft.RefusalKind) bool {
	switch why {
	case raft.RefusedConfigIndex:
		return ch.ifIndex != 0 && ch.ifIndex != l.index
	case raft.RefusedChanging:
		return l.index > n.status.Commit || waits(&l.Configuration) || len(l.Outgoing) > 0 || k.c.work.changesOn(n) > 1
	case raft.RefusedQuorumLoss:
		return true // N68 checks it
	case raft.RefusedLeaseTooLong:
		d := ch.LeaseDuration
		return d != nil && raft.Time(*d) > n.timeout()-n.timeout()*raft.LeaseDriftPercentMax/100
	case raft.RefusedEarlierRelease:
		needs := levelNeeds(max(1, l.Level))
		if ch.prioritizes() {
			needs = max(needs, raft.ProtocolPriorities)
		}
		if d := ch.LeaseDuration; d != nil && *d > 0 {
			needs = raft.ProtocolSessions
		}
		return slices.ContainsFunc(slices.Collect(maps.Values(n.seen.speaks)), func(speaks uint16) bool { return speaks < needs })
	case raft.RefusedAppVersion: // a learner may have told its leader a version since it joined
		if slices.ContainsFunc(n.seen.peers, func(p peerWitness) bool { return p.echoed != raft.RPCID{} && p.version < l.AppVersionMin }) {
			return true
		}
	}
	return slices.Contains(ch.meets(&l.Configuration).problems, why)
}

// levelNeeds returns the protocol version that a member must speak to read configurations of a feature level.
func levelNeeds(level uint64) uint16 {
	switch {
	case level < 2:
		return raft.ProtocolMembership
	case level == 2:
		return raft.ProtocolPriorities
	case level == 3:
		return raft.ProtocolAppVersions
	}
	return raft.ProtocolSessions
}

// prioritizes reports whether the change gives a priority.
func (ch *changing) prioritizes() bool {
	return slices.ContainsFunc(ch.Add, func(m raft.Member) bool { return m.Priority.Number() != 1 }) ||
		slices.ContainsFunc(ch.Update, func(u raft.Update) bool { return u.Priority != nil && u.Priority.Number() != 1 })
}

// changesOn counts the changes that a process has not answered, or has answered in the running step.
func (w *workload) changesOn(n *node) (open int) {
	for i := n.firstRequestID; i < len(w.requests); i++ {
		if r := &w.requests[i]; r.kind == changeRequest && r.node == n && r.life == n.life && (r.errand == nil || r.relayed != nil) {
			open++
		}
	}
	return open
}
