package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/demo/server"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/internal/viewer/browsertest"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(func() int { return browsertest.Main(m) })) }

// touched counts the requests that reached the node.
type touched struct {
	*rafttest.Fake[*kv.Store]
	count atomic.Int32
}

func (n *touched) Propose(ctx context.Context, cmd []byte) (node.Result, error) {
	n.count.Add(1)
	return n.Fake.Propose(ctx, cmd)
}

func (n *touched) TransferLeadership(context.Context, raft.NodeID) error {
	n.count.Add(1)
	return nil
}

func (n *touched) Snapshot(context.Context) (raft.EntryID, error) {
	n.count.Add(1)
	return raft.EntryID{}, nil
}

func (n *touched) ChangeMembers(context.Context, raft.Change, raft.Index) (node.Members, error) {
	n.count.Add(1)
	return threeVoters(), nil
}

// changes lists all requests that change something.
var changes = []struct{ method, path, body string }{
	{"PUT", "/kv/k", "v"}, {"DELETE", "/kv/k", ""}, {"POST", "/transfer", ""}, {"POST", "/snapshot", ""},
	{"POST", "/members", `{"remove":[{"id":"n2"}]}`},
}

// browsed returns a server that records its answers.
func browsed(t *testing.T) (n *touched, port string, answers chan string) {
	t.Helper()
	n = &touched{Fake: rafttest.NewFake("n1", &kv.Store{})}
	n.SetMembers(threeVoters())
	handler := server.New(n, n.FSM, admin.Options{Metrics: http.NotFoundHandler()})
	answers = make(chan string, 100)
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := httptest.NewRecorder()
		handler.ServeHTTP(seen, r)
		if r.Method != http.MethodOptions && r.URL.Path != "/favicon.ico" {
			answers <- fmt.Sprintf("%s %s: %d", r.Method, r.URL.Path, seen.Code)
		}
		for name, values := range seen.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(seen.Code)
		_, _ = w.Write(seen.Body.Bytes())
	}))
	t.Cleanup(listening.Close)
	_, port, err := net.SplitHostPort(listening.Listener.Addr().String())
	require.NoError(t, err)
	return n, port, answers
}

// asks sends a request from the page with JavaScript, and waits for the answer.
func asks(p *browsertest.Page, url, options string) {
	p.Run("window.over = ''; fetch(`" + url + "`, " + options + ").then(r => { window.over = 'status ' + r.status }, e => { window.over = 'failed: ' + e })")
	p.Wait("window.over !== ''")
}

