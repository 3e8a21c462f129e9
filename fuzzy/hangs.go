package fuzzy

import (
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// hang keeps an applier in one call of Apply.
type hang struct {
	till    sim.Time     // batches that begin earlier hang until this time
	batch   raft.EntryID // the last entry of the batch that hangs; zero: none
	since   raft.Time    // when the applier began this batch
	told    bool         // the core was told about it
	longest sim.Time     // the longest hang that has ended in this life
}

// poison is an entry that makes the state machines of all members hang, each for its own time.
type poison struct {
	index raft.Index // 0: there is none
	mean  sim.Time
}

// hang makes the applier of one member hang at its next batch. If the member leads, hang sometimes makes the appliers of all
// members hang at a future entry instead.
func (m *nemesis) hang(c *cluster, n *node) {
	if length := m.random.Exponential(m.rate.For); n.leads() && m.random.Coin() {
		c.poison = poison{n.status.Last.Index + 1 + raft.Index(m.random.IntN(8)), length}
	} else {
		n.hang.till = c.now() + length
	}
}

// hangs reports whether the applier hangs in the batch up to an entry.
func (n *node) hangs(to raft.EntryID) bool {
	h, now := &n.hang, n.c.now()
	if p := &n.c.poison; p.index > n.applied && p.index <= to.Index {
		h.till = max(h.till, now+n.random.Exponential(p.mean))
	}
	if h.till <= now {
		return false
	}
	h.batch, h.since, h.told = to, n.now().Mono, false
	n.applying = true
	n.unhangLater()
	return true
}

func (n *node) unhangLater() {
	if n.hang.till != sim.Never {
		n.later(n.hang.till-n.c.now(), event{kind: evUnhang})
	}
}

// unhang completes a hung batch. A snapshot that replaces the log waits for the end of the batch.
func (n *node) unhang() {
	h := &n.hang
	if h.batch.Index == 0 || n.c.now() < h.till {
		return
	}
	to := h.batch
	h.batch, h.longest = raft.EntryID{}, max(h.longest, sim.Time(n.now().Mono-h.since))
	n.applying = false
	n.complete(to)
	if n.core != nil && n.applied < to.Index { // a snapshot has replaced the log; a real applier read the batch before that
		n.post(raft.Applied{ID: to})
	}
	if n.core != nil && n.vault.restore != nil {
		n.vaultIn(0, vaultRestored)
	}
}

// reportHang reports the batch that is being applied to the core. The report waits for a step that happens anyway, because
// nothing wakes the loop for the report alone.
func (n *node) reportHang() {
	if h := &n.hang; h.batch.Index > 0 && !h.told {
		n.inbox = append(n.inbox, raft.Applying{ID: h.batch, Since: h.since})
		h.told = true
	}
}

// healHang lets a member's applier continue.
func (n *node) healHang() {
	n.hang.till = 0
	if n.core != nil {
		n.unhang()
	}
}

// hangMax returns the longest time that a core may take to notice that its FSM hangs.
func (n *node) hangMax() sim.Time { return max(n.applyStallMax, 3*n.hang.longest) }

// shapeHangs makes appliers hang. Some hang for less than the limit, and some for more.
func shapeHangs(s *sim.Stream, p *Profile) {
	p.Voters, p.World, p.Limits = sim.Pick(s, 1, 2, 3, 3, 3, 4, 5, 5), World{}, generousLimits()
	shapeSwarm(s, p)
	only(Crash, Pause, Partition, Usurp, Close, Away)(s, p)
	timeout := p.ElectionTimeout
	p.Node.ApplyStallMax = s.LogTime(timeout/4, 4*timeout)
	p.Load.Think = min(p.Load.Think, sim.In(50*time.Millisecond))
	for i := range p.Faults {
		p.Faults[i].Every = max(p.Faults[i].Every, sim.In(2*time.Second))
	}
	p.Faults = append(p.Faults, FaultRate{Hang, s.LogTime(timeout, 10*timeout), s.LogTime(timeout/4, 16*timeout)})
}
