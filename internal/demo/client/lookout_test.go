package client_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answers starts a server that answers GET /members.
func answers(t *testing.T, m *admin.Members) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(m) }))
	t.Cleanup(server.Close)
	return server.URL
}

// Two clusters may have the same name. If a caller names servers of both, it gets an error, and joins neither cluster.
func TestLookout_AsksServersOfOneClusterAlone(t *testing.T) {
	one := &admin.Members{ID: "n1", Leader: "n1", Cluster: "c", ClusterID: "1", Term: 3, Index: 7}
	other := &admin.Members{ID: "n1", Leader: "n1", Cluster: "c", ClusterID: "2", Term: 9, Index: 8}
	blank, earlier := &admin.Members{ID: "n4", Cluster: "c"}, &admin.Members{ID: "n2", Leader: "n1", Cluster: "c", Term: 3, Index: 7}
	oneURL, otherURL := answers(t, one), answers(t, other)
	look := func(urls ...string) (admin.Members, error) {
		l := client.NewLookout(urls)
		defer l.Close()
		return l.Look(t.Context())
	}
	_, err := look(oneURL, answers(t, blank), otherURL+"/")
	var differ *client.OtherClusterError
	require.ErrorAs(t, err, &differ)
	assert.Equal(t, client.OtherClusterError{URLs: [2]string{oneURL, otherURL}, IDs: [2]string{"1", "2"}}, *differ)

	m, err := look(answers(t, blank), oneURL, answers(t, earlier))
	require.NoError(t, err, "a server that waits to join, or that runs an earlier release, reports no id")
	assert.Equal(t, *one, m)
}

// The URL of a former member may now belong to another cluster. The caller did not give this URL, so the answer is dropped.
func TestLookout_LeavesOutAnotherClusterAtAMembersURL(t *testing.T) {
	other := &admin.Members{ID: "n2", Leader: "n2", Cluster: "c", ClusterID: "2", Term: 9, Index: 8}
	one := &admin.Members{ID: "n1", Leader: "n1", Cluster: "c", ClusterID: "1", Term: 3, Index: 7}
	one.Members = []admin.ClusterMember{{ID: "n1"}, {ID: "n2", URL: answers(t, other)}}
	l := client.NewLookout([]string{answers(t, one)})
	defer l.Close()
	for range 3 {
		m, err := l.Look(t.Context())
		require.NoError(t, err)
		assert.Equal(t, *one, m)
	}
}