func TestBrowser_PagesOfOtherSitesChangeNothing(t *testing.T) {
	n, port, answers := browsed(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<form method="post" enctype="text/plain" target="aside" action="http://127.0.0.1:%s/members">
			<input name='{"remove":[{"id":"n2' value='"}]}'></form><iframe name="aside"></iframe>`, port)
	}))
	defer site.Close()
	for _, from := range []string{"evil.example", "127.0.0.1"} { // to a browser, another port of this machine is the same site
		p := browsertest.Visit(t, strings.Replace(site.URL, "127.0.0.1", from, 1))
		for _, as := range []string{"`%s`", "new TextEncoder().encode(`%s`)", "new Blob([`%s`], {type: 'text/plain'})"} {
			for _, c := range changes {
				if c.method != http.MethodPost { // browsers send no other methods without permission
					continue
				}
				asks(p, "http://127.0.0.1:"+port+c.path, "{method: 'POST', mode: 'no-cors', body: "+fmt.Sprintf(as, c.body)+"}")
				assert.Equal(t, "POST "+c.path+": 403", <-answers, "%s of a page of %s", as, from)
			}
		}
		asks(p, "http://127.0.0.1:"+port+"/kv/k", "{method: 'PUT', body: 'v'}")
		p.Run("document.forms[0].submit()")
		assert.Equal(t, "POST /members: 403", <-answers)
	}
	assert.Zero(t, n.count.Load())
	assert.Empty(t, answers)
}

func TestBrowser_NamesOfOtherSitesReadNothing(t *testing.T) {
	n, port, answers := browsed(t)
	p := browsertest.Visit(t, "http://evil.example:"+port+"/status") // by now, the name has this member's address
	assert.Contains(t, browsertest.Eval[string](p, "document.body.innerText"), admin.WrongHost)
	assert.Equal(t, "GET /status: 403", <-answers)
	for _, c := range append(changes[:len(changes):len(changes)], struct{ method, path, body string }{"GET", "/kv/k", ""}) {
		body := ""
		if c.method != "GET" {
			body = ", body: `" + c.body + "`"
		}
		asks(p, c.path, "{method: '"+c.method+"'"+body+", headers: {'Content-Type': 'application/json'}}")
		assert.Equal(t, c.method+" "+c.path+": 403", <-answers)
	}
	assert.Zero(t, n.count.Load())
}

func TestBrowser_ItsOwnPagesWork(t *testing.T) {
	n, port, answers := browsed(t)
	for _, name := range []string{"127.0.0.1", "localhost"} {
		p := browsertest.Visit(t, "http://"+name+":"+port+"/status")
		assert.Contains(t, browsertest.Eval[string](p, "document.body.innerText"), `"id":"n1"`)
		assert.Equal(t, "GET /status: 200", <-answers)
		before := n.count.Load()
		for _, c := range changes {
			asks(p, c.path, "{method: '"+c.method+"', body: `"+c.body+"`, headers: {'Content-Type': 'application/json'}}")
			assert.Equal(t, c.method+" "+c.path+": 200", <-answers)
		}
		assert.Equal(t, before+int32(len(changes)), n.count.Load())
	}
}

// A page cannot read the answer to a request for an image, a script or a frame of another site. But the page learns whether
// the image, script or frame arrived.
func TestBrowser_PagesOfOtherSitesDoNotLearnWhichKeysExist(t *testing.T) {
	_, port, answers := browsed(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, `<p>`)
	}))
	defer site.Close()
	p := browsertest.Visit(t, strings.Replace(site.URL, "127.0.0.1", "evil.example", 1))
	for _, part := range []string{"object", "iframe", "script", "img"} {
		for _, path := range []string{"/kv/k?consistency=stale", "/kv/none?consistency=stale", "/status"} {
			p.Run("part = document.createElement('" + part + "'); part[part.tagName === 'OBJECT' ? 'data' : 'src'] = 'http://127.0.0.1:" + port + path + "'; document.body.append(part)")
			assert.Contains(t, <-answers, ": 403", "%s as %s", path, part)
		}
	}
}

// Some browsers do not name the site that asks. Their answers carry headers that keep the answers from pages of other sites.
// A link that a user follows is answered.
func TestBrowser_AnswersAreForNoPage(t *testing.T) {
	m := newMember(t, "n1")
	for _, path := range []string{"/status", "/nosuch", "/kv/none"} {
		answer := m.do(t, "GET", path, "")
		assert.Equal(t, "same-origin", answer.Header.Get("Cross-Origin-Resource-Policy"))
		assert.Equal(t, "frame-ancestors 'none'", answer.Header.Get("Content-Security-Policy"))
	}
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	assert.Equal(t, 200, m.do(t, "GET", "/status", "", link...).StatusCode)
}

// The defence of package admin holds for keys, too, and speaks of flags.
func TestBrowser_HeadersDecide(t *testing.T) {
	n := &touched{Fake: rafttest.NewFake("n1", &kv.Store{})}
	n.SetMembers(threeVoters())
	handler := server.New(n, n.FSM, admin.Options{Metrics: http.NotFoundHandler()}, "http://n1.kv.example:4001", "http://:4001", "")
	for host, want := range map[string]admin.Code{"n1.kv.example": "", "127.0.0.1:4001": "", "evil.example:4001": admin.WrongHost} {
		for _, c := range append(changes[:len(changes):len(changes)], struct{ method, path, body string }{"GET", "/nope", ""}) {
			w, r := httptest.NewRecorder(), direct(t.Context(), c.method, c.path, c.body)
			r.Host = host
			handler.ServeHTTP(w, r)
			var failure admin.Error
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &failure))
			if failure.Code == admin.NotFound {
				continue
			}
			assert.Equal(t, want, failure.Code, "%s: %s %s", host, c.method, c.path)
			assert.Equal(t, want != "", strings.Contains(failure.Remedy, "which --url and raftkv members address set"))
		}
	}
}
