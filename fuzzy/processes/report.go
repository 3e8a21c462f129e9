package processes

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coxswain/raft/internal/demo/workload"
	"github.com/coxswain/raft/internal/size"
)

// Report is the result of a run.
type Report struct {
	Seed   string `json:"seed"`
	Origin string `json:"origin"` // commit, machine and day
	Nodes  int    `json:"nodes"`
	// Seconds is the time during which faults were injected. It does not include healing and judging.
	Seconds       float64      `json:"seconds"`
	Faults        map[Kind]int `json:"faults"`
	LeftOut       []Kind       `json:"left_out,omitempty"`
	LeftOutReason string       `json:"left_out_reason,omitempty"`
	LeaderKills   int          `json:"leader_kills"`
	Elections     int          `json:"elections"` // terms in which a leader was seen
	LoudEnds      int          `json:"loud_ends"` // members that ended because of a failed or damaged disk, or an older image
	Operations    Operations   `json:"operations"`
	Latency       Latency      `json:"latency_ms"`
	// Unavailable is the longest time without an acknowledged write.
	Unavailable float64 `json:"longest_unavailability_seconds"`
	Converged   float64 `json:"converged_seconds"` // time from the last fault until the members agreed
	Checks      Checks  `json:"checks"`
	// Missed counts faults that were not injected. Each was aimed at a certain moment, and this moment did not come.
	Missed    map[Kind]int `json:"missed,omitempty"`
	Snapshots Snapshots    `json:"snapshots"`
	// Membership is empty in reports of releases without membership changes.
	Membership Membership `json:"membership,omitzero"`
	Verdict    string     `json:"verdict"` // clean, crash, safety, liveness, or not judged
	Failure    string     `json:"failure,omitempty"`
	Kept       string     `json:"kept,omitempty"` // the directory with logs, data and history
}

// notJudged is the verdict of a run that did not finish.
const notJudged = "not judged"

// Operations counts requests of clients.
type Operations struct {
	Answered uint64 `json:"answered"`
	Refused  uint64 `json:"refused"` // had no effect
	Unknown  uint64 `json:"unknown"` // may or may not have taken effect
	Writes   uint64 `json:"acknowledged_writes"`
}

// Latency holds the latencies of answered requests, in milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Checks counts the checks of a run.
type Checks struct {
	Histories  int `json:"histories"`  // histories checked by porcupine
	Operations int `json:"operations"` // operations in them
	Undecided  int `json:"undecided"`  // histories that porcupine did not finish
	Scanned    int `json:"scanned"`    // keys read again at the end
	Members    int `json:"members"`    // members whose whole state was compared
	Statuses   int `json:"statuses"`   // statuses of members
}

// Snapshots counts the members' work on snapshots.
type Snapshots struct {
	Taken       int   `json:"taken"`
	Failed      int   `json:"failed"` // snapshots that could not be taken
	Sent        int   `json:"sent"`
	Resumed     int   `json:"resumed"` // number of times that the sending of a snapshot was resumed
	Received    int   `json:"received"`
	Refused     int   `json:"refused"`      // snapshots that could not be received
	Restored    int   `json:"restored"`     // restorations, after receipt and at starts
	DisksFailed int   `json:"disks_failed"` // disks that failed while a snapshot was written
	LogBytes    int64 `json:"log_bytes"`    // size of the longest log that was seen
	Written     int64 `json:"written"`      // bytes of the values that make logs long
}

func newReport(o Options) Report {
	return Report{
		Seed: fmt.Sprintf("%x", o.Seed), Origin: o.Origin, Nodes: o.Nodes, Faults: map[Kind]int{}, Missed: map[Kind]int{},
		Membership: Membership{Spares: memberCount(o.Nodes) - o.Nodes, Smallest: o.Nodes, Replaced: map[Kind]int{}},
	}
}

// snapshots describes the work on snapshots, and the kinds of work that the run did not exercise.
func (r Report) snapshots() (done, unproved string) {
	s := r.Snapshots
	done = fmt.Sprintf("%d taken (%d failed), %d sent (%d times resumed), %d received (%d refused), %d restored; %d disks failed "+
		"during a snapshot; the longest log had %s, and %s were written", s.Taken, s.Failed, s.Sent, s.Resumed, s.Received, s.Refused, s.Restored,
		s.DisksFailed, size.Format(s.LogBytes), size.Format(s.Written))
	var nothing []string
	for _, row := range []struct {
		count int
		what  string
	}{
		{s.Taken, "taking"}, {s.Sent, "sending"}, {s.Resumed, "resuming"}, {s.Received, "receiving"}, {s.Restored, "restoring"},
	} {
		if row.count == 0 {
			nothing = append(nothing, row.what)
		}
	}
	for _, h := range habits {
		if h.lane != changes && r.Missed[h.kind] > 0 && r.Faults[h.kind] == 0 {
			nothing = append(nothing, string(h.kind))
		}
	}
	return done, strings.Join(nothing, ", ")
}

