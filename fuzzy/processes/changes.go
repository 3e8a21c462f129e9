package processes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coxswain/raft/admin"
)

const (
	grownMax  = 5 // number of members to which the cluster grows, unless it begins with more
	shrunkMin = 3 // number of members to which it shrinks, unless it shrinks to one and grows again
	// hangMax bounds the time that the cluster needs to reach the wanted members under faults.
	hangMax = 3 * time.Minute
)

// reshape changes the wanted membership, and runs commands until the cluster has this membership. If the run ends meanwhile,
// conclude completes the change.
func (w *world) reshape(ctx context.Context, f Fault) error {
	now, reached, err := w.reach(ctx, Fault{}, hangMax)
	if !reached {
		return err
	}
	switch f.Kind {
	case Resize:
		return w.resize(ctx, f, now)
	case Swap:
		return w.swap(ctx, f, now)
	case Demote:
		return w.demote(ctx, f, now)
	case Move:
		return w.move(ctx, f, now)
	}
	return w.lose(ctx, f, now)
}

// pick returns voters for a fault, beginning with the one that the fault is aimed at.
func (w *world) pick(f Fault, now admin.Members) (all []*member) {
	for _, id := range now.Voters() {
		all = append(all, w.members[w.index(id)])
	}
	first := f.Node % len(all)
	if i := slices.Index(now.Voters(), now.Leader); f.Leader && i >= 0 {
		first = i
	}
	return append(all[first:len(all):len(all)], all[:first]...)
}

// spares returns the members that are not part of the wanted membership.
func (w *world) spares(f Fault) (all []*member) {
	for i := range w.members {
		m := w.members[(f.Other+i)%len(w.members)]
		if p := m.now(); p.out && p.by == "" { // by: the configuration may still name it
			all = append(all, m)
		}
	}
	return all
}

// resize lets the cluster grow or shrink. If it shrinks to one member, it grows again.
func (w *world) resize(ctx context.Context, f Fault, now admin.Members) error {
	large, voters := max(grownMax, w.Nodes), len(now.Voters())
	size := []int{large, shrunkMin, 1}[f.Random%3]
	if size == voters {
		size = []int{large, shrunkMin}[f.Random>>4%2]
	}
	if size == voters {
		size = large + shrunkMin - voters
	}
	w.count(f, "%d voters become %d", voters, size)
	w.tell(func(r *Report) { r.Membership.Smallest = min(r.Membership.Smallest, size) })
	if size < voters {
		for _, m := range w.pick(f, now)[:voters-size] {
			if err := w.dismiss(m); err != nil {
				return err
			}
		}
	} else if err := w.enlist(f, size-voters); err != nil {
		return err
	}
	now, reached, err := w.reach(ctx, f, hangMax)
	if !reached || size != 1 {
		return err
	}
	pause(ctx, f.For)
	if err := w.enlist(f, shrunkMin-len(now.Voters())); err != nil {
		return err
	}
	_, _, err = w.reach(ctx, f, hangMax)
	return err
}

// enlist starts spare members that are to join. Some join by themselves, the others by a command.
func (w *world) enlist(f Fault, count int) error {
	spares := w.spares(f)
	for i, m := range spares[:min(count, len(spares))] {
		if err := w.prepare(m, f.Random>>(8+i)%2 == 0); err != nil {
			return err
		}
	}
	return nil
}

// prepare starts a spare member on an empty disk.
func (w *world) prepare(m *member, joins bool) error {
	w.disks.Lock()
	defer w.disks.Unlock()
	return w.exchange(m, func() error {
		m.becomes(func(p *place) { *p = place{role: voter, slot: p.slot, moved: true, joins: joins, held: true} })
		return m.empty()
	})
}

// dismiss marks the member for removal. A member that joins by itself, and is not named yet, could still join. dismiss therefore
// restarts such a member without --join.
func (w *world) dismiss(m *member) error {
	m.becomes(func(p *place) { p.role, p.leaves = "", true })
	if !m.joining() {
		return nil
	}
	w.disks.Lock()
	defer w.disks.Unlock()
	return w.exchange(m, func() error { return nil })
}

// swap puts a spare member in the place of a voter.
func (w *world) swap(ctx context.Context, f Fault, now admin.Members) error {
	spares := w.spares(f)
	if len(spares) == 0 {
		w.miss(f.Kind)
		return nil
	}
	m := w.pick(f, now)[0]
	w.count(f, "%s takes the place of %s", spares[0].ID, m.ID)
	if err := errors.Join(w.prepare(spares[0], false), w.dismiss(m)); err != nil {
		return err
	}
	m.becomes(func(p *place) { p.by = spares[0].ID })
	_, _, err := w.reach(ctx, f, hangMax)
	return err
}

// demote turns a voter into a learner, and then into a voter again.
func (w *world) demote(ctx context.Context, f Fault, now admin.Members) error {
	if len(now.Voters()) < shrunkMin {
		w.miss(f.Kind)
		return nil
	}
	m := w.pick(f, now)[0]
	w.count(f, "%s, leads: %v", m.ID, m.ID == now.Leader)
	m.becomes(func(p *place) { p.role = learner })
	_, reached, err := w.reach(ctx, f, hangMax)
	m.becomes(func(p *place) { p.role = voter })
	if !reached {
		return err
	}
	pause(ctx, f.For)
	_, _, err = w.reach(ctx, f, hangMax)
	return err
}

