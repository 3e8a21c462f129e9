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
	addresses []string // addresses at which it can run; the first is that of Node
	disk      *disk

	images atomic.Int64 // number of times that its disk was replaced

	starting sync.Mutex // held while the member is started, and while it must not be started

	mu    sync.Mutex
	place place
	fates map[*local.Process]fate // fates of the running processes
}

// The roles in which the run may want a member. "" means that the member is not wanted in the cluster.
const (
	voter   = "voter"
	learner = "learner"
)

// place is the wanted role of a member and the state of its disk.
type place struct {
	role    string // wanted role
	by      string // member that is to replace it
	slot    int    // index into member.addresses
	moved   bool   // it corrects its address by itself
	joins   bool   // it joins by itself
	emptied bool   // its first disk is gone
	held    bool   // its disk is being replaced, and it must not be started
	out     bool   // it is not wanted, and does not run
	leaves  bool   // its removal was asked for, and it must end
	spoiled bool   // its store cannot be used again
	loss    loss
}

// loss is a lost disk whose member has to be replaced.
type loss struct {
	incarnation string // the lost incarnation; "": none
	how         Kind
	repair      repair
	repaired    bool      // the member runs on a disk on which it can be replaced
	since       time.Time // time of the repair
}

// repair is a way to replace a lost disk.
type repair int

// The ways to replace a lost disk.
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

// becomes updates the member's place.
func (m *member) becomes(how func(*place)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	how(&m.place)
}

// address returns the member's present address.
func (m *member) address() string { return m.addresses[m.now().slot] }

// joining reports whether some running process of the member joins by itself.
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

// exchange kills the member, changes its disk or its place, and starts it again. Meanwhile no other goroutine can start the
// member. The caller holds w.disks.
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

// empty removes everything from the disk of a stopped member.
func (m *member) empty() error {
	m.images.Add(1)
	m.becomes(func(p *place) { p.emptied = true })
	return m.disk.wipe()
}

// cannotSpareOne reports whether the cluster can hardly spare a member: it has only a few members, or a member has lost its
// disk.
func (w *world) cannotSpareOne() bool {
	lost := func(m *member) bool { return m.now().loss.incarnation != "" }
	return slices.ContainsFunc(w.members, lost) || w.voters.Load() < NodesMin
}

// inside returns the members that are wanted. It also returns members that were wanted earlier and still run. It leaves out
// members that were never started.
func (w *world) inside() (some []*member) {
	for _, m := range w.members {
		if !m.now().out && w.cluster.Process(m.ID) != nil {
			some = append(some, m)
		}
	}
	return some
}