// conclude fills in the figures that are known only at the end. err is the error of the run.
func (r *Report) conclude(w *world, err error) {
	w.stats.mu.Lock()
	s := &w.stats
	r.Operations = Operations{
		Answered: s.results[workload.Answered], Refused: s.results[workload.Refused], Unknown: s.results[workload.Unknown],
	}
	r.Latency = Latency{milliseconds(s.latencies.at(500)), milliseconds(s.latencies.at(990)), milliseconds(s.latencies.max)}
	r.Unavailable = s.gap.Seconds()
	s.mu.Unlock()
	if w.work != nil {
		v := w.work.Verdict()
		r.Operations.Writes = v.Acknowledged
		r.Checks.Histories, r.Checks.Operations, r.Checks.Undecided = v.Histories, v.Operations, v.Undecided
		r.Checks.Scanned = v.Scanned
	}
	r.Membership.conclude()
	var failure *Failure
	switch {
	case err == nil:
		r.Verdict = "clean"
	case errors.As(err, &failure):
		r.Verdict, r.Failure = string(failure.Class), err.Error()
	default:
		r.Verdict, r.Failure = notJudged, err.Error()
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// faults lists the faults by kind.
func (r Report) faults() (total int, list string) {
	var kinds []string
	for _, h := range habits {
		if n := r.Faults[h.kind]; n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", n, h.kind))
			total += n
		}
	}
	return total, strings.Join(kinds, ", ")
}

// Markdown returns the report as a table.
func (r Report) Markdown() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, fmt.Sprintf(format, args...))
	}
	total, list := r.faults()
	b.WriteString("| | |\n|---|---|\n")
	row("verdict", "%s", r.Verdict)
	row("members, time under faults, seed", "%d, %.0f s, %s", r.Nodes, r.Seconds, r.Seed)
	row("faults", "%d: %s", total, list)
	if len(r.LeftOut) > 0 {
		row("left out", "%s (%s)", join(r.LeftOut), r.LeftOutReason)
	}
	row("leaders killed; elections seen", "%d; %d", r.LeaderKills, r.Elections)
	row("members ended by a failed or damaged disk or an older image", "%d, each with its reason in the log", r.LoudEnds)
	row("requests", "%d answered, %d refused, %d of unknown outcome; %d writes acknowledged",
		r.Operations.Answered, r.Operations.Refused, r.Operations.Unknown, r.Operations.Writes)
	row("answered within", "%.1f ms (p50), %.0f ms (p99), %.0f ms (max)", r.Latency.P50, r.Latency.P99, r.Latency.Max)
	row("longest time without an acknowledged write", "%.1f s", r.Unavailable)
	row("through porcupine", "%d operations in %d histories, %d of them undecided",
		r.Checks.Operations, r.Checks.Histories, r.Checks.Undecided)
	row("at the end", "%d keys read again, the whole state of %d members compared", r.Checks.Scanned, r.Checks.Members)
	done, unproved := r.snapshots()
	row("snapshots", "%s", done)
	if unproved != "" {
		row("work on snapshots that this run did not exercise", "%s", unproved)
	}
	for _, line := range r.Membership.lines() {
		row(line[0], "%s", line[1])
	}
	row("commit, machine, day", "%s", r.Origin)
	return b.String()
}

// String returns the report as text.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d members, %.0f s of chaos, seed %s\n", r.Verdict, r.Nodes, r.Seconds, r.Seed)
	total, list := r.faults()
	if total+int(r.Operations.Answered) == 0 {
		return b.String() // the run never began
	}
	fmt.Fprintf(&b, "  %d faults: %s\n", total, list)
	if len(r.LeftOut) > 0 {
		fmt.Fprintf(&b, "  left out: %s (%s)\n", join(r.LeftOut), r.LeftOutReason)
	}
	fmt.Fprintf(&b, "  %d leaders killed, %d elections, %d members ended by a failed or damaged disk or an older image\n", r.LeaderKills, r.Elections, r.LoudEnds)
	fmt.Fprintf(&b, "  %d requests answered, %d refused, %d of unknown outcome; %d writes acknowledged\n",
		r.Operations.Answered, r.Operations.Refused, r.Operations.Unknown, r.Operations.Writes)
	fmt.Fprintf(&b, "  answered within %.1f ms (p50), %.0f ms (p99), %.0f ms (max); no write for %.1f s at most\n",
		r.Latency.P50, r.Latency.P99, r.Latency.Max, r.Unavailable)
	done, unproved := r.snapshots()
	fmt.Fprintf(&b, "  snapshots: %s\n", done)
	if unproved != "" {
		fmt.Fprintf(&b, "  work on snapshots that this run did not exercise: %s\n", unproved)
	}
	for _, line := range r.Membership.lines() {
		fmt.Fprintf(&b, "  %s: %s\n", line[0], line[1])
	}
	if r.Verdict != notJudged {
		b.WriteString(r.checked())
	}
	fmt.Fprintf(&b, "  %s\n", r.Origin)
	if r.Kept != "" {
		fmt.Fprintf(&b, "  logs, data and history are in %s\n", r.Kept)
	}
	return b.String()
}

func (r Report) checked() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  checked: %d operations in %d histories (%d undecided), %d keys at the end, the state of %d members, %d statuses\n",
		r.Checks.Operations, r.Checks.Histories, r.Checks.Undecided, r.Checks.Scanned, r.Checks.Members, r.Checks.Statuses)
	if r.Converged > 0 {
		fmt.Fprintf(&b, "  healed and converged in %.1f s\n", r.Converged)
	}
	return b.String()
}
