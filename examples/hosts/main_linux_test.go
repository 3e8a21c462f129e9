package main

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/examples/internal/apart"
	"github.com/coxswain/raft/internal/leaks"
)

// TestMain also runs the example in the new namespaces: that process is the same program.
func TestMain(m *testing.M) {
	if apart.Inside() {
		main()
	}
	os.Exit(leaks.Main(m.Run))
}

func TestExample_HostsAreCutOffRestartedAndMovedUnderLoad(t *testing.T) {
	var printed bytes.Buffer
	err := apart.Run(&printed)
	var impossible *apart.ImpossibleError
	if errors.As(err, &impossible) {
		t.Skipf("%s%v", &printed, err)
	}
	require.NoError(t, err, &printed)
	t.Logf("\n%s", &printed)
	for _, s := range steps {
		assert.Contains(t, printed.String(), s.what)
	}
	assert.Contains(t, printed.String(), "every acknowledged write is there")
}
