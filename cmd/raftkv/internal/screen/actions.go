package screen

import (
	"context"
	"fmt"
	"time"

	"github.com/coxswain/raft/internal/demo/local"
)

// handleKey carries out the command of a key, and returns false if the demo is to end.
func (d *demo) handleKey(ctx context.Context, key byte) bool {
	const ctrlC, ctrlD = 3, 4
	switch key {
	case 'q', 'Q', ctrlC, ctrlD:
		return false
	case 'k', 'K':
		d.breakLeader(ctx, killed, false)
	case 'z', 'Z':
		d.mu.Lock()
		resumed := d.resume()
		d.mu.Unlock()
		if !resumed {
			d.breakLeader(ctx, frozen, false)
		}
	case 'r', 'R':
		d.heal()
	case 'a', 'A':
		d.addMember(ctx)
	case 'x', 'X':
		d.removeMember(ctx)
	case 'w', 'W':
		d.loseDisk(ctx)
	case '?', 'h', 'H':
		d.explains = !d.explains
		d.look(ctx)
	default:
		if key > ' ' && key <= '~' {
			d.screen.say("%q does nothing here: ? tells what each key does", key)
		}
	}
	return true
}

// What can be done to a member.
const (
	killed = "killed"
	frozen = "frozen"
	cutOff = "cut off"
)

// breakLeader kills or freezes the leader and watches the failover. If again is set, it restarts the member afterwards.
func (d *demo) breakLeader(ctx context.Context, how string, again bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waits() {
		return
	}
	leader, found := d.cluster.Leader(ctx)
	if ctx.Err() != nil {
		return // the members could not be asked
	}
	if !found {
		d.screen.say("nobody leads: %s", d.quorum())
		return
	}
	d.breakMember(ctx, leader.ID, how, true, again)
}

// breakMember kills, freezes or cuts off a member. If the member led, it watches the failover. d.mu is held.
func (d *demo) breakMember(ctx context.Context, id, how string, led, again bool) {
	began := time.Now()
	var err error
	switch how {
	case frozen:
		err = d.cluster.Process(id).Freeze()
	case cutOff:
		err = d.cluster.Process(id).Cut(true)
	default:
		d.cluster.Kill(id)
		d.down[id] = true
	}
	if err != nil {
		d.screen.say("%s cannot be %s: %v", id, how, err)
		return
	}
	if !d.hasQuorum() { // no leader can be elected before members are restarted
		d.screen.say("%s %s → nobody leads: %s", id, how, d.quorum())
		if again {
			d.watches.Go(d.heal)
		}
		return
	}
	if !led {
		d.screen.say("%s %s: it did not lead, so writes go on", id, how)
		return
	}
	d.watching = true
	broken, restarts := time.Now(), d.restarts
	d.watches.Go(func() {
		d.watch(ctx, id, how, began, broken, restarts)
		if again {
			d.heal()
		}
	})
}

// waits reports whether a failover is being watched, and if so asks the user to wait. d.mu is held.
func (d *demo) waits() bool {
	switch {
	case !d.watching:
		return false
	case d.hasQuorum():
		d.screen.say("wait for the last failover to end")
	default:
		d.screen.say("nobody leads: %s", d.quorum())
	}
	return true
}

// watch waits for the end of a failover. It shows how long writes stopped, and which member leads. restarts is the count of
// restarted or resumed members when the failover begins.
func (d *demo) watch(ctx context.Context, id, how string, began, broken time.Time, restarts int) {
	limited, cancel := context.WithTimeout(ctx, failoverTimeout)
	defer cancel()
	acknowledged, err := d.workload.NextAcknowledged(limited, broken)
	var leader local.Node
	if err == nil {
		leader, err = d.cluster.AwaitLeader(limited, "") // the same member, if it was restarted and won
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watching = false
	switch {
	case err == nil:
	case ctx.Err() != nil: // the end of the demo says nothing about the cluster
		d.screen.say("%s %s → the demo ended before another one led", id, how)
		return
	default:
		d.screen.say("%s %s → nobody leads: %s", id, how, d.quorum())
		return
	}
	if d.restarts != restarts {
		how += ", and members were restarted"
	}
	v := d.workload.Verdict()
	d.screen.say("%s %s → %s leads, writes stopped %d ms, %s acknowledged, %d lost",
		id, how, leader.ID, acknowledged.Sub(began).Milliseconds(), grouped(v.Acknowledged), v.Lost)
}

// running counts the members, and the members that run and are neither frozen nor cut off. d.mu is held.
func (d *demo) running() (up, all int) {
	for _, n := range d.cluster.Nodes {
		if d.removed[n.ID] {
			continue
		}
		all++
		if p := d.cluster.Process(n.ID); p.Running() && !p.Frozen() && !p.IsCut() {
			up++
		}
	}
	return up, all
}

// hasQuorum reports whether enough members run. d.mu is held.
func (d *demo) hasQuorum() bool {
	up, all := d.running()
	return up > all/2
}

// quorum describes how many members run and how many are needed. d.mu is held.
func (d *demo) quorum() string {
	up, all := d.running()
	if up > all/2 {
		return fmt.Sprintf("%d of %d nodes run, which is a majority; wait a moment", up, all)
	}
	return fmt.Sprintf("%d of %d nodes run, and %d are needed; r restarts the others", up, all, all/2+1)
}

// resume resumes the frozen members, and reports whether there were any. d.mu is held.
func (d *demo) resume() (resumed bool) {
	for _, n := range d.cluster.Nodes {
		if p := d.cluster.Process(n.ID); p.Running() && p.Frozen() {
			resumed = true
			d.mend(n)
		}
	}
	return resumed
}

// heal mends all members that were not removed.
func (d *demo) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.cluster.Nodes {
		if !d.removed[n.ID] {
			d.mend(n)
		}
	}
}

// mend resumes a frozen member, connects one that is cut off, and restarts one that has ended. d.mu is held.
func (d *demo) mend(n local.Node) {
	p := d.cluster.Process(n.ID)
	var err error
	var what string
	switch {
	case !p.Running():
		err, what = d.cluster.Start(n.ID), "restarted"
	case p.Frozen():
		err, what = p.Resume(), "resumed"
	case p.IsCut():
		err, what = p.Cut(false), "connected again"
	default:
		return
	}
	if err != nil {
		d.screen.say("%s cannot be %s: %v", n.ID, what, err)
		return
	}
	d.restarts++
	delete(d.down, n.ID)
	if what == "restarted" {
		what += fmt.Sprintf(", pid %d", d.cluster.Process(n.ID).PID())
	}
	d.screen.say("%s %s", n.ID, what)
}

// reportEnd shows once that a member has ended by itself.
func (d *demo) reportEnd(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.cluster.Ended(id); err != nil && !d.down[id] {
		d.down[id] = true
		d.screen.say("%v", err)
	}
}
