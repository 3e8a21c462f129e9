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
	assert.Equal(t, `n1, n2 and n3 are up
n3 has lost its disk; n1 and n2 continue, and must not fail now
a new n3 has taken its place, and holds all data of the cluster
n2 is stopped; n1 and the new n3 continue
every acknowledged write is there
`, printed.String())
}
