package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If package admin said something else, the commands of raftkv would no longer be in its place.
func TestCommands_PackageAdminSaysWhatTheyReplace(t *testing.T) {
	files, err := filepath.Glob("../../../admin/*.go")
	require.NoError(t, err)
	var source strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if !strings.HasSuffix(file, "_test.go") {
			source.Write(text)
		}
	}
	for i := 0; i < len(commands); i += 2 {
		assert.Contains(t, source.String(), commands[i])
	}
}
