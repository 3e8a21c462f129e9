package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
)

func TestStatus_TellsTheSettingsInWhichAMemberDiffers(t *testing.T) {
	view := api.Status{Status: admin.Status{ID: "n1", Role: "leader", Members: []admin.MemberStatus{
		{ID: "n1", Connected: true}, {ID: "n2", Connected: true, Differs: []string{"its election timeout is 2s", "its protocol is 2"}},
	}}}
	var out bytes.Buffer
	require.NoError(t, printTable(&out, []report{{URL: "http://n1", Status: &view}}))
	assert.Contains(t, out.String(), "n1 says of n2: its election timeout is 2s\nn1 says of n2: its protocol is 2\n")
	assert.NoError(t, health([]report{{URL: "http://n1", Status: &view}}), "the cluster serves nevertheless")
}
