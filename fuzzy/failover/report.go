package failover

import (
	"fmt"
	"strings"
	"time"

	"github.com/coxswain/raft/internal/distribution"
)

// Report is the result of a run, on real processes or simulated.
type Report struct {
	Origin    string   `json:"origin"` // commit, machine and day
	Simulated bool     `json:"simulated,omitempty"`
	Members   int      `json:"members"`
	Without   []string `json:"without"` // the preferences that are off in Off
	BoundMS   float64  `json:"bound_ms"`
	Results   []Result `json:"results"`
}

// Result is the result of one kind of disturbance.
type Result struct {
	Kind    string `json:"kind"`
	Says    string `json:"says"`
	LeftOut string `json:"left_out,omitempty"` // why it was not measured
	// SyncedMS is the median time of a synced write to the disk, measured before each trial.
	SyncedMS float64 `json:"synced_ms,omitempty"`
	On       Side    `json:"on"`
	Off      Side    `json:"off"`
}

// Side is the result of one of the two clusters of a kind.
type Side struct {
	distribution.Times
	// AckedMS is the median time of a write through a member that does not lead, of the undisturbed cluster.
	AckedMS float64 `json:"acked_ms,omitempty"`
	Asked   int     `json:"asked,omitempty"`  // requests of the writers of a planned disturbance
	Failed  int     `json:"failed,omitempty"` // of these
	First   string  `json:"first_failure,omitempty"`
	Wasted  int     `json:"wasted_terms,omitempty"` // simulated: terms in which nobody was elected
	Split   int     `json:"split_votes,omitempty"`  // of these, terms in which several members stood for election
}

// side returns what the trials of a cluster have shown.
func (c *cluster) side(bound time.Duration) Side {
	return Side{
		Times: distribution.Of(c.took, bound), AckedMS: c.acked.medianMS(),
		Asked: c.fails.asked, Failed: c.fails.failed, First: c.fails.first,
	}
}

// String returns the report as a table.
func (r Report) String() string {
	var b strings.Builder
	if r.Simulated {
		fmt.Fprintf(&b, "from the loss of the leader to the next leader, simulated, %d members, in ms\n", r.Members)
	} else {
		fmt.Fprintf(&b, "from the disturbance to the next acknowledged write, %d members, in ms\n", r.Members)
	}
	fmt.Fprintf(&b, "off: without %s\n", strings.Join(r.Without, ", "))
	for i := range r.Results {
		b.WriteString(r.Results[i].lines(r.BoundMS))
	}
	return b.String()
}

// lines returns the lines of one kind.
func (k *Result) lines(bound float64) string {
	if k.LeftOut != "" {
		return fmt.Sprintf("%-16s left out: %s\n", k.Kind, k.LeftOut)
	}
	var b strings.Builder
	for _, row := range []struct {
		name string
		side *Side
	}{{"on", &k.On}, {"off", &k.Off}} {
		s := row.side
		fmt.Fprintf(&b, "%-16s %-3s  mean %8.1f  median %8.1f  p90 %8.1f  p99 %8.1f  max %8.1f  above %g: %d of %d%s\n",
			k.Kind, row.name, s.Mean, s.Median, s.P90, s.P99, s.Max, bound, s.Above, s.Count, s.remarks())
	}
	if k.SyncedMS > 0 {
		fmt.Fprintf(&b, "%-16s a synced write %.2f, an acknowledged one %.2f with and %.2f without the preferences (medians)\n",
			"", k.SyncedMS, k.On.AckedMS, k.Off.AckedMS)
	}
	return b.String()
}

// remarks returns what else there is to say about a side.
func (s *Side) remarks() (text string) {
	if s.Asked > 0 {
		text += fmt.Sprintf("; %d of %d requests failed", s.Failed, s.Asked)
	}
	if s.First != "" {
		text += ", the first one: " + s.First
	}
	if s.Wasted > 0 {
		text += fmt.Sprintf("; %d terms without a leader, %d of them split votes", s.Wasted, s.Split)
	}
	return text
}

// Markdown returns the report as a section of a page. picture is the path of the report's picture.
func (r Report) Markdown(picture string) string {
	var b strings.Builder
	what, times := "Real processes", "from the disturbance to the next acknowledged write of a client of another member; "+
		"if it is planned, the longest time without an acknowledged write"
	if r.Simulated {
		what, times = "Simulated", "from the loss of the leader to the next leader; a round trip takes 1 ms, a durable write 2 ms, and news 3 ms on average"
	}
	fmt.Fprintf(&b, "## %s, %d members\n\n", what, r.Members)
	fmt.Fprintf(&b, "Milliseconds %s. Off means without %s. Made by %s.", times, strings.Join(r.Without, ", "), r.Origin)
	fmt.Fprintf(&b, "\n\n![The share of the trials that ended within a time](%s)\n\n", picture)
	fmt.Fprintf(&b, "| disturbance | preferences | trials | mean | median | p90 | p99 | max | above %g | |\n", r.BoundMS)
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range r.Results {
		k := &r.Results[i]
		if k.LeftOut != "" {
			fmt.Fprintf(&b, "| %s: %s | | | | | | | | | left out: %s |\n", k.Kind, k.Says, k.LeftOut)
			continue
		}
		k.row(&b, k.Kind+": "+k.Says, "on", &k.On)
		k.row(&b, "", "off", &k.Off)
	}
	return b.String()
}

func (k *Result) row(b *strings.Builder, what, name string, s *Side) {
	remarks := strings.TrimPrefix(s.remarks(), "; ")
	if k.SyncedMS > 0 && name == "on" {
		remarks = strings.TrimPrefix(fmt.Sprintf("%s; synced write %.2f", remarks, k.SyncedMS), "; ")
	}
	fmt.Fprintf(b, "| %s | %s | %d | %.1f | %.1f | %.1f | %.1f | %.1f | %d | %s |\n",
		what, name, s.Count, s.Mean, s.Median, s.P90, s.P99, s.Max, s.Above, remarks)
}
