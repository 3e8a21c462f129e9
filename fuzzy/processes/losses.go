package processes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/internal/demo/api"
)

// refusalMax bounds two waits. In the first, all members must see the start of a member. In the second, a member with a
// spoiled store must end.
const refusalMax = 10 * time.Second

// lose destroys the disks of members, so that the members must be replaced. At any time, at most a minority of the voters has
// no disk, because a loss begins only after the repair of all earlier losses.
func (w *world) lose(ctx context.Context, f Fault, now admin.Members) error {
	most := mayLose(len(now.Voters()))
	if most == 0 {
		w.miss(f.Kind)
		return nil
	}
	victims := w.pick(f, now)[:1]
	if f.Kind == Wipe && f.Random>>12%3 == 0 {
		victims = w.pick(f, now)[:min(most, 2)]
	}
	for i, m := range victims {
		lost := loss{incarnation: now.Of(m.ID)[0].Incarnation, how: f.Kind, repair: repair(f.Random>>(14+2*i)) % repairs}
		if f.Kind == Damage && lost.repair == byItself {
			lost.repair = byCommand // this damage leaves nothing that tells the cluster, so --join keeps the store
		}
		var err error
		switch f.Kind {
		case Wipe:
			w.count(f, "%s, led: %v", m.ID, m.ID == now.Leader)
			err = w.ruin(m, lost, m.empty)
		case Damage:
			w.count(f, "%s, led: %v", m.ID, m.ID == now.Leader)
			err = w.spoil(ctx, m, lost, w.status(ctx, m), func() error { return m.disk.damage(f.Random >> 40) })
		case OlderImage:
			err = w.older(ctx, f, m, lost)
		}
		if err != nil {
			return err
		}
	}
	pause(ctx, f.For)
	_, _, err := w.reach(ctx, f, hangMax)
	return err
}

// ruin destroys the member's disk and starts the member.
func (w *world) ruin(m *member, lost loss, do func() error) error {
	w.disks.Lock()
	defer w.disks.Unlock()
	return w.exchange(m, func() error {
		m.images.Add(1)
		m.becomes(func(p *place) { p.loss, p.emptied = lost, true })
		return do()
	})
}

// spoil is like ruin, for a store that the member must refuse with an explanatory error. If the lost member must join by
// itself, spoil does not start it before its repair.
func (w *world) spoil(ctx context.Context, m *member, lost loss, before api.Status, do func() error) error {
	calm := w.blackouts.Load()
	err := w.ruin(m, lost, func() error {
		m.becomes(func(p *place) { p.spoiled, p.joins = true, lost.repair == byItself })
		return do()
	})
	if err == nil && lost.repair != byItself {
		w.awaitRefusal(ctx, m, before, calm)
	}
	return err
}

// older restarts a member with an older copy of its disk, after all other members have seen the start on the newer disk. The
// member must end with a *StaleImageError, or the others must keep it out. If a link is cut for long, some other member may
// not see the newer start. Such a member may accept the older image, so older leaves out the fault.
func (w *world) older(ctx context.Context, f Fault, m *member, lost loss) error {
	dir, err := os.MkdirTemp(w.dir, "images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	old := filepath.Join(dir, "older")
	w.disks.Lock()
	err = w.exchange(m, func() error { return m.disk.copyTo(old) })
	w.disks.Unlock()
	if err != nil {
		return err
	}
	calm := w.blackouts.Load()
	pause(ctx, f.For)
	newer, seen := w.awaitSeen(ctx, m)
	if !seen || calm != w.blackouts.Load() {
		w.miss(f.Kind)
		return nil
	}
	w.count(f, "%s, %v after its copy", m.ID, f.For)
	return w.spoil(ctx, m, lost, newer, func() error { return m.disk.become(old) })
}

// status returns the member's status; the zero value if it does not answer.
func (w *world) status(ctx context.Context, m *member) api.Status {
	status, err := w.cluster.Status(ctx, m.Node)
	if err != nil {
		return api.Status{}
	}
	return status
}

// awaitSeen waits until the member is connected to all others. By then, the others have seen the present start of the member.
func (w *world) awaitSeen(ctx context.Context, m *member) (status api.Status, seen bool) {
	ctx, cancel := context.WithTimeout(ctx, refusalMax)
	defer cancel()
	for ; ctx.Err() == nil; pause(ctx, lookPause) {
		status := w.status(ctx, m)
		lacks := func(other admin.MemberStatus) bool { return !other.Connected }
		if len(status.Members) > 1 && !slices.ContainsFunc(status.Members, lacks) {
			return status, true
		}
	}
	return api.Status{}, false
}

// awaitRefusal waits until the member has ended, or for refusalMax, because the member may be cut off. Meanwhile no other
// member may accept it. If another member does accept it, the spoiled member knows a leader or a later term. If all members
// were down in that time, nothing is judged.
func (w *world) awaitRefusal(ctx context.Context, m *member, before api.Status, calm int64) {
	ctx, cancel := context.WithTimeout(ctx, refusalMax)
	defer cancel()
	for p := w.cluster.Process(m.ID); p.Running() && ctx.Err() == nil; pause(ctx, lookPause) {
		now := w.status(ctx, m)
		if (now.Leader != "" || now.Term > before.Term) && calm == w.blackouts.Load() {
			w.fail(fuzzy.Safety, "a spoiled store is kept out", "%s came back with a damaged store, or with an older copy of its disk, all "+
				"others having seen its newer start, and was let in: it is at start %d, follows %q in term %d",
				m.ID, now.StartCount, now.Leader, now.Term)
			return
		}
	}
}

// repairAll begins the repair of every member that has lost its disk, so that the member can be replaced.
func (w *world) repairAll(f Fault) (err error) {
	for _, m := range w.members {
		if p := m.now(); p.loss.incarnation != "" && !p.loss.repaired {
			err = errors.Join(err, w.repair(f, m, p.loss.repair))
		}
	}
	return err
}

func (w *world) repair(f Fault, m *member, how repair) error {
	spares := w.spares(f)
	if how == byAnother && len(spares) == 0 {
		how = byCommand
	}
	if how == byAnother {
		if err := w.prepare(spares[0], false); err != nil {
			return err
		}
	}
	w.disks.Lock()
	defer w.disks.Unlock()
	return w.exchange(m, func() (err error) {
		if how == byCommand {
			err = m.empty()
		}
		m.becomes(func(p *place) {
			p.spoiled, p.joins, p.loss.repaired, p.loss.since = false, how == byItself, true, time.Now()
			if how == byAnother {
				p.out, p.role, p.by = true, "", spares[0].ID
			}
		})
		return err
	})
}

// settled records that the cluster has the wanted membership.
func (w *world) settled(took time.Duration) (err error) {
	w.tell(func(r *Report) { r.Membership.longest = max(r.Membership.longest, took) })
	for _, m := range w.members {
		p := m.now()
		if p.loss.incarnation != "" {
			since := time.Since(p.loss.since)
			w.note("%-14s %s was replaced within %v", p.loss.how, m.ID, since)
			w.tell(func(r *Report) {
				r.Membership.Replaced[p.loss.how]++
				r.Membership.replacing = append(r.Membership.replacing, since)
			})
			err = errors.Join(err, m.disk.tidy())
		}
		m.becomes(func(p *place) { p.loss, p.joins, p.by = loss{}, false, "" })
	}
	return err
}
