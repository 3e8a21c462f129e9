package processes

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Membership counts changes of the members.
type Membership struct {
	Spares      int `json:"spares"`      // members that are in no configuration at first
	Smallest    int `json:"smallest"`    // voters that there were to be
	Commands    int `json:"commands"`    // that were run
	Done        int `json:"done"`        // that said so
	Refused     int `json:"refused"`     // or given up, or out of time, because of faults; they were run again
	Interrupted int `json:"interrupted"` // killed, and run again
	Twice       int `json:"twice"`       // how often two ran at once
	Canceled    int `json:"canceled"`    // changes, by somebody else; they were asked for again
	Helped      int `json:"helped"`      // members that have not joined by themselves in time
	// LeadersKilled and OthersKilled count members that were killed while a change ran.
	LeadersKilled int `json:"leaders_killed"`
	OthersKilled  int `json:"others_killed"`
	// Removed counts members that ended with their exit code because they were removed.
	Removed int `json:"removed"`
	// Replaced counts the members whose disk was lost, by how it was lost.
	Replaced map[Kind]int `json:"replaced"`
	// ReplacedWithin is how long replacing took, from the start of the member that takes the place, in seconds.
	ReplacedWithin Seconds `json:"replaced_within_seconds"`
	// Longest is the longest time until the members were those that were asked for, in seconds.
	Longest float64 `json:"longest_seconds"`
	// Settled is how long that took at the end, without faults, in seconds.
	Settled float64 `json:"settled_seconds"`

	longest   time.Duration
	replacing []time.Duration
}

// Seconds are the median and the maximum of some durations.
type Seconds struct {
	P50 float64 `json:"p50"`
	Max float64 `json:"max"`
}

// conclude fills in what is known at the end.
func (m *Membership) conclude() {
	m.Longest = m.longest.Seconds()
	slices.Sort(m.replacing)
	if n := len(m.replacing); n > 0 {
		m.ReplacedWithin = Seconds{m.replacing[n/2].Seconds(), m.replacing[n-1].Seconds()}
	}
}

// lines returns what was done, as names and texts.
func (m Membership) lines() (lines [][2]string) {
	if m.Commands+m.total() == 0 {
		return nil
	}
	lines = append(lines, [2]string{"changes of the members", fmt.Sprintf("%d commands done, %d refused or given up and run again, "+
		"%d killed in the midst and run again, %d canceled; %d times two at once; %d leaders and %d others killed in the midst of a "+
		"change; down to %d voters; as asked within %.1f s at most, and within %.1f s at the end",
		m.Done, m.Refused, m.Interrupted, m.Canceled, m.Twice, m.LeadersKilled, m.OthersKilled, m.Smallest, m.Longest, m.Settled)})
	lines = append(lines, [2]string{"members removed", fmt.Sprintf("%d, each ended with code %d", m.Removed, exitRemoved)})
	if m.total() > 0 {
		lines = append(lines, [2]string{"members replaced", fmt.Sprintf("%s, within %.1f s (p50), %.1f s (max); %d needed a command's help",
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
