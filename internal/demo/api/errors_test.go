package api

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft/internal/enums"
)

// Each code has an explicit status. A code without a status would be reported as a server error.
func TestCode_EachHasAStatus(t *testing.T) {
	others := []Code{Internal, Unreachable, BadResponse} // the server never answers with the last two
	for name, code := range enums.Texts(t, ".", "Code") {
		_, listed := statuses[Code(code)]
		assert.NotEqual(t, slices.Contains(others, Code(code)), listed, name)
	}
	assert.Equal(t, http.StatusInternalServerError, (&Error{Code: Internal}).Status())
}
