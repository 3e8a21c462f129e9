package admin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mounted serves the handler of a member below a prefix, as programs do.
func mounted(t *testing.T, n admin.Member) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/raft/", http.StripPrefix("/raft", admin.Handler(n, admin.Options{})))
	return served(t, mux)
}

// among makes a fake say that these are the members, and that it is the one with this id.
func among(n *rafttest.Fake[raft.FSM], urls map[raft.NodeID]string, findings ...node.Finding) {
	s := n.Status()
	s.Bootstrapped, s.Leader, s.Findings = true, "n1", findings
	if s.Members = nil; s.ID != "n1" {
		s.Role = raft.Follower
	}
	for _, id := range []raft.NodeID{"n1", "n2", "n3"} {
		if url, is := urls[id]; is {
			s.Members = append(s.Members, node.MemberStatus{Member: raft.Member{ID: id, Meta: url}, Connected: true})
		}
	}
	n.SetStatus(s)
}

func diagnosisOf(t *testing.T, url string) (d admin.Diagnosis) {
	t.Helper()
	answer, err := http.Get(url + "/raft" + admin.DoctorPath)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&d))
	return d
}

func TestDoctor_AsksTheOtherMembersBelowTheSamePrefix(t *testing.T) {
	n1, n2 := newFake(), rafttest.NewFake[raft.FSM]("n2", nil)
	first, second := mounted(t, n1), mounted(t, n2)
	urls := map[raft.NodeID]string{"n1": first.URL + "/", "n2": second.URL}
	among(n1, urls)
	among(n2, urls, node.Finding{Verdict: "disk stalled", Member: "n2", Says: "a write takes long"})
	d := diagnosisOf(t, first.URL)
	assert.Equal(t, "disk stalled", d.Verdict, "only n2 knows")
	require.Len(t, d.Findings, 1)
	assert.Equal(t, "docs/runbook.md#disk-stalled", d.Findings[0].Runbook)
	require.Len(t, d.Servers, 2)
	assert.Nil(t, d.Servers[0].Status, "the streams carry it")
	second.Close()
	again := diagnosisOf(t, first.URL)
	assert.Equal(t, d, again, "however many ask, the members are asked once a second")
}

func TestDoctor_NamesAMemberThatDoesNotAnswer(t *testing.T) {
	n1 := newFake()
	first := mounted(t, n1)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	among(n1, map[raft.NodeID]string{"n1": first.URL, "n3": gone.URL})
	d := diagnosisOf(t, first.URL)
	assert.Equal(t, node.VerdictNoAnswer, d.Verdict)
	assert.Equal(t, "n3", d.Findings[0].Member)
}

func TestDoctor_SpeaksForAMemberWithoutAURL(t *testing.T) {
	n1 := newFake()
	among(n1, map[raft.NodeID]string{"n1": ""}, node.Finding{Verdict: "disk stalled", Member: "n1", Says: "a write takes long"})
	assert.Equal(t, "disk stalled", diagnosisOf(t, mounted(t, n1).URL).Verdict)
}

// The other members would refuse a page of an origin that they do not list.
func TestPage_IsOpenedAtTheURLOfItsMember(t *testing.T) {
	n := newFake()
	among(n, map[raft.NodeID]string{"n1": "http://10.0.0.1:4001/"})
	n.SetMembers(node.Members{Configuration: raft.Configuration{Members: []raft.Member{{ID: "n1", Meta: "http://10.0.0.1:4001/"}}}})
	mux := http.NewServeMux()
	mux.Handle("/raft/", http.StripPrefix("/raft", admin.Handler(n, admin.Options{Origins: []string{"https://ops.example"}})))
	for _, row := range []struct{ rule, host, path, want string }{
		{"another name", "localhost:4001", "/raft/live", "http://10.0.0.1:4001/raft/live?moved"},
		{"only once", "localhost:4001", "/raft/live?moved", ""},
		{"its own", "10.0.0.1:4001", "/raft/live", ""},
		{"another part", "localhost:4001", "/raft/live.js", ""},
	} {
		w, r := httptest.NewRecorder(), direct(t.Context(), "GET", row.path, "")
		r.Host = row.host
		mux.ServeHTTP(w, r)
		assert.Equal(t, row.want, w.Header().Get("Location"), row.rule)
	}
}

// The page needs nothing from elsewhere, and the browser would not let it.
func TestPage_IsWhole(t *testing.T) {
	m := newMember(t)
	bytes := 0
	for path := range admin.Page {
		r := m.do(t, "GET", path, "")
		require.Equal(t, http.StatusOK, r.StatusCode, path)
		assert.NotContains(t, r.Header.Get("Content-Type"), "octet-stream", path)
		assert.Contains(t, r.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self';", path)
		assert.Contains(t, r.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'", path)
		for _, url := range regexp.MustCompile(`https?://[^"'`+"`"+` ]+`).FindAllString(r.body, -1) {
			assert.Regexp(t, "^(http://www.w3.org/2000/svg$|https://github.com/coxswain/raft/blob/main/)", url, "%s: a name and a link", path)
		}
		assert.NotContains(t, r.body, "innerHTML", "what members say is text")
		bytes += len(r.body)
	}
	assert.Less(t, bytes, 100<<10)
	assert.Equal(t, admin.NotFound, m.do(t, "GET", "/live.txt", "").failure(t).Code)
	assert.Equal(t, admin.MethodNotAllowed, m.do(t, "POST", admin.LivePath, "").failure(t).Code)
}
