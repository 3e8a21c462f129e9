package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/demo/local"
)

func TestLogTail_BeginsWithAWholeLine(t *testing.T) {
	dir := t.TempDir()
	layout, err := local.OpenLayout(dir, 1, nil)
	require.NoError(t, err)
	defer layout.Close()
	c := local.NewCluster(os.Args[0], dir, layout)
	for _, row := range []struct{ rule, log, want string }{
		{"a short log is there as a whole", "began\nended\n", "began\nended\n"},
		{"of a long one the line that is cut is left out", strings.Repeat("x", 2100) + "\nended\n", "ended\n"},
		{"unless it is the only one", strings.Repeat("x", 2100) + "\n", strings.Repeat("x", 1999) + "\n"},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "n1.log"), []byte(row.log), 0o600))
		assert.Equal(t, row.want, c.LogTail("n1"), row.rule)
	}
}
