package screen

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/node"
)

// keysOf says in a few words what each key does.
var keysOf = []string{"k kill the leader", "z freeze or resume it", "r restart", "a add a member", "x remove one", "w lose a disk", "? help", "q quit"}

// explained is what "?" shows in place of the keys. It fits into 60 columns.
var explained = []string{
	"k  kill the leader, with SIGKILL: another one takes over",
	"z  freeze the leader with SIGSTOP, or resume what is frozen",
	"r  restart all that is down, and resume what is frozen",
	"a  start one more member, which joins by itself",
	"x  remove a voter while the cluster runs",
	"w  empty the disk of a follower: it is replaced by itself",
	"q  read everything back, tell whether it is right, and end",
	"",
	"term      counts leaderships: it rises with each election",
	"commit    entries that a majority holds: never lost again",
	"applied   those of them in the state of this member",
	"snapshot  those in its newest snapshot",
	"unknown   writes without an answer: the client says so",
	"?  hide this",
}

// look shows one line per member, one about the workload, why nothing is written if that is so, and the keys.
func (d *demo) look(ctx context.Context) {
	statuses := d.cluster.Statuses(ctx)
	if ctx.Err() != nil {
		return // the members could not be asked
	}
	var rows []row
	for i := range statuses {
		rows = append(rows, d.member(i, &statuses[i]))
	}
	summary, writes := d.summary()
	rows = append(rows, summary)
	if !writes {
		for _, text := range wrap("nothing is written: "+d.obstacle(statuses), d.screen.width()) {
			rows = append(rows, row{text, yellow})
		}
	}
	if d.screen.live {
		rows = append(rows, row{})
		texts := explained
		if !d.explains {
			texts = pack(keysOf, d.screen.width())
		}
		for _, text := range texts {
			rows = append(rows, row{text, dim})
		}
	}
	d.screen.show(rows)
}

// member describes a member. What matters most comes first, because narrow terminals cut the rest.
func (d *demo) member(i int, status *api.Status) row {
	n := d.cluster.Nodes[i]
	p := d.cluster.Process(n.ID)
	d.reportEnd(n.ID)
	switch {
	case !p.Running() && d.removed[n.ID]:
		return row{n.ID + "  removed", dim}
	case !p.Running():
		return row{n.ID + "  down", red}
	case p.Frozen():
		return row{fmt.Sprintf("%s  frozen         pid %d", n.ID, p.PID()), red}
	case status.ID == "":
		return row{fmt.Sprintf("%s  no answer      pid %d", n.ID, p.PID()), yellow}
	}
	color := plain
	if status.Role == "leader" {
		color = green
	} else if status.Role != "follower" && status.Role != "learner" {
		color = yellow
	}
	return row{fmt.Sprintf("%s  %-13s  term %-4d  commit %-10s  pid %-7d  applied %-10s  snapshot %-10s  %s", n.ID, status.Role, status.Term,
		grouped(status.Commit), p.PID(), grouped(status.Applied), grouped(status.Snapshot.Last), n.URL()), color}
}

// summary returns the line about the workload, and whether writes were acknowledged since the last one.
func (d *demo) summary() (row, bool) {
	v, now := d.workload.Verdict(), time.Now()
	acknowledged := v.Acknowledged - d.lastAcknowledged
	rate := float64(acknowledged) / now.Sub(d.lastLook).Seconds()
	d.lastAcknowledged, d.lastLook = v.Acknowledged, now
	color := plain
	if v.Lost > 0 || len(v.Violations) > 0 {
		color = red
	}
	return row{fmt.Sprintf("%s writes/s  %s acknowledged  %d lost  %d unknown  %d histories checked",
		grouped(uint64(rate)), grouped(v.Acknowledged), v.Lost, v.Unknown, v.Histories), color}, acknowledged > 0
}

// obstacle says why nothing is written.
func (d *demo) obstacle(statuses []api.Status) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.hasQuorum() {
		return d.quorum()
	}
	for _, s := range statuses {
		i := slices.IndexFunc(s.Findings, func(f admin.Finding) bool { return f.Severity == node.Outage })
		if s.Role == "leader" && i >= 0 {
			return cmp.Or(s.Findings[i].Says, s.Findings[i].Verdict)
		}
	}
	for i, n := range d.cluster.Nodes {
		switch {
		case d.cluster.Process(n.ID).Frozen() && slices.ContainsFunc(statuses, func(s api.Status) bool { return s.Leader == n.ID }):
			return n.ID + " led and is frozen; the others elect another one when its silence is too long"
		case statuses[i].Role == "leader":
			return n.ID + " leads now; the clients find it in a moment"
		}
	}
	return "no member leads; they elect one now"
}

// pack puts the items into as few rows as the width allows.
func pack(items []string, width int) (rows []string) {
	for _, item := range items {
		last := len(rows) - 1
		if last < 0 || utf8.RuneCountInString(rows[last])+3+utf8.RuneCountInString(item) > width {
			rows = append(rows, item)
			continue
		}
		rows[last] += "   " + item
	}
	return rows
}
