package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The unit is one that systemd accepts, gives the program flags that it has, and leaves it little that it could misuse.
func TestUnit_IsAcceptedAndLocksUp(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("scores@.service")
	require.NoError(t, err)
	var start []string
	for line := range strings.Lines(string(unit)) {
		if command, ok := strings.CutPrefix(line, "ExecStart="); ok {
			start = strings.Fields(command)
		}
	}
	require.NotEmpty(t, start)
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	for _, flag := range start {
		if name, ok := strings.CutPrefix(flag, "-"); ok {
			assert.Contains(t, string(program), `flag.String("`+name+`"`)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed here: only the flags were checked")
	}
	copied := filepath.Join(t.TempDir(), "scores@n1.service") // with a program that is there
	require.NoError(t, os.WriteFile(copied, []byte(strings.ReplaceAll(string(unit), start[0], os.Args[0])), 0o600))
	for _, args := range [][]string{{"verify"}, {"security", "--offline=true", "--threshold=20", "--no-pager"}} {
		out, err := exec.CommandContext(t.Context(), analyze, append(args, copied)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.True(t, args[0] != "verify" || len(out) == 0, "%s", out)
	}
}
