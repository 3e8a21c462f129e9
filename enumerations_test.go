package raft

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/enums"
)

// words are the texts of the types whose constants people see.
var words = map[string]func(int) string{
	"Cause":          func(n int) string { return Cause(n).String() },
	"DenyReason":     func(n int) string { return DenyReason(n).String() },
	"EntryKind":      func(n int) string { return EntryKind(n).String() },
	"ForwardKind":    func(n int) string { return ForwardKind(n).String() },
	"ForwardOutcome": func(n int) string { return ForwardOutcome(n).String() },
	"Lane":           func(n int) string { return Lane(n).String() },
	"MarkKind":       func(n int) string { return MarkKind(n).String() },
	"MemberKind":     func(n int) string { return MemberKind(n).String() },
	"NextRole":       func(n int) string { return NextRole(n).String() },
	"ProbeResult":    func(n int) string { return ProbeResult(n).String() },
	"RejectReason":   func(n int) string { return RejectReason(n).String() },
	"Role":           func(n int) string { return Role(n).String() },
	"StreamRefusal":  func(n int) string { return StreamRefusal(n).Error() },
	"TraceEventKind": func(n int) string { return TraceEvent{Kind: TraceEventKind(n)}.String() },
	"progressState":  func(n int) string { return progressState(n).String() },
}

// A constant without a text would be shown as a number, as "unknown", or as another constant.
func TestEnumerations_EachConstantHasATextOfItsOwn(t *testing.T) {
	all := enums.In(t, ".")
	fallback := regexp.MustCompile(`\d|^unknown|^no answer$`)
	for name, text := range words {
		require.NotEmpty(t, all[name], name)
		said := map[string]string{}
		for c, n := range all[name] {
			if c == "RejectReasons" {
				continue
			}
			expect.Empty(t, said[text(n)], "%s says the same", c)
			said[text(n)] = c
			if name != "TraceEventKind" { // they have the numbers of terms and entries
				expect.False(t, fallback.MatchString(text(n)), "%s: %q", c, text(n))
			}
			expect.NotContains(t, text(n), "unknown trace event", c)
			expect.NotContains(t, text(n), "{", "%s names a field that there is not", c)
		}
	}
}

func TestEnumerations_EachTypeWithATextIsListed(t *testing.T) {
	method := regexp.MustCompile(`(?m)^func \(\w+ (\w+)\) (?:String|Error)\(\) string`)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	all := enums.In(t, ".")
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range method.FindAllStringSubmatch(string(source), -1) {
			if all[m[1]] != nil && m[1] != "Priority" { // which is a number, as its text is
				expect.Contains(t, words, m[1], file)
			}
		}
	}
}

func TestRejectReasons_AreAllKnownAndBelowTheirBound(t *testing.T) {
	listed := map[int]bool{}
	for name, n := range enums.Of(t, ".", "RejectReason") {
		expect.Less(t, n, int(RejectReasons), "%s: raise RejectReasons", name)
		wrong, remedy := RejectReason(n).texts()
		expect.True(t, RejectReason(n).Known() && wrong != "" && remedy != "", name)
		listed[n] = true
	}
	for n := range int(RejectReasons) + 10 {
		expect.Equal(t, listed[n], RejectReason(n).Known(), n)
	}
}

// aboutChanges returns the reasons to refuse a membership change. It leaves out the reasons to give one up.
func aboutChanges(t *testing.T) map[string]int {
	all := enums.Of(t, ".", "RefusalKind")
	for name, n := range all {
		if n < int(RefusedConfigIndex) || n >= int(RefusedNotCaughtUp) && n != int(RefusedNotElectable) {
			delete(all, name)
		}
	}
	return all
}

func TestRefuseChange_EachReasonHasItsError(t *testing.T) {
	said := map[string]string{}
	for name, n := range aboutChanges(t) {
		c := &Core{leader: &leader{}, cfg: CoreConfig{Limits: Limits{ProposalsMax: 1}}}
		c.refuseChange(&ChangeRequested{}, refusal{kind: RefusalKind(n), concerns: []NodeID{"n1", "n2"}})
		var a Answer
		if waits := c.leader.reads.next; len(waits) > 0 {
			a = *waits[0].change
		} else {
			require.Len(t, c.step.out.Answers, 1, name)
			a = c.step.out.Answers[0]
		}
		require.Error(t, a.Err, name)
		expect.Empty(t, said[a.Err.Error()], "%s says the same", name)
		said[a.Err.Error()] = name
	}
}