// move restarts a member at its other address. The other members must find it there before the configuration has the new
// address.
func (w *world) move(ctx context.Context, f Fault, now admin.Members) error {
	m := w.pick(f, now)[0]
	w.disks.Lock()
	err := w.exchange(m, func() error {
		m.becomes(func(p *place) { p.slot, p.moved = 1-p.slot, true })
		return nil
	})
	w.disks.Unlock()
	if err != nil {
		return err
	}
	w.count(f, "%s, led: %v, from %s to %s", m.ID, m.ID == now.Leader, m.addresses[1-m.now().slot], m.address())
	pause(ctx, f.For)
	_, _, err = w.reach(ctx, f, hangMax)
	return err
}

// reach runs commands until the cluster has exactly the wanted members, and each removed member has ended. The fault decides
// how these changes are disturbed. reach returns false if the context ends earlier, or if the run has failed.
func (w *world) reach(ctx context.Context, f Fault, most time.Duration) (now admin.Members, reached bool, err error) {
	began, idle := time.Now(), time.Now()
	var done []string // commands that reported success
	for ; ctx.Err() == nil; pause(ctx, lookPause) {
		if time.Since(began) > most {
			w.hang(ctx, most, now)
			return now, false, nil
		}
		if err := w.repairAll(f); err != nil {
			return now, false, err
		}
		var known bool
		if now, known = w.look(ctx); !known || now.Change != nil {
			continue
		}
		left, waits := w.left(now)
		for _, c := range left {
			if slices.Contains(done, c.String()) {
				w.broken("%q was reported as done, but configuration %d does not show it", c, now.Index)
				return now, false, nil
			}
		}
		switch {
		case len(left) > 0:
			done = append(done, w.command(ctx, f, left)...)
			idle = time.Now()
		case waits && time.Since(idle) > joinMax:
			w.takeOver()
		case !waits && w.gone():
			return now, true, w.settled(time.Since(began))
		}
	}
	return now, false, nil
}

// look returns the leader's configuration. It leaves out a configuration that is older than a known committed one.
func (w *world) look(ctx context.Context) (now admin.Members, known bool) {
	now, err := w.seen.Look(ctx)
	if err != nil || !now.Leads() || !now.Committed || now.Index < w.floor {
		return now, false
	}
	w.floor = now.Index
	w.voters.Store(int64(len(now.Voters())))
	return now, true
}

// gone reports whether every removed member has ended.
func (w *world) gone() bool {
	for _, m := range w.members {
		if p := m.now(); p.role == "" && !p.out {
			return false
		}
	}
	return true
}

// order holds the arguments of a command that the run still needs, without the leading "raftkv members".
type order []string

func (o order) String() string { return fmt.Sprint([]string(o)) }

// left returns the commands that are still needed for the wanted membership. It also reports whether a member still has to
// join by itself.
func (w *world) left(now admin.Members) (orders []order, waits bool) {
	var removals []order
	replaces := map[string]bool{}
	for _, m := range w.members {
		if p := m.now(); p.by != "" && len(now.Of(m.ID)) > 0 {
			by := w.members[w.index(p.by)]
			orders, replaces[p.by] = append(orders, order{"replace", m.ID, by.ID, by.address(), by.URL()}), true
		} else if p.role == "" && len(now.Of(m.ID)) > 0 {
			removals = append(removals, order{"remove", m.ID})
		}
	}
	for _, m := range w.members {
		p := m.now()
		if p.role == "" || replaces[m.ID] {
			continue
		}
		switch o := m.wants(p, now.Of(m.ID)); {
		case len(o) > 0 && p.joins:
			waits = true
		case len(o) > 0:
			orders = append(orders, o)
		}
	}
	return append(orders, removals...), waits
}

// wants returns the command that the member still needs. It returns nil if there is none.
func (m *member) wants(p place, of []admin.ClusterMember) order {
	lost := func(c admin.ClusterMember) bool { return c.Incarnation == p.loss.incarnation }
	switch {
	case len(of) == 0:
		return order{"add", m.ID, m.address(), m.URL()}
	case len(of) > 1 || slices.ContainsFunc(of, lost):
		return order{"replace", m.ID}
	case of[0].Kind != voter && p.role == voter:
		return order{"add", m.ID}
	case of[0].Kind == voter && p.role == learner:
		return order{"demote", m.ID}
	case of[0].Address != m.address():
		return order{"address", m.ID, m.address()}
	}
	return nil
}

// joinMax is the time that a member has to join by itself before a command helps it.
const joinMax = 20 * time.Second

// takeOver runs commands for members that have not joined by themselves.
func (w *world) takeOver() {
	for _, m := range w.members {
		if m.now().joins {
			w.note("%s has not joined by itself for %v", m.ID, joinMax)
			w.tell(func(r *Report) { r.Membership.Helped++ })
			m.becomes(func(p *place) { p.joins = false })
		}
	}
}
