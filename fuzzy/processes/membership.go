package processes

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Membership counts membership changes.
type Membership struct {
	Spares      int `json:"spares"`      // members that are initially in no configuration
	Smallest    int `json:"smallest"`    // smallest wanted number of voters
	Commands    int `json:"commands"`    // commands that were run
	Done        int `json:"done"`        // commands that reported success
	Refused     int `json:"refused"`     // commands that were refused, given up or out of time because of faults; they were run again
	Interrupted int `json:"interrupted"` // commands that were killed, and run again
	Twice       int `json:"twice"`       // number of times that two commands ran at once
	Canceled    int `json:"canceled"`    // changes that another command canceled; they were asked for again
	Helped      int `json:"helped"`      // members that did not join by themselves in time
	// LeadersKilled and OthersKilled count members that were killed while a change ran.
	LeadersKilled int `json:"leaders_killed"`
	OthersKilled  int `json:"others_killed"`
	// Removed counts members that ended with the exit code for removals.
	Removed int `json:"removed"`
	// Replaced counts the members whose disk was lost, by kind of loss.
	Replaced map[Kind]int `json:"replaced"`
	// ReplacedWithin is the duration of replacements in seconds, from the start of the new member.
	ReplacedWithin Seconds `json:"replaced_within_seconds"`
	// Longest is the longest time until the cluster had the wanted membership, in seconds.
	Longest float64 `json:"longest_seconds"`
	// Settled is the time until the cluster had the wanted membership at the end, without faults, in seconds.
	Settled float64 `json:"settled_seconds"`

	longest   time.Duration
	replacing []time.Duration
}

// Seconds are the median and the maximum of some durations.
type Seconds struct {
	P50 float64 `json:"p50"`
	Max float64 `json:"max"`
}

// conclude fills in the figures that are known only at the end.
func (m *Membership) conclude() {
	m.Longest = m.longest.Seconds()
	slices.Sort(m.replacing)
	if n := len(m.replacing); n > 0 {
		m.ReplacedWithin = Seconds{m.replacing[n/2].Seconds(), m.replacing[n-1].Seconds()}
	}
}

// lines returns rows of a report, as names and texts.
func (m Membership) lines() (lines [][2]string) {
	if m.Commands+m.total() == 0 {
		return nil
	}
	lines = append(lines, [2]string{"membership changes", fmt.Sprintf("%d commands done, %d refused or given up and run again, "+
		"%d killed and run again, %d canceled; %d times two at once; %d leaders and %d others killed during a "+
		"change; down to %d voters; the wanted members were reached within %.1f s at most, and within %.1f s at the end",
		m.Done, m.Refused, m.Interrupted, m.Canceled, m.Twice, m.LeadersKilled, m.OthersKilled, m.Smallest, m.Longest, m.Settled)})
	lines = append(lines, [2]string{"members removed", fmt.Sprintf("%d, each ended with code %d", m.Removed, exitRemoved)})
	if m.total() > 0 {
		lines = append(lines, [2]string{"members replaced", fmt.Sprintf("%s, within %.1f s (p50), %.1f s (max); %d needed the help of a command",
			m.replaced(), m.ReplacedWithin.P50, m.ReplacedWithin.Max, m.Helped)})
	}
	return lines
}

func (m Membership) total() (n int) {
	for _, count := range m.Replaced {
		n += count
	}
	return n
}

func (m Membership) replaced() string {
	var texts []string
	for _, h := range habits {
		if n := m.Replaced[h.kind]; n > 0 {
			texts = append(texts, fmt.Sprintf("%d after %s", n, h.kind))
		}
	}
	return fmt.Sprintf("%d: %s", m.total(), strings.Join(texts, ", "))
}
