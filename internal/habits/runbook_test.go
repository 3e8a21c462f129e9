package habits

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// Each verdict has an entry in the runbook, in the order of the table, and each entry is of a verdict. An entry says what is seen,
// what it means and what to do.
func TestRunbook_HasAnEntryForEachVerdict(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("docs/runbook.md")
	require.NoError(t, err)
	var names []string
	for _, v := range node.Verdicts() {
		names = append(names, v.Name)
	}
	var headings []string
	for _, entry := range strings.Split(string(text), "\n## ")[1:] {
		name, rest, _ := strings.Cut(entry, "\n")
		headings = append(headings, name)
		for _, part := range []string{"* **You see:** ", "\n* **It means:** ", "\n* **Do:** 1. "} {
			assert.Contains(t, rest, part, name)
		}
	}
	assert.Equal(t, names, headings)
}

// Each error that ends a member, or keeps it from starting, until an operator acts names its entry.
func TestRunbook_IsNamedByTheErrorsThatNeedAnOperator(t *testing.T) {
	for verdict, errs := range map[string][]error{
		"older image":  {&raft.StaleImageError{}},
		"contradicted": {&raft.ContradictedError{}},
		"removed":      {&raft.RemovedError{}},
		"emptied disk": {node.ErrWiped},
		"ended": {&raft.CorruptError{Where: "entry 7"}, &raft.CorruptError{}, &node.FSMError{Op: "Apply"},
			&node.FSMError{Op: "Apply", Panic: "why"}},
	} {
		v, known := node.VerdictNamed(verdict)
		require.True(t, known, verdict)
		for _, err := range errs {
			assert.True(t, strings.Contains(err.Error(), "see "+v.Runbook()), "%T: %v", err, err)
		}
	}
}

// The commands of the table and of the runbook exist.
func TestRunbook_NamesCommandsThatExist(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("docs/runbook.md")
	require.NoError(t, err)
	for _, v := range node.Verdicts() {
		text = append(text, v.Next+"\n"...)
	}
	commands := regexp.MustCompile(`raftkv ([a-z]+)(?: ([a-z]+))?`).FindAllStringSubmatch(string(text), -1)
	assert.Greater(t, len(commands), 20)
	for _, c := range commands {
		assert.Contains(t, []string{"doctor", "members", "status", "serve", "transfer", "snapshot", "list"}, c[1], c[0])
	}
}
