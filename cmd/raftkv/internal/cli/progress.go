package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
)

// leaderlessMax is how long there may be no leader before that is worth a line: an election takes less.
const leaderlessMax = 2 * time.Second

// narrator prints the progress of a change: a line for each new stage, and a line with new figures every progressPause. Any
// goroutine may call it.
type narrator struct {
	out io.Writer

	mu    sync.Mutex
	topic string // of the latest lines
	at    time.Time
	led   time.Time // when there was last a leader, or of the first look
}

// tell prints the news since the last call.
func (n *narrator) tell(now admin.Members, at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	topic, lines := progressOf(now)
	if now.Leader != "" || n.led.IsZero() {
		n.led = at
	} else if at.Sub(n.led) >= leaderlessMax {
		topic, lines = "no leader", []string{leaderless(now)}
	}
	if topic == "" || topic == n.topic && at.Sub(n.at) < progressPause {
		return
	}
	n.topic, n.at = topic, at
	for _, line := range lines {
		_, _ = fmt.Fprintln(n.out, line) // a lost line of progress is no failure
	}
}

// leaderless says why a change does not begin or continue while no member leads.
func leaderless(m admin.Members) string {
	line := "no leader"
	if _, why, found := strings.Cut(m.Tolerance, "as seen from here: "); found {
		line += ": " + why
	}
	if m.Change != nil {
		return line + "; the change waits for one"
	}
	return line + "; nothing is changed yet"
}

// progressOf returns a topic, and lines about the progress of the running change. The topic names the thing that the change
// waits for. It is "" if there is nothing to report.
func progressOf(m admin.Members) (topic string, lines []string) {
	switch {
	case m.Change == nil:
		return "", nil
	case m.Phase != "":
		voters := "voters: " + strings.TrimPrefix(m.Phase, "joint: ")
		return voters, []string{voters}
	case len(m.Change.Waiting) > 0:
		for _, id := range m.Change.Waiting {
			for _, member := range m.Of(id) {
				if member.Standing == admin.StandingJoins {
					lines = append(lines, id+" catches up"+prefixed(": ", howFar(member.CatchUp)))
				}
			}
		}
		return "catches up " + api.List(m.Change.Waiting), lines
	}
	return "", nil
}

// howFar describes how far a member has caught up. It returns "" if the progress is not known.
func howFar(c *admin.CatchUp) string {
	switch {
	case c == nil:
		return ""
	case c.Snapshot != nil:
		return strings.TrimPrefix(progress(c.Snapshot), ", ") + prefixed(", ", timeLeft(*c.Snapshot))
	}
	text := fmt.Sprintf("entry %d of %d", c.Match, c.Last)
	switch left := milliseconds(c.LeftMS); {
	case c.IdleMS >= float64(idleAfter.Milliseconds()):
		return text + fmt.Sprintf(", no progress for %v", milliseconds(c.IdleMS).Round(time.Second))
	case c.Rate == 0:
		return text
	case left == 0:
		return text + fmt.Sprintf(", %s entries/s, no faster than the log grows", perSecond(c.Rate))
	case left >= leftMax:
		return text + fmt.Sprintf(", %s entries/s, more than %v left", perSecond(c.Rate), leftMax)
	default:
		return text + fmt.Sprintf(", %s entries/s, %s", perSecond(c.Rate), leftText(left))
	}
}

