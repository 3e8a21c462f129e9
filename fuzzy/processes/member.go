package processes

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft/internal/demo/local"
)

// member is one member of the cluster, or a spare one, with its disk and its history.
type member struct {
	local.Node
	addresses []string // at which it can run; the first is that of Node
	disk      *disk

	images atomic.Int64 // how often its disk was replaced while it was down

	starting sync.Mutex // held while it is started, and while nobody may start it

	mu    sync.Mutex
	place place
	fates map[*local.Process]fate // of the running processes
}

// The roles that a member may be wanted in; "" is none.
const (
	voter   = "voter"
	learner = "learner"
)

// place is what is wanted of a member, and what became of its disk.
type place struct {
	role    string // what it is wanted as
	by      string // the member that is wanted in its place
	slot    int    // of member.addresses
	moved   bool   // it says where it is
	joins   bool   // it asks for its place by itself
	emptied bool   // its first disk is gone
	held    bool   // its disk is being exchanged
	out     bool   // it has no place, and does not run
	leaves  bool   // its removal was asked for: it is to end
	spoiled bool   // its store is of no use
	loss    loss
}

// loss is a lost disk whose member has to be replaced.
type loss struct {
	incarnation string // what was lost; "" is nothing
	how         Kind
	repair      repair
	repaired    bool      // the member runs on a disk with which it can be replaced
	since       time.Time // when that was
}

// repair is a way to replace a lost disk.
type repair int

// The ways.
const (
	byCommand repair = iota // an empty disk, and members replace
	byItself                // serve --join
	byAnother               // members replace, with another member
	repairs
)

// now returns the member's place.
func (m *member) now() place {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.place
}

// becomes changes the member's place.
func (m *member) becomes(how func(*place)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	how(&m.place)
}

// address returns where the member runs.
func (m *member) address() string { return m.addresses[m.now().slot] }

// joining reports whether a process of the member runs that asks for its place by itself.
func (m *member) joining() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.fates {
		if f.joins {
			return true
		}
	}
	return false
}

// exchange kills the member, changes its disk or its place while nobody can start it, and starts it again. The caller
// holds w.disks.
func (w *world) exchange(m *member, do func() error) error {
	m.starting.Lock()
	m.becomes(func(p *place) { p.held = true })
	m.starting.Unlock()
	if w.cluster.Process(m.ID) != nil {
		w.kill(m)
	}
	err := do()
	m.becomes(func(p *place) { p.held = false })
	if err != nil {
		return err
	}
	return w.start(m)
}

// empty removes everything on the disk of a member that does not run.
func (m *member) empty() error {
	m.images.Add(1)
	m.becomes(func(p *place) { p.emptied = true })
	return m.disk.wipe()
}

// thin reports whether the cluster can hardly spare a member: there are few, or one has lost its disk.
func (w *world) thin() bool {
	lost := func(m *member) bool { return m.now().loss.incarnation != "" }
	return slices.ContainsFunc(w.members, lost) || w.voters.Load() < NodesMin
}

// inside returns the members that have a place, or had one and still run. One that was never started is not among them.
func (w *world) inside() (some []*member) {
	for _, m := range w.members {
		if !m.now().out && w.cluster.Process(m.ID) != nil {
			some = append(some, m)
		}
	}
	return some
}
