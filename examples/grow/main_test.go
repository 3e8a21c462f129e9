package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExample_GrowsAndShrinksUnderLoad(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var printed bytes.Buffer
	require.NoError(t, run(ctx, t.TempDir(), &printed), &printed)
	assert.Equal(t, `n1 is a cluster of one member
n2 was added:   voters [n1 n2]
n3 was added:   voters [n1 n2 n3]
n4 was added:   voters [n1 n2 n3 n4]
n5 was added:   voters [n1 n2 n3 n4 n5]
n1 was removed: voters [n2 n3 n4 n5]
n2 was removed: voters [n3 n4 n5]
n3 was removed: voters [n4 n5]
n4 was removed: voters [n5]
every acknowledged write is there
`, printed.String())
}