const (
	idleAfter = 2 * time.Second // after this long without progress, a rate predicts nothing
	leftMax   = 24 * time.Hour  // the longest that the library predicts
)

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// perSecond formats a rate with two significant digits, or with all digits before the point.
func perSecond(rate float64) string {
	if rate < 10 {
		return fmt.Sprintf("%.2g", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

func leftText(left time.Duration) string {
	return fmt.Sprintf("%v left", max(left.Round(time.Second), time.Second))
}

// timeLeft returns the remaining time of a transfer at its present rate; "" if that is not known.
func timeLeft(t admin.Transfer) string {
	if t.LeftMS <= 0 {
		return ""
	}
	return leftText(milliseconds(t.LeftMS))
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// printMembers prints a line for each member, and then the lines about the whole cluster.
func printMembers(out io.Writer, m admin.Members) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var shown []string
	prioritized := slices.ContainsFunc(m.Members, func(m admin.ClusterMember) bool { return priority(m) != priorityDefault })
	for _, member := range m.Members {
		name := member.ID
		condition := conditionOf(m, member)
		shown = append(shown, member.ID+" catches up: "+condition)
		if len(m.Of(name)) > 1 { // the name that remove and address accept
			name += "." + member.Incarnation
		}
		standing := member.Standing
		if prioritized && member.Priority != nil {
			standing += fmt.Sprintf(", priority %d", priority(member))
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", // Flush returns the error
			name, standing, member.Address, cmp.Or(member.URL, "-"), condition)
	}
	for _, d := range m.Departing {
		name := d.ID
		if len(m.Of(name)) > 0 { // another incarnation has its place
			name += "." + d.Incarnation
		}
		_, _ = fmt.Fprintf(table, "%s\tremoved\t%s\t-\t%s\n", name, cmp.Or(d.Address, "-"), departs(d)) // as above
	}
	if err := table.Flush(); err != nil {
		return err
	}
	sentences := []string{configurationLine(m)}
	if topic, lines := progressOf(m); topic != "" && m.Phase == "" {
		isShown := func(line string) bool { return slices.Contains(shown, line) }
		sentences = append(sentences, slices.DeleteFunc(lines, isShown)...)
	}
	sentences = append(sentences, tolerance(m.Tolerance), leases(m), releases(m.Members))
	for _, sentence := range slices.DeleteFunc(sentences, func(s string) bool { return s == "" }) {
		if _, err := fmt.Fprintln(out, sentence); err != nil {
			return err
		}
	}
	return nil
}

// leases says how long leases last; "" if there are none.
func leases(m admin.Members) string { return prefixed("leases: ", m.LeaseDuration) }

// priorityDefault is the priority of a voter that was given none.
const priorityDefault = 1

// priority returns the priority of a voter. Servers of earlier releases show none.
func priority(m admin.ClusterMember) int {
	if m.Priority == nil {
		return priorityDefault
	}
	return *m.Priority
}

// tolerance returns the sentence about how many more failures the cluster survives.
func tolerance(text string) string { return strings.TrimPrefix(text, "none: ") }

// conditionOf returns the last column of a member: its problem or its progress.
func conditionOf(m admin.Members, member admin.ClusterMember) string {
	switch {
	case member.Replace:
		return member.Problem + replaceHint(m, member)
	case member.Problem != "":
		return member.Problem
	case member.ID == m.Leader && member.Kind == admin.StandingVoter:
		return "leads"
	case member.CatchUp != nil && (member.CatchUp.Snapshot != nil || member.CatchUp.Rate > 0 || member.Standing == admin.StandingJoins):
		return howFar(member.CatchUp)
	}
	return "ok"
}

// replaceHint says what to do about a lost member, unless another one is taking its place.
func replaceHint(m admin.Members, lost admin.ClusterMember) string {
	for _, other := range m.Of(lost.ID) {
		switch {
		case other.Incarnation == lost.Incarnation || other.Replace:
		case other.Standing == admin.StandingJoins || other.Standing == admin.StandingEnters:
			return ""
		case other.Standing == admin.StandingLearner:
			return "; the learner is to take its place: start the learner, and run: raftkv members replace " + lost.ID
		}
	}
	return "; " + api.ReplaceHint(lost.ID)
}

// configurationLine names the configuration in force, and says whether it is committed and final.
func configurationLine(m admin.Members) string {
	line := fmt.Sprintf("configuration %d", m.Index)
	switch {
	case m.Index == 0:
		return fmt.Sprintf("%s knows no cluster yet", m.ID)
	case m.Phase != "":
		line += ", " + m.Phase
	case !m.Committed:
		line += ", not committed yet"
	}
	return line
}

// departs describes for how long the leader still informs a removed member.
func departs(d admin.Departing) string {
	text := fmt.Sprintf("by configuration %d", d.Index)
	if d.LeftMS > 0 {
		text += fmt.Sprintf("; the leader tells it so until it answers, for %v at most", max(milliseconds(d.LeftMS).Round(100*time.Millisecond), 100*time.Millisecond))
	}
	return text
}
