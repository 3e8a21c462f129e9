package electionpage

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/coxswain/raft/elections"
	"github.com/coxswain/raft/internal/viewer"
)

// stop is a stop of the guided tour: two algorithms in a scenario, and where to look.
type stop struct {
	Title, Text string
	left, right string // algorithms
	scenario    string
	at          string // the reader is taken to the mark on the left that begins with this text
	Place       template.URL
}

var stops = []stop{
	{
		Title: "The leader crashes", left: "bully-a", right: "raft", scenario: "leader-crash",
		Text: "Press → (or ▶) and watch both sides: after a silence the members notice, and choose another leader. Bully takes " +
			"the highest rank that answers, Raft the member that a majority votes for.",
	},
	{
		Title: "A partition", left: "bully-a", right: "raft", scenario: "minority", at: "Split brain",
		Text: "The old leader is cut off with a minority. Bully elects a second leader on the other side: both " +
			"lead until the links mend. Raft's old leader steps down, because no majority answers it.",
	},
	{
		Title: "The cure is a majority", left: "ballots-none", right: "ballots-majority", scenario: "minority", at: "Split brain",
		Text: "One algorithm, with and without the rule that more than half of all members must agree. Nothing else " +
			"differs, and only one of the two keeps two leaders for seconds.",
	},
	{
		Title: "Votes must last", left: "two-phase", right: "raft", scenario: "lost-votes", at: "Split brain",
		Text: "A majority alone is not enough. In the two-phase election members vote again in each round, and an old vote " +
			"still counts: 2 voted for 1, now for itself, and 1 and 2 both have a majority. In Raft a vote is given once a " +
			"term, and kept on disk: one leader, though the same links fail.",
	},
	{
		Title: "One that comes and goes", left: "bully-a", right: "bully-quality", scenario: "flapping",
		Text: "The highest rank crashes every 3 s. With bully it takes over from a working leader each time it comes back. " +
			"If each crash counts against its host, and the better host wins, it leads once and never again.",
	},
	{
		Title: "Ask before you campaign", left: "raft-bare", right: "raft", scenario: "deaf",
		Text: "One member hears nobody, and all hear it. By the letter of Raft's paper it raises the term every time it " +
			"misses the leader, and each time all must elect again. With PreVote, Raft asks first who would vote for it: " +
			"no member that hears a leader would, so the term stays.",
	},
	{
		Title: "Why the wait is random", left: "raft-fixed", right: "raft-bare", scenario: "leader-crash",
		Text: "With one timeout for all, all miss the leader at nearly the same time, all campaign, and each votes for " +
			"itself: there is no majority, and one timeout later the same happens again. A random wait lets one be first.",
	},
	{
		Title: "Who talks to whom", left: "bully-b", right: "ring-c", scenario: "leader-crash",
		Text: "In bully the member that notices asks all above it, and each of these asks all above itself; on a ring a " +
			"message goes from hop to hop. Orange arrows are the election, grey ones routine messages.",
	},
	{
		Title: "News", left: "raft", right: "raft-preferred", scenario: "leader-crash",
		Text: "On the left nobody knows that the leader is gone until a timeout expires. On the right each member's connection " +
			"breaks, its dial is refused, and the first of the successors that the leader had named campaigns at once.",
	},
	{
		Title: "When messages are lost", left: "stable", right: "raft", scenario: "loss-20",
		Text: "One message in five never arrives. An algorithm that is stable on good links may not be on bad ones: in the strip on " +
			"top, blue is a leader. The chart of changes, below, counts how often a leader that works is replaced.",
	},
}

// tour returns the stops whose diagrams exist, each with its place.
func tour(diagrams []viewer.Diagram) (found []stop) {
	index := map[string]int{}
	for i, d := range diagrams {
		index[strings.Join(d.At, "\n")] = i
	}
	at := func(algorithm, scenario string) (int, bool) {
		a, err1 := elections.FindAlgorithm(algorithm)
		s, err2 := elections.FindScenario(scenario)
		if err1 != nil || err2 != nil {
			panic(fmt.Sprint("a stop of the tour is nowhere: ", err1, err2))
		}
		i, ok := index[a.Title+"\n"+s.Title]
		return i, ok
	}
	for _, s := range stops {
		left, ok1 := at(s.left, s.scenario)
		right, ok2 := at(s.right, s.scenario)
		if ok1 && ok2 {
			s.Place = template.URL(fmt.Sprintf("diagram=%d&row=%d&diagram2=%d", left+1, row(&diagrams[left], s.at), right+1))
			found = append(found, s)
		}
	}
	return found
}

// row returns the row of the first mark that begins with a text, or, without a text, of the first fault.
func row(d *viewer.Diagram, text string) int {
	for i, m := range d.Marks {
		if text == "" && m.Tone == viewer.ToneWarn || text != "" && strings.HasPrefix(m.Text, text) {
			return d.Row(i)
		}
	}
	return 1
}
