package zoo

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If a change of the library breaks an anchor, this test fails at once.
func TestOverlay_EveryAnchorIsThereOnce(t *testing.T) {
	root, err := moduleRoot(t.Context())
	require.NoError(t, err)
	_, err = overlay(root, t.TempDir(), All())
	require.NoError(t, err)
}

// Each pattern matches a test. Without this check, a wrong pattern would show only if nothing else killed the mutant.
func TestMutants_NameTestsThatExist(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	tests := map[string][]string{} // names of tests, by package
	for _, m := range All() {
		if m.Test == nil {
			continue
		}
		if tests[m.Test.Package] == nil {
			files, err := filepath.Glob(filepath.Join("../..", m.Test.Package, "*_test.go"))
			require.NoError(t, err)
			for _, file := range files {
				code, err := os.ReadFile(file)
				require.NoError(t, err)
				for _, name := range declared.FindAllStringSubmatch(string(code), -1) {
					tests[m.Test.Package] = append(tests[m.Test.Package], name[1])
				}
			}
		}
		assert.True(t, slices.ContainsFunc(tests[m.Test.Package], regexp.MustCompile(m.Test.Run).MatchString),
			"%s: no test of package %q matches %q", m.ID, m.Test.Package, m.Test.Run)
	}
}

func TestMutants_AreTold(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range All() {
		assert.False(t, seen[m.ID], "%s is there twice", m.ID)
		seen[m.ID] = true
		assert.NotEmpty(t, m.Rule, m.ID)
		assert.NotEmpty(t, m.Bug, m.ID)
		assert.NotEmpty(t, m.Edits, m.ID)
		assert.True(t, m.Expect != "" || m.ID == Noop, "%s: nothing is expected to catch it", m.ID)
		assert.True(t, m.Test != nil || m.Alive != "" || !m.Outside, "%s is hunted by nobody", m.ID)
		assert.False(t, m.MustKill && (m.Outside || m.Alive != ""), "%s must be killed, and cannot be", m.ID)
	}
}

// Every bug of the research behind the catalogues is a mutant, or the zoo lists it as absent.
func TestMutants_NoneIsForgotten(t *testing.T) {
	known := map[string]bool{}
	for _, m := range All() {
		known[m.ID] = true
	}
	for _, a := range absences {
		assert.NotEmpty(t, a.because)
		for _, ids := range a.ids {
			first, last, isRange := strings.Cut(ids, "–")
			if !isRange {
				last = first
			}
			to, err := strconv.Atoi(last[1:])
			require.NoError(t, err, ids)
			for i, err := strconv.Atoi(first[1:]); i <= to; i++ {
				require.NoError(t, err, ids)
				id := fmt.Sprintf("%c%02d", first[0], i)
				assert.False(t, known[id], "%s is there, and said to be absent", id)
				known[id] = true
			}
		}
	}
	for letter, rows := range map[rune]int{'E': 20, 'R': 22, 'D': 19, 'P': 13, 'M': 17, 'Q': 12, 'T': 6, 'V': 7, 'C': 7, 'X': 7} {
		for i := range rows {
			id := fmt.Sprintf("%c%02d", letter, i+1)
			assert.True(t, known[id], "%s is neither a mutant nor said to be absent", id)
		}
	}
}

const sample = `package p

func vote(first, second int) int {
	granted := sum(first)
	granted += second
	return granted
}
`

// Mutants of the same place do not interfere with each other.
func TestPatch_ComposesMutants(t *testing.T) {
	got, err := patch(sample, []change{
		{"A", value("", `sum(first)`, "1")}, {"B", value("", `sum(first)`, "2")},
		{"C", before("", `granted += second`, "return 0")}, {"D", instead("", `granted += second`, "granted -= second")},
	})
	require.NoError(t, err)
	assert.Equal(t, `package p

func vote(first, second int) int {
	granted := zooValue("B", 2, zooValue("A", 1, sum(first)))
	if zooMutant == "C" {
		return 0
	}
	if zooMutant == "D" {
		granted -= second
	} else {
		granted += second
	}
	return granted
}
`, got)
}

func TestPatch_RefusesAnAnchorThatDoesNotFit(t *testing.T) {
	for text, changes := range map[string][]change{
		"mutant A: its anchor is in f.go 0 times":        {{"A", before("f.go", "granted *= b", "")}},
		"mutant A: its anchor is in f.go 3 times":        {{"A", before("f.go", "granted", "")}},
		"the anchors of mutants A and B overlap in f.go": {{"A", before("f.go", "granted := sum", "")}, {"B", value("f.go", ":= sum(first)", "")}},
		"the patched source does not parse":              {{"A", instead("f.go", "granted := sum", "}")}},
	} {
		_, err := patch(sample, changes)
		assert.ErrorContains(t, err, text)
	}
}

func TestChoose_AnUnknownMutantListsTheChoices(t *testing.T) {
	_, err := Choose([]string{"E01", "E99"})
	require.ErrorIs(t, err, ErrUsage)
	assert.ErrorContains(t, err, `unknown mutant "E99"; there are canary, no-op, E01, E02, `)
}
