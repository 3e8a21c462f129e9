package fuzzy

import (
	"cmp"
	"embed"
	"regexp"
	"slices"
	"strings"
)

// Rule is an invariant that is checked in every run.
type Rule struct {
	Name     string // name as in Failure.Rule: "G1"
	Sentence string
	Source   string // the paper that it comes from; empty: our own
	File     string // the file that checks it
}

//go:embed invariants_node.go invariants_cluster.go invariants_client.go invariants_clocks.go invariants_leases.go invariants_configurations.go invariants_changes.go invariants_members.go invariants_step.go invariants_snapshots.go invariants_segments.go invariants_compaction.go invariants_limits.go invariants_marks.go invariants_pipeline.go invariants_votes.go invariants_waits.go invariants_handshake.go invariants_hellos.go invariants_heard.go invariants_joining.go invariants_hangs.go invariants_priorities.go invariants_appversions.go invariants_ages.go invariants_sessions.go invariants_preference.go invariants_recoveries.go liveness.go liveness_handed.go liveness_joining.go lulls.go seekers.go working.go run.go directed.go
var ruleSources embed.FS

// Each file that checks invariants begins with the sentences of these invariants. Rules parses the comments of these files,
// so that no other copy of the sentences exists.
var (
	ruleLine   = regexp.MustCompile(`(?m)^//\t([NGHILTS][0-9]+) +(.+)$`)
	ruleSource = regexp.MustCompile(`^(.*?)\s*\(([^()]*)\)(.*)$`)
)

// Rules lists the invariants, group by group.
func Rules() []Rule {
	var rules []Rule
	files, _ := ruleSources.ReadDir(".") // cannot fail: it is embedded
	for _, file := range files {
		text, _ := ruleSources.ReadFile(file.Name())
		for line := range strings.Lines(string(text)) {
			if m := ruleLine.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
				rules = append(rules, newRule(m[1], m[2], "fuzzy/"+file.Name()))
			}
		}
	}
	slices.SortStableFunc(rules, func(a, b Rule) int {
		group := func(r Rule) int { return strings.Index("NGHILTS", r.Name[:1]) }
		return cmp.Or(group(a)-group(b), len(a.Name)-len(b.Name), strings.Compare(a.Name, b.Name))
	})
	return rules
}

func newRule(name, text, file string) Rule {
	r := Rule{Name: name, Sentence: text, File: file}
	if m := ruleSource.FindStringSubmatch(text); m != nil {
		r.Sentence, r.Source = strings.TrimSpace(m[1]+m[3]), m[2]
	}
	return r
}
