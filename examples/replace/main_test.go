package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExample_ALostDiskIsReplacedUnderLoad(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var printed bytes.Buffer
	require.NoError(t, run(ctx, t.TempDir(), &printed), &printed)
	assert.Equal(t, `n1, n2 and n3 serve
n3 has lost its disk; n1 and n2 go on, and must not fail now
a new n3 was put in its place, with all that the cluster holds
n2 is stopped; n1 and the new n3 go on
every write that was acknowledged is there
`, printed.String())
}
