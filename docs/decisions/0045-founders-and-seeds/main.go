// Program founders explores, state by state, who may bootstrap a cluster: founders that are named by id, seeds that only supply
// addresses, and members that join. Without arguments it runs all cases and all broken rules; see ../0045-founders-and-seeds.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	only    = flag.String("case", "", "run this case or broken rule alone, and print the shortest way to each finding")
	size    = flag.Int("wipes", -1, "emptied disks, if not the case's own")
	breaks  = flag.String("break", "", "break this rule in the cases, too")
	limit   = flag.Int("limit", 20_000_000, "states at most")
	seconds = flag.Int("seconds", 100, "seconds per case at most")
)

const (
	never = "nobody bootstraps"
	more  = "more stuck states"
)

// kase is one run. lists, alt and seeds give, for each id, the ids as digits: "123,123,123".
type kase struct {
	name, lists, alt, seeds   string
	wipes, lies, maxLog, vers int
	expect                    int
	broken, finds             string // finds: how the class of the finding begins
}

func (k kase) params() params {
	lists := masks(k.lists)
	q := params{wipes: k.wipes, lies: k.lies, maxLog: k.maxLog, maxVer: k.vers, expect: k.expect, broken: k.broken}
	q.n = len(lists)
	if q.broken == "" {
		q.broken = *breaks
	}
	copy(q.lists[:], lists)
	copy(q.alt[:], masks(k.alt))
	copy(q.seeds[:], masks(k.seeds))
	if *size >= 0 {
		q.wipes = *size
	}
	return q
}

func masks(text string) (all []uint8) {
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		mask := uint8(0)
		for _, digit := range part {
			if id, err := strconv.Atoi(string(digit)); err == nil && id > 0 {
				mask |= 1 << (id - 1)
			}
		}
		all = append(all, mask)
	}
	return all
}

func main() {
	flag.Parse()
	failed := false
	for _, k := range slices.Concat(cases, mutants) {
		id := k.name
		if k.broken != "" {
			id = k.broken
		}
		if *only != "" && *only != id {
			continue
		}
		start := time.Now()
		r := k.run()
		verdict := k.verdict(r)
		failed = failed || strings.HasPrefix(verdict, "UNEXPECTED")
		fmt.Printf("%-40s %9d states %9d steps %7d stuck until a restart %7d for good  %5.1f s  %s\n",
			id, r.states, r.edges, r.stuck, r.restart, time.Since(start).Seconds(), verdict)
		for _, class := range keys(r) {
			fmt.Printf("    %s: %d\n", class, r.count[class])
			if *only != "" {
				fmt.Println("        " + strings.Join(r.example[class], "\n        "))
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}

func (k kase) run() *result {
	p = k.params()
	return run(*limit, time.Duration(*seconds)*time.Second)
}

// tolerable are the states without a leader for which no rule has a cure: what is lost is more than a minority, or nothing was
// ever committed and one disk has to be emptied.
var tolerable = []string{"stuck for good: a majority's", "stuck for good: entry 1 at term 0 of a bootstrapper",
	"stuck until a restart", "note:"}

func (k kase) verdict(r *result) string {
	if !r.complete {
		return "UNEXPECTED: not complete"
	}
	switch {
	case k.finds == never:
		if len(logs) == 1 {
			return "nobody bootstraps"
		}
	case k.finds == more:
		whole := k
		whole.broken = ""
		base := whole.run()
		if r.stuck+r.restart > base.stuck+base.restart || r.restart > base.restart {
			return fmt.Sprintf("killed: stuck %d + %d instead of %d + %d", r.stuck, r.restart, base.stuck, base.restart)
		}
	case k.finds != "":
		for _, class := range keys(r) {
			if strings.HasPrefix(class, k.finds) {
				return "killed: " + class
			}
		}
	default:
		if k.wipes+k.lies == 0 && *size < 0 && r.stuck+r.restart > 0 {
			return "UNEXPECTED: stuck although nothing failed"
		}
		for _, class := range keys(r) {
			if k.alt != "" && strings.HasPrefix(class, "stuck") { // unequal lists
				continue
			}
			if !slices.ContainsFunc(tolerable, func(t string) bool { return strings.HasPrefix(class, t) }) {
				return "UNEXPECTED: " + class
			}
		}
		return "holds"
	}
	return "UNEXPECTED"
}

func keys(r *result) (classes []string) {
	for class := range r.count {
		classes = append(classes, class)
	}
	slices.Sort(classes)
	return classes
}
