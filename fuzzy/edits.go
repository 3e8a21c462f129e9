package fuzzy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coxswain/raft/internal/sim"
)

// edits lists the parts that a run leaves out, and the code that its members run. A nil *edits leaves out nothing.
type edits struct {
	injected  map[FaultKind]ordinals // by class: the injections that are kept; absent: all
	requested ordinals               // the requests that clients begin
	changed   ordinals               // the changes that admins ask for
	ignored   []string               // rules whose failure does not end the run
	events    int                    // number of events after which the run ends; 0: no bound
	until     sim.Time               // the run ends at this time; 0: no bound
	app       *Application           // the application that the members run; nil: none
}

func (e *edits) application() *Application {
	if e == nil {
		return nil
	}
	return e.app
}

// injects reports whether an injection of a class, numbered from 1, is kept.
func (e *edits) injects(k FaultKind, number int64) bool {
	if e == nil {
		return true
	}
	kept, edited := e.injected[k]
	return !edited || kept.has(number)
}

// begins reports whether a request, numbered from 1 over all clients, is kept.
func (e *edits) begins(number int64) bool { return e == nil || e.requested.has(number) }

// changes reports whether a change of an admin, numbered from 1 over all admins, is kept.
func (e *edits) changes(number int64) bool { return e == nil || e.changed.has(number) }

// ignores reports whether a rule may fail.
func (e *edits) ignores(rule string) bool { return e != nil && slices.Contains(e.ignored, rule) }

// over reports whether a run that has not failed has reached one of its bounds.
func (e *edits) over(c *cluster) bool {
	return e != nil && (e.events > 0 && c.stats.Events >= e.events || e.until > 0 && c.now() > e.until)
}

// ordinals is a set of numbers from 1 on.
type ordinals struct {
	all  bool
	some []int64 // in order, unless all
}

func (o ordinals) has(number int64) bool {
	if o.all {
		return true
	}
	_, found := slices.BinarySearch(o.some, number)
	return found
}

func (o ordinals) clone() ordinals { return ordinals{o.all, slices.Clone(o.some)} }

// upTo names the numbers from 1 to n.
func upTo(n int) ordinals {
	var o ordinals
	for i := range n {
		o.some = append(o.some, int64(i+1))
	}
	return o
}

// ordinalsMax is the maximum number of elements in a list of ordinals.
const ordinalsMax = 100_000

// String returns the form that parseOrdinals reads: "all", "none", "1-4 9".
func (o ordinals) String() string {
	if o.all {
		return "all"
	}
	var words []string
	for i := 0; i < len(o.some); {
		j := i + 1
		for j < len(o.some) && o.some[j] == o.some[j-1]+1 {
			j++
		}
		word := strconv.FormatInt(o.some[i], 10)
		if j > i+1 {
			word += fmt.Sprintf("-%d", o.some[j-1])
		}
		words = append(words, word)
		i = j
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, " ")
}

func parseOrdinals(text string) (o ordinals, err error) {
	switch text {
	case "all":
		return ordinals{all: true}, nil
	case "none":
		return o, nil
	}
	bad := fmt.Errorf("%q: it takes all, none, or rising numbers from 1 to %d, as in 1-4 9", text, ordinalsMax)
	last := int64(0)
	for _, word := range strings.Fields(text) {
		from, to, isRange := strings.Cut(word, "-")
		low, err := strconv.ParseInt(from, 10, 64)
		high := low
		if err == nil && isRange {
			high, err = strconv.ParseInt(to, 10, 64)
		}
		if err != nil || low <= last || high < low || high > ordinalsMax {
			return ordinals{}, bad
		}
		for ; low <= high; low++ {
			o.some = append(o.some, low)
		}
		last = high
	}
	if last == 0 {
		return ordinals{}, bad
	}
	return o, nil
}

// severed describes the links that are cut. If the members form groups, each connected within itself and cut off from the
// others, severed lists the groups.
func (c *cluster) severed() string {
	links, whole := c.net.Links, true
	var sides, cut []string
	var seen uint64
	for i := range c.nodes {
		side := links.Reach(i)
		if seen>>i&1 == 0 {
			sides = append(sides, c.names(side))
		}
		seen |= side
		for j := range c.nodes {
			whole = whole && (links.Reach(j) == side) == (side>>j&1 == 1) && links.Up(i, j) == (side>>j&1 == 1)
			if !links.Up(i, j) {
				cut = append(cut, c.nodes[i].name()+"→"+c.nodes[j].name())
			}
		}
	}
	switch {
	case len(cut) == 0:
		return "nothing is cut"
	case whole:
		return "only among " + strings.Join(sides, " | ")
	}
	return "cut " + strings.Join(cut, ", ")
}
