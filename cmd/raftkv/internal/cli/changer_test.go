package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If a command runs out of time before anything began, it reports the reason, if it knows the reason.
func TestChanger_OutOfTime(t *testing.T) {
	refused, unanswered := api.Errorf(admin.NoLeader, "", "because"), api.Errorf(admin.OutcomeUnknown, "", "because")
	for _, row := range []struct {
		rule   string
		change *admin.Changing // what the members show
		latest error
		code   int
		says   string
	}{
		{"each request was refused", nil, refused, exitFailed, "because"},
		{"the last one has no answer", nil, unanswered, exitUnknown, "not known whether the change has begun"},
		{"a change is running", &admin.Changing{Stage: admin.StageCatchesUp}, refused, exitUnknown, "the change continues"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(admin.Members{ID: "n1", Index: 5, Committed: true, Change: row.change})
		}))
		t.Cleanup(server.Close)
		c := newChanger([]string{server.URL}, admin.Change{}, goal{}, io.Discard)
		t.Cleanup(c.Close)
		_, err := c.Look(t.Context())
		require.NoError(t, err)

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.settle(ended, row.latest)
		assert.Equal(t, row.code, exitCode(err), row.rule)
		assert.ErrorContains(t, err, row.says, row.rule)
	}
}
