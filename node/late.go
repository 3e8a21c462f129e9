package node

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
)

// lateness warns when the loop wakes long after its deadline. If a member does not run for half an election timeout, its
// heartbeats are late and other members campaign, or it hears its followers too late. Only the loop uses lateness.
type lateness struct {
	idleSince raft.Time // when the loop last became idle
	warned    raft.Time // last warning; 0: none yet
	leftOut   int       // warnings suppressed since then
}

// woke records that the loop wakes to do something. It warns if the loop wakes late.
func (n *Node) woke(now raft.Time) {
	late := time.Duration(now - n.due)
	limit := n.cfg.ElectionTimeout / 2
	if n.due == 0 || late <= limit {
		return
	}
	n.counters.lateWakes.Add(1)
	l := &n.late
	if l.warned != 0 && now-l.warned < raft.Time(warnEvery) {
		l.leftOut++
		return
	}
	// The loop was busy at its deadline, or it did not wake in time, or both. The two durations in the message distinguish a
	// slow node from a slow machine.
	busy := min(max(0, time.Duration(l.idleSince-n.due)), late)
	n.logger.log(hclog.Warn, "the node woke late: the process was not running, or the processors were busy",
		"late", late.Round(time.Millisecond), "busy", busy.Round(time.Millisecond), "limit", limit, "left_out", l.leftOut)
	l.warned, l.leftOut = now, 0
}
