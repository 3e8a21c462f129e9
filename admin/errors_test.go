package admin

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft/internal/enums"
)

// Each code has an explicit status. A code without a status would be reported as a server error.
func TestCode_EachHasAStatus(t *testing.T) {
	for name, code := range enums.Texts(t, ".", "Code") {
		_, listed := statuses[Code(code)]
		assert.NotEqual(t, Code(code) == Internal, listed, name)
	}
	w := httptest.NewRecorder()
	(&Error{Code: Internal}).Write(w)
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.Equal(t, "internal: because (try)", (&Error{Code: Internal, Message: "because", Remedy: "try"}).Error())
}
