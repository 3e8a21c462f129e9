package member

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/internal/testca"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/transport"
)

// trio is a cluster of three members on TCP with certificates.
type trio struct {
	t       *testing.T
	cfg     [3]Config
	members [3]*Member
}

// newTrio starts three members. Their timeouts are long, so that a slow machine causes no election and cuts no connection.
func newTrio(t *testing.T, ca *testca.Authority) *trio {
	t.Helper()
	c := newStopped(t, ca)
	for i := range c.cfg {
		c.start(i)
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			assert.NoError(t, m.Close())
		}
	})
	for _, m := range c.members {
		require.NoError(t, m.Ready(t.Context()))
	}
	return c
}

// newStopped returns the settings of three members.
func newStopped(t *testing.T, ca *testca.Authority) *trio {
	t.Helper()
	leaks.Check(t)
	c := &trio{t: t}
	var initial []raft.Member
	for i, id := range []raft.NodeID{"n1", "n2", "n3"} {
		address := freeAddress(t)
		initial = append(initial, raft.Member{ID: id, Address: address})
		c.cfg[i] = Config{
			ID: id, Cluster: "test", Dir: t.TempDir(), Listen: address, TLS: TLSFiles(ca.Files(t, t.TempDir(), "test", id)),
			Net: transport.Options{IdleTimeout: time.Minute, HandshakeTimeout: time.Minute}, Node: node.Config{ElectionTimeout: 2 * time.Second},
		}
	}
	for i := range c.cfg {
		c.cfg[i].Initial = initial
	}
	return c
}

func (c *trio) start(i int) {
	c.t.Helper()
	m, err := Start(c.t.Context(), c.cfg[i], &counter{})
	require.NoError(c.t, err)
	c.members[i] = m
}

// connected waits until each member is connected to both others. On a slow machine the cluster serves before.
func (c *trio) connected() {
	c.t.Helper()
	for _, m := range c.members {
		require.Eventually(c.t, func() bool {
			return !slices.ContainsFunc(m.Status().Members, func(other node.MemberStatus) bool { return other.ID != m.Status().ID && !other.Connected })
		}, time.Minute, time.Millisecond)
	}
}

// change replaces the files of all members, and waits until they are in use.
func (c *trio) change(signer *testca.Authority, trusted ...*testca.Authority) {
	c.t.Helper()
	for i, m := range c.members {
		p := signer.Issue(c.t, "test", c.cfg[i].ID, time.Now().Add(year))
		former := m.certificates.config.Load()
		c.cfg[i].TLS.write(c.t, testca.PEM(trusted...), p.Certificate, p.Key)
		require.Eventually(c.t, func() bool { return m.certificates.config.Load() != former }, time.Minute, 10*time.Millisecond)
	}
}

// load proposes commands on all members until it is stopped. It counts those that were acknowledged.
type load struct {
	trio    *trio
	done    sync.WaitGroup
	stop    context.CancelFunc
	written atomic.Int64
	next    atomic.Int64
}

func (c *trio) load(writers int) *load {
	ctx, stop := context.WithCancel(c.t.Context())
	l := &load{trio: c, stop: stop}
	for range writers {
		l.done.Go(func() {
			for ctx.Err() == nil {
				l.write()
			}
		})
	}
	return l
}

// write proposes one command on one of the members. None of them needs to lead.
func (l *load) write() {
	m := l.trio.members[l.next.Add(1)%3]
	_, err := m.Propose(context.Background(), []byte("+"))
	assert.NoError(l.trio.t, err)
	if err == nil {
		l.written.Add(1)
	}
}

// more waits until more commands were acknowledged.
func (l *load) more() {
	l.trio.t.Helper()
	until := l.written.Load() + 20
	require.Eventually(l.trio.t, func() bool { return l.written.Load() >= until }, time.Minute, time.Millisecond)
}

// The authority of all members changes in two steps while clients write. No request fails, and no connection is cut. A member
// that starts meanwhile meets members that are a step ahead.
func TestCertificates_TheAuthorityChangesUnderLoad(t *testing.T) {
	former, next := testca.New(t), testca.New(t)
	c := newTrio(t, former)
	c.connected()
	var before [3]transport.Stats
	for i, m := range c.members {
		before[i] = m.TCP().Stats()
	}
	l := c.load(4)
	for _, step := range []func(){
		func() { c.change(former, former, next) },
		func() { c.change(next, former, next) },
		func() { c.change(next, next) },
	} {
		step()
		l.more()
	}
	l.stop()
	l.done.Wait()
	for i, m := range c.members {
		now := m.TCP().Stats()
		assert.Equal(t, before[i].Lost, now.Lost, "no connection is cut")
		assert.Equal(t, before[i].Dialed, now.Dialed)
		assert.Equal(t, before[i].TLSFailed, now.TLSFailed)
		assert.Empty(t, m.Status().Certificate.Problem)
	}
	for i := range c.members { // each member meets the others with the new certificates alone, in both directions
		require.NoError(t, c.members[i].Close())
		c.start(i)
		require.NoError(t, c.members[i].Ready(t.Context()))
	}
	stranger := c.cfg[0]
	stranger.Dir, stranger.Listen = t.TempDir(), "127.0.0.1:0"
	stranger.TLS = TLSFiles(former.Files(t, t.TempDir(), "test", "n1"))
	m, err := Start(t.Context(), stranger, &counter{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		s := m.Status().Members[1]
		return !s.Connected && s.ConnectionErr != ""
	}, time.Minute, 10*time.Millisecond)
	assert.Contains(t, m.Status().Members[1].ConnectionErr, "certificate", "the former authority opens nothing any more")
	require.NoError(t, m.Close())
}
