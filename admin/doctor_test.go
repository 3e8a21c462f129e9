package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// patient bounds the wait for something that must happen.
const patient = time.Minute

// fsm counts commands. It hangs until a channel is closed, or fails.
type fsm struct {
	mu    sync.Mutex
	hangs chan struct{}
	fails error
}

func (f *fsm) set(hangs chan struct{}, fails error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangs, f.fails = hangs, fails
}

func (f *fsm) Apply([]raft.Entry, [][]byte) error {
	f.mu.Lock()
	hangs, fails := f.hangs, f.fails
	f.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	return fails
}

func (f *fsm) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("no snapshot here") }

func (f *fsm) Restore(context.Context, raft.EntryID, io.Reader) error { return nil }

// trio are three members in this process, with disks, connections and a handler each. Their handlers answer even after a
// member has ended, as in a program that goes on.
type trio struct {
	t     *testing.T
	nodes [3]*node.Node
	fsms  [3]*fsm
	urls  []string
}

func newTrio(t *testing.T, configure func(*node.Config)) *trio {
	c := &trio{t: t}
	var wires [3]*transport.TCP
	var handlers [3]atomic.Pointer[http.Handler]
	var members []raft.Member
	for i := range wires {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if h := handlers[i].Load(); h != nil {
				(*h).ServeHTTP(w, r)
			}
		}))
		t.Cleanup(server.Close)
		var err error
		wires[i], err = transport.Listen("127.0.0.1:0", transport.Options{})
		require.NoError(t, err)
		c.urls = append(c.urls, server.URL)
		members = append(members, raft.Member{ID: raft.NodeID(fmt.Sprintf("n%d", i+1)), Address: wires[i].Addr().String(), Meta: server.URL})
	}
	for i, wire := range wires {
		store, err := storage.Open(filepath.Join(t.TempDir(), "data"), storage.Options{})
		require.NoError(t, err)
		cfg := node.Config{ID: members[i].ID, Cluster: "trio", Initial: members, Forward: true}
		if configure != nil {
			configure(&cfg)
		}
		c.fsms[i] = &fsm{}
		c.nodes[i], err = node.Start(t.Context(), cfg, c.fsms[i], store, wire)
		require.NoError(t, err)
		t.Cleanup(func() {
			c.fsms[i].mu.Lock()
			if hangs := c.fsms[i].hangs; hangs != nil {
				close(hangs)
			}
			c.fsms[i].mu.Unlock()
			_ = c.nodes[i].Close()
		})
		h := admin.Handler(c.nodes[i], admin.Options{})
		handlers[i].Store(&h)
	}
	c.diagnosed(admin.Healthy)
	return c
}

func (c *trio) diagnosed(verdict string) (d *admin.Diagnosis) {
	c.t.Helper()
	shared := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if !assert.Eventually(c.t, func() bool {
		d = admin.Diagnose(c.t.Context(), c.urls[:1], admin.Asking(shared))
		return d.Verdict == verdict
	}, patient, 20*time.Millisecond, verdict) {
		c.t.Fatalf("%+v", d.Findings)
	}
	return d
}

// follower returns the place of a member that does not lead.
func (c *trio) follower() int {
	leader, err := c.nodes[0].WaitLeader(c.t.Context())
	require.NoError(c.t, err)
	if leader.ID == "n3" {
		return 1
	}
	return 2
}

func (c *trio) propose(through int) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
		defer cancel()
		_, err := c.nodes[through].Propose(ctx, []byte("x"))
		return err == nil
	}, patient, 20*time.Millisecond)
}

func TestDiagnose_NamesWhatIsWrongWithinAProcess(t *testing.T) {
	for _, row := range []struct {
		verdict   string
		configure func(*node.Config)
		harm      func(c *trio, at int)
	}{
		{"FSM hangs", func(cfg *node.Config) { cfg.ApplyStallMax = time.Second }, func(c *trio, at int) {
			c.fsms[at].set(make(chan struct{}), nil)
			c.propose(0)
		}},
		{"applies late", func(cfg *node.Config) { cfg.ApplyStallMax = time.Hour }, func(c *trio, at int) {
			c.fsms[at].set(make(chan struct{}), nil)
			c.propose(0)
		}},
		{"ended", nil, func(c *trio, at int) {
			c.fsms[at].set(nil, errors.New("the state is damaged"))
			c.propose(0)
		}},
		{"removed", nil, func(c *trio, at int) {
			id := c.nodes[at].Status().ID
			require.Eventually(c.t, func() bool {
				_, err := c.nodes[0].ChangeMembers(c.t.Context(), raft.Change{Remove: []raft.Peer{{ID: id}}}, 0)
				return err == nil
			}, patient, 20*time.Millisecond)
			c.urls = c.urls[at : at+1] // the others do not name it any more
		}},
	} {
		t.Run(row.verdict, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, row.configure)
			at := c.follower()
			row.harm(c, at)
			d := c.diagnosed(row.verdict)
			assert.Equal(t, string(c.nodes[at].Status().ID), d.Findings[0].Member)
			for _, s := range d.Servers {
				assert.NotNil(t, s.Status, "%s: the others were found through one", s.URL)
			}
		})
	}
}
