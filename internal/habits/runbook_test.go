package habits

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
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
		"older image":         {&raft.StaleImageError{}},
		"disk stalled":        {&node.DiskStalledError{}},
		"FSM hangs":           {&node.FSMHangsError{}},
		"no room":             {&raft.NoRoomError{}, storage.ErrDiskFull},
		"no descriptors":      {errors.New(files.DescriptorRemedy)},
		"not connected":       {&raft.QuorumLossError{}},
		"certificate refused": {&transport.CertificateError{}, &transport.CertificateTimeError{}, &transport.CertificateTimeError{NotBefore: time.Now()}},
		"contradicted":        {&raft.ContradictedError{}},
		"removed":             {&raft.RemovedError{}},
		"emptied disk":        {node.ErrWiped},
		"ended": {&raft.CorruptError{Where: "entry 7"}, &raft.CorruptError{}, &node.FSMError{Op: "Apply"},
			&node.FSMError{Op: "Apply", Panic: "why"}, &node.StorageError{Op: "write", Err: syscall.EIO},
			&raft.LaterVersionError{}, &raft.AppliedBeyondLogError{}, &raft.AppliedBelowBaseError{}},
	} {
		v, known := node.VerdictNamed(verdict)
		require.True(t, known, verdict)
		for _, err := range errs {
			assert.True(t, strings.Contains(err.Error(), "see "+v.Runbook()), "%T: %v", err, err)
		}
	}
}

// Each verdict is produced by a break: of a process, of a cluster in memory, or within a process. The clock of one process cannot
// be set.
func TestRunbook_EachVerdictIsProducedByABreak(t *testing.T) {
	atRoot(t)
	var breaks string
	for _, file := range []string{"admin/breaks_test.go", "admin/doctor_test.go", "cmd/raftkv/e2e_doctor_test.go", "cmd/raftkv/e2e_doctor_linux_test.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		breaks += string(text)
	}
	for _, v := range node.Verdicts() {
		assert.Equal(t, v.Name != "clock jump", strings.Contains(breaks, `"`+v.Name+`"`), v.Name)
	}
}

// Every entry that code or documentation names exists.
func TestRunbook_HasTheEntriesThatAreNamed(t *testing.T) {
	atRoot(t)
	entries := map[string]bool{}
	for _, v := range node.Verdicts() {
		entries[v.Runbook()] = true
	}
	reference := regexp.MustCompile(`runbook\.md#[a-z-]+`)
	var found int
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".go", ".md", ".yaml"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		for _, named := range reference.FindAllString(string(text), -1) {
			found++
			assert.True(t, entries["docs/"+named], "%s names %s", path, named)
		}
		return err
	}))
	assert.Greater(t, found, 40)
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
		assert.Contains(t, []string{"doctor", "members", "status", "serve", "transfer", "snapshot", "list", "certs"}, c[1], c[0])
		switch c[1] {
		case "members":
			assert.Contains(t, []string{"", "add", "address", "lease", "remove", "replace"}, c[2], c[0])
		case "certs":
			assert.Contains(t, []string{"", "member", "show"}, c[2], c[0])
		}
	}
}
