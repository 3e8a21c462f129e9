package admin_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/viewer/browsertest"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Names, sentences and errors of members are text, whatever they hold.
const markup = `<img src=x onerror="document.title='broken'">`

// pageOf opens the page of n1, among members with these URLs.
func pageOf(t *testing.T, urls map[raft.NodeID]string) (*browsertest.Page, *rafttest.Fake[raft.FSM]) {
	t.Helper()
	n1 := newFake()
	first := mounted(t, n1)
	urls["n1"] = first.URL
	among(n1, urls)
	s := n1.Status()
	s.ClusterName, s.LeaderReason = markup, markup
	s.Members = append(s.Members, node.MemberStatus{Member: raft.Member{ID: markup, Meta: "javascript:alert(1)"}, Problem: markup})
	n1.SetStatus(s)
	return browsertest.Show(t, first.URL+"/raft"+admin.LivePath, "light"), n1
}

func TestBrowser_AMemberThatNeverAnswersDoesNotHoldUpThePage(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and never answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	n2 := rafttest.NewFake[raft.FSM]("n2", nil)
	second := mounted(t, n2)
	urls := map[raft.NodeID]string{"n2": second.URL, "n3": "http://" + silent.Addr().String()}
	p, n1 := pageOf(t, urls)
	n2.SetMembers(node.Members{Configuration: raft.Configuration{Members: []raft.Member{{ID: "n1", Meta: urls["n1"]}}}})
	among(n2, urls)
	p.Wait("document.querySelector('[data-member=n1] .role')?.textContent === 'leader'")
	p.Wait("document.querySelector('[data-member=n2] .role')?.textContent === 'follower'")
	p.Wait("document.querySelector('[data-member=n3] .role')?.textContent === 'does not answer'")
	p.Wait("document.getElementById('events').textContent.includes('n3 does not answer this page')")
	p.Wait("document.getElementById('members').textContent.includes('has no URL')")
	assert.Equal(t, "Cluster "+markup, p.Text("#title"))
	assert.NotEqual(t, "broken", browsertest.Eval[string](p, "document.title"))
	assert.Equal(t, 0, browsertest.Eval[int](p, "document.querySelectorAll('img').length"))

	s := n1.Status()
	s.Term = 77
	n1.SetStatus(s)
	p.Wait("document.querySelector('[data-member=n1] .values').textContent.includes('term 77')")
	for _, width := range []int64{390, 1280} {
		p.Resize(width, 900)
		assert.Equal(t, width, browsertest.Eval[int64](p, "document.documentElement.scrollWidth"), "nothing sticks out")
	}
}

// freezing is a fake that answers nothing while the lock is held, as a process that is stopped. Its connections stay.
type freezing struct {
	deciding
	frozen *sync.RWMutex
}

func (f freezing) Status() node.Status {
	f.frozen.RLock()
	defer f.frozen.RUnlock()
	return f.deciding.Status()
}

// What a member has said before it is out of date: that of a silent one at once, and that of the process before when it answers again.
func TestBrowser_AMemberIsWhatItSaysNow(t *testing.T) {
	var process atomic.Pointer[http.Handler]
	s := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*process.Load()).ServeHTTP(w, r) }))
	start := func(count uint64, others map[raft.NodeID]string) freezing {
		n := freezing{deciding{Fake: newFake(), decisions: []node.Decision{
			{Number: 1, At: time.Now(), TraceEvent: raft.TraceEvent{Kind: raft.TraceLeader, Term: raft.Term(count)}},
		}}, new(sync.RWMutex)}
		others["n1"] = s.URL
		among(n.Fake, others)
		status := n.Fake.Status()
		status.StartCount = count
		n.SetStatus(status)
		handler := admin.Handler(n, admin.Options{})
		process.Store(&handler)
		return n
	}
	first := start(1, map[raft.NodeID]string{"n3": ""})
	p := browsertest.Show(t, s.URL+admin.LivePath, "light")
	p.Wait("document.getElementById('events').textContent.includes('leads term 1,')")
	p.Wait("document.querySelector('[data-member=n3]') !== null")
	first.frozen.Lock()
	p.Wait("document.querySelector('[data-member=n1] .role').textContent === 'does not answer'")
	p.Wait("document.getElementById('events').textContent.includes('n1 does not answer')") // a moment later
	first.frozen.Unlock()
	p.Wait("document.querySelector('[data-member=n1] .role').textContent === 'leader'")
	p.Wait("document.getElementById('events').textContent.includes('n1 answers again')")

	start(2, map[raft.NodeID]string{})
	s.CloseClientConnections()
	p.Wait("document.getElementById('events').textContent.includes('leads term 2,')")
	p.Wait("document.querySelector('[data-member=n3]') === null")
}

func TestBrowser_WithoutServerSentEventsThePageSaysSo(t *testing.T) {
	handler := admin.Handler(newFake(), admin.Options{})
	s := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/live.js" {
			handler.ServeHTTP(w, r)
			return
		}
		script := httptest.NewRecorder()
		handler.ServeHTTP(script, r)
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write([]byte(strings.Replace(script.Body.String(), "const words", "delete window.EventSource;\nconst words", 1)))
	}))
	p := browsertest.Visit(t, s.URL+admin.LivePath)
	p.Wait("document.getElementById('words').textContent.startsWith('This page needs server-sent events')")
	assert.True(t, browsertest.Eval[bool](p, "document.getElementById('main').hidden"))
}
