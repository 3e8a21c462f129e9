package constants

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIn_FindsEachFormOfAConstant(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte(`package a
const (
	One Kind = 1
	Seven Kind = 7 // with a gap
	Bound = 8
)
const (
	A Role = iota
	B
	_
	D
)
const (
	First Trace = iota + 1
	Second
)
const name Name = "not a number"
`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a_test.go"), []byte("package a\nconst Nine Kind = 9\n"), 0o600))
	assert.Equal(t, map[string]map[string]int{
		"Kind": {"One": 1, "Seven": 7}, "Role": {"A": 0, "B": 1, "D": 3}, "Trace": {"First": 1, "Second": 2},
	}, In(t, dir))
	assert.Equal(t, 3, Of(t, dir, "Role")["D"])
}
