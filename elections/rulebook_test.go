package elections

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testSources holds the names of a package's test functions, and every text in the tests, such as the rules in their tables.
type testSources struct{ functions, texts map[string]bool }

func readTests(t *testing.T, pattern string) *testSources {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	s := &testSources{functions: map[string]bool{}, texts: map[string]bool{}}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				s.functions[n.Name.Name] = true
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil {
					s.texts[text] = true
				}
			}
			return true
		})
	}
	return s
}

// ruleOf is a row of the list of rules.
type ruleOf struct {
	rule  string
	tests []string
}

// listedRules returns the rules of the list, grouped by heading.
func listedRules() map[string][]ruleOf {
	listed, heading := map[string][]ruleOf{}, ""
	for _, line := range strings.Split(rules, "\n") {
		if after, ok := strings.CutPrefix(line, "### "); ok {
			heading = after
		}
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != 2 || line == "| rule | test |" {
			continue
		}
		tests := strings.Split(strings.TrimSuffix(cells[1], " |"), "<br>")
		listed[heading] = append(listed[heading], ruleOf{strings.TrimPrefix(cells[0], "| "), tests})
	}
	return listed
}

// Every rule has a test, and every test that is named is there.
func TestDocument_NamesATestForEveryRule(t *testing.T) {
	here, root := readTests(t, "*_test.go"), readTests(t, "../*_test.go")
	seen, rows := map[string]bool{}, 0
	for heading, listed := range listedRules() {
		for _, r := range listed {
			rows++
			assert.False(t, seen[heading+r.rule], "twice: %s", r.rule)
			seen[heading+r.rule] = true
			require.NotEmpty(t, r.tests, r.rule)
			for _, test := range r.tests {
				name, row, inTable := strings.Cut(test, "`: ")
				name = strings.Trim(name, "`")
				source := here
				if core, ok := strings.CutPrefix(name, "raft."); ok {
					name, source = core, root
				}
				assert.True(t, strings.HasPrefix(name, "Test") && source.functions[name], "%s: there is no %q", r.rule, test)
				assert.True(t, !inTable || source.texts[row], "%s: no test has the row %q", r.rule, row)
			}
		}
	}
	assert.Equal(t, strings.Count(rules, "\n| ")-len(listedRules()), rows, "every line of a table was read")
	assert.Greater(t, rows, 100)
}

// Every algorithm has its rules in the list.
func TestDocument_ListsRulesOfEverySource(t *testing.T) {
	for _, heading := range []string{
		"Common ground", "Two-phase election", "Bully", "Next-in-line failover", "Candidate/ordinary", "Invitation", "Ring",
		"Ballots", "Stable leader", "Raft", "Raft, with news and successors",
	} {
		assert.Greater(t, len(listedRules()[heading]), 5, heading)
	}
}
