package admin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coxswain/raft/admin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// changes lists all requests that change something.
var changes = []struct{ method, path, body string }{
	{"POST", "/transfer", ""}, {"POST", "/snapshot", ""}, {"POST", "/members", `{"remove":[{"id":"n2"}]}`},
}

// Only the headers of a request tell whether a browser sent it. A test of the demo store asks with a browser.
func TestGuard_HeadersDecide(t *testing.T) {
	n := newFake()
	members := threeVoters()
	members.Configuration.Members[1].Meta = "https://N2.kv.example."
	n.SetMembers(members)
	handler := admin.Handler(n, admin.Options{Hosts: []string{"N1.kv.example:4001", ""}})
	for _, row := range []struct {
		rule   string
		host   string
		header http.Header
		want   admin.Code // "": no error
	}{
		{"no browser", "127.0.0.1:4001", nil, ""},
		{"no name", "", nil, ""},
		{"any address", "[fe80::1%25eth0]:4001", nil, ""},
		{"an address without a port", "[::1]", nil, ""},
		{"a name of loopback", "n1.LocalHost.:4001", nil, ""},
		{"a name that it was given", "n1.kv.example", nil, ""},
		{"the name in the URL of a member", "n2.KV.example:1", nil, ""},
		{"another name", "evil.example:4001", nil, admin.WrongHost},
		{"a name that begins like an own one", "localhost.evil.example", nil, admin.WrongHost},
		{"a name that ends like an own one", "evillocalhost", nil, admin.WrongHost},
		{"an older browser, same site", "127.0.0.1:4001", http.Header{"Origin": {"http://127.0.0.1:4001"}}, ""},
		{"an older browser, another site", "127.0.0.1:4001", http.Header{"Origin": {"http://evil.example"}}, admin.CrossSite},
		{"a page without an origin", "127.0.0.1:4001", http.Header{"Origin": {"null"}}, admin.CrossSite},
		{"a cross-site page", "127.0.0.1:4001", http.Header{"Sec-Fetch-Site": {"cross-site"}}, admin.CrossSite},
		{"a page of another port", "127.0.0.1:4001", http.Header{"Sec-Fetch-Site": {"same-site"}}, admin.CrossSite},
		{"an own page", "127.0.0.1:4001", http.Header{"Sec-Fetch-Site": {"same-origin"}}, ""},
	} {
		ask := func(method, path, body string) admin.Code {
			w, r := httptest.NewRecorder(), direct(t.Context(), method, path, body)
			r.Host = row.host
			for name, values := range row.header {
				r.Header[name] = values
			}
			handler.ServeHTTP(w, r)
			var failure admin.Error
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &failure))
			return failure.Code
		}
		for _, c := range changes {
			assert.Equal(t, row.want, ask(c.method, c.path, c.body), "%s: %s %s", row.rule, c.method, c.path)
		}
		assert.Equal(t, row.want == admin.WrongHost, ask("GET", "/status", "") == admin.WrongHost, row.rule)
	}
}

func TestGuard_AnswersAreForNoPage(t *testing.T) {
	m := newMember(t)
	for _, path := range []string{"/status", "/nosuch"} {
		answer := m.do(t, "GET", path, "")
		assert.Equal(t, "same-origin", answer.Header.Get("Cross-Origin-Resource-Policy"))
		assert.Equal(t, "frame-ancestors 'none'", answer.Header.Get("Content-Security-Policy"))
	}
	image := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}
	assert.Equal(t, admin.CrossSite, m.do(t, "GET", "/status", "", image...).failure(t).Code)
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	assert.Equal(t, 200, m.do(t, "GET", "/status", "", link...).StatusCode)
}

func TestChange_ABodyOfAnotherTypeIsRefused(t *testing.T) {
	m := newMember(t)
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} {
		r := m.do(t, "POST", "/members", `{"remove":[{"id":"n2"}]}`, "Content-Type", kind)
		assert.Equal(t, admin.NotJSON, r.failure(t).Code)
		assert.Equal(t, 415, r.StatusCode)
	}
	for _, header := range [][]string{nil, {"Content-Type", "application/json; charset=utf-8"}} { // earlier releases send none
		assert.NotEqual(t, 415, m.do(t, "POST", "/members", `{"cancel":true}`, header...).StatusCode)
	}
}
