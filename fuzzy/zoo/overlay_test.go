package zoo

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A change of the library that a mutant does not fit any more is noticed at once.
func TestOverlay_EveryAnchorIsThereOnce(t *testing.T) {
	root, err := moduleRoot(t.Context())
	require.NoError(t, err)
	_, err = overlay(root, t.TempDir(), All())
	require.NoError(t, err)
}
