package transport

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
)

// fakeNet is a network for a linker. It records what the linker dials.
type fakeNet struct {
	mu     sync.Mutex
	found  map[string]error // nil: the peer answers; absent: the host does not answer
	dialed []string
	open   *fakeSession
}

type fakeSession struct {
	gone chan struct{}
	once sync.Once
	why  error // set before gone is closed
}

func (s *fakeSession) send(raft.Lane, []raft.Message) error { return nil }
func (s *fakeSession) broken() <-chan struct{}              { return s.gone }
func (s *fakeSession) err() error                           { return s.why }
func (s *fakeSession) close(why error) {
	s.once.Do(func() { s.why = cmp.Or(why, io.EOF); close(s.gone) })
}

func (n *fakeNet) dial(_ context.Context, m raft.Member) (dialed, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dialed = append(n.dialed, m.Address)
	err, answers := n.found[m.Address]
	switch {
	case !answers:
		return dialed{}, errors.New(m.Address + " does not answer")
	case err != nil:
		return dialed{}, err
	}
	n.open = &fakeSession{gone: make(chan struct{})}
	return dialed{session: n.open, hello: raft.Hello{From: bob}}, nil
}

// next returns the addresses dialed since the last call.
func (n *fakeNet) next() []string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	dialed := n.dialed
	n.dialed = nil
	return dialed
}

func linkerOn(n *fakeNet) (*linker, *transporttest.Recorder) {
	l := &linker{dial: n.dial, pauseMin: time.Second, pauseMax: time.Second, onFailure: func(raft.Member, bool, error) {}}
	r := transporttest.NewRecorder("a")
	l.start(r)
	return l, r
}

func bobAt(addresses ...string) []raft.Contact {
	return []raft.Contact{{Member: raft.Member{ID: bob.ID, Incarnation: bob.Incarnation}, Addresses: addresses}}
}

func TestLink_ReportsALossOnceEveryAddressHasFailed(t *testing.T) {
	refused := &RejectedError{By: bob, Rejection: raft.Rejection{Reason: raft.RejectWrongID}}
	for _, row := range []struct {
		rule             string
		found            map[string]error
		losses, refusals int
		err              string
	}{
		{"nobody listens at any of them", map[string]error{"x": errNobodyListens, "y": errNobodyListens}, 1, 0, errNobodyListens.Error() + "; " + errNobodyListens.Error()},
		{"one host does not answer, so the peer may be alive", map[string]error{"x": errNobodyListens}, 1, 0, errNobodyListens.Error() + "; y does not answer"},
		{"one address rejects this member, and nobody listens at the other", map[string]error{"x": refused, "y": errNobodyListens}, 1, 1, refused.Error() + "; " + errNobodyListens.Error()},
		{"both addresses reject this member", map[string]error{"x": refused, "y": refused}, 0, 2, refused.Error() + "; " + refused.Error()},
	} {
		t.Run(row.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &fakeNet{found: row.found}
				l, r := linkerOn(n)
				defer l.close()
				l.connect(bobAt("x", "y"))
				assert.Equal(t, []string{"x", "y"}, n.next(), "without a pause between them")
				for range row.refusals {
					assert.Equal(t, bob, r.AwaitRejected(t, "b").Peer)
				}
				for range row.losses {
					e := r.AwaitLost(t, "b", false)
					assert.Equal(t, bob, e.Peer)
				}
				assert.Zero(t, r.Count())
				assert.EqualError(t, l.peer(bob).Err, row.err)
				time.Sleep(time.Second)
				assert.Equal(t, []string{"x", "y"}, n.next(), "the next round comes after a pause")
			})
		})
	}
}

func TestLink_TheAddressThatWorkedComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{found: map[string]error{"y": nil}}
		l, r := linkerOn(n)
		defer l.close()
		broken := func() {
			time.Sleep(time.Hour)
			n.open.close(nil)
			r.AwaitLost(t, "b", false)
		}
		l.connect(bobAt("x", "y", "z"))
		r.AwaitUp(t, "b")
		assert.Equal(t, []string{"x", "y"}, n.next())
		assert.Equal(t, "y", l.peer(bob).Address)
		broken()
		r.AwaitUp(t, "b")
		assert.Equal(t, []string{"y"}, n.next())
		l.connect(bobAt("x", "w", "y"))
		broken()
		r.AwaitUp(t, "b")
		assert.Equal(t, []string{"y"}, n.next(), "the preferred address has not changed")
		l.connect(bobAt("w", "x", "y"))
		assert.Empty(t, n.next(), "its connection stays")
		broken()
		r.AwaitUp(t, "b")
		assert.Equal(t, []string{"w", "x", "y"}, n.next(), "another address is preferred now")
		l.connect(bobAt("x", "w"))
		r.AwaitLost(t, "b", false)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"x", "w"}, n.next()[:2], "its address is no longer named")
	})
}

// The address that worked last has ended for good.
func TestLink_TheOtherAddressesAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{found: map[string]error{"z": nil}}
		l, r := linkerOn(n)
		defer l.close()
		l.connect(bobAt("x", "y", "z"))
		r.AwaitUp(t, "b")
		n.mu.Lock()
		n.found = map[string]error{"x": nil}
		n.mu.Unlock()
		n.next()
		time.Sleep(time.Hour)
		n.open.close(nil)
		r.AwaitLost(t, "b", false)
		r.AwaitUp(t, "b")
		assert.Equal(t, []string{"z", "x"}, n.next())
	})
}

// If a link is not connected, new addresses end its pause.
func TestLink_NewAddressesAreDialedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{found: map[string]error{"y": nil}}
		l, r := linkerOn(n)
		defer l.close()
		l.connect(bobAt("x"))
		assert.Equal(t, []string{"x"}, n.next())
		began := time.Now()
		l.connect(bobAt("x", "y"))
		r.AwaitUp(t, "b")
		assert.Zero(t, time.Since(began))
		assert.Equal(t, []string{"x", "y"}, n.next())
	})
}

// Connect replaces a peer by another incarnation of the same id. The old link ends before the new link begins, so the last
// calls of the old link come first.
func TestLink_ANewIncarnationWaitsForTheEndOfTheOldLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{found: map[string]error{"x": nil}}
		l, r := linkerOn(n)
		defer l.close()
		again := raft.Peer{ID: "b", Incarnation: 2}
		l.connect([]raft.Contact{{Member: raft.Member{ID: "b", Incarnation: 1}, Addresses: []string{"x"}}})
		assert.Equal(t, bob, r.AwaitUp(t, "b").Peer)
		l.connect([]raft.Contact{{Member: raft.Member{ID: "b", Incarnation: 2}, Addresses: []string{"nowhere"}}})
		e := r.Await(t, "the end of the first", func(e transporttest.Event) bool { return true })
		assert.Equal(t, bob, e.Peer)
		e = r.Await(t, "a vain dial of the second", func(e transporttest.Event) bool { return true })
		assert.Equal(t, again, e.Peer)
		l.connect(nil)
		synctest.Wait()
		l.connect(nil)
		assert.Empty(t, l.leaving)
	})
}

// A connection that is closed leaves no timer of its side lanes.
func TestPair_StopsItsTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaks.CheckTimers(t)
		p := &pair{}
		p.ctx, p.cancel = context.WithCancelCause(t.Context())
		for i := range p.lanes {
			near, _ := net.Pipe()
			p.lanes[i] = &outbound{conn: near}
		}
		for i := range p.sides {
			p.sides[i].idle = time.AfterFunc(sideIdle, func() {})
		}
		p.close(errNotNamed)
	})
}

// A process that was paused has not seen what became of the peer meanwhile.
func TestLink_APauseOfThisProcessIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paused atomic.Int64 // how long the process is paused during the next dial
		l := &linker{pauseMin: time.Second, pauseMax: time.Second, onFailure: func(raft.Member, bool, error) {}}
		l.dial = func(context.Context, raft.Member) (dialed, error) {
			time.Sleep(time.Duration(paused.Swap(0)))
			return dialed{}, errNobodyListens
		}
		l.start(transporttest.NewRecorder("a"))
		defer l.close()
		refused := func() time.Duration { return l.peer(bob).RefusedFor }
		l.connect(bobAt("x"))
		time.Sleep(5 * time.Second)
		assert.Greater(t, refused(), 3*time.Second)
		paused.Store(int64(time.Minute))
		time.Sleep(59 * time.Second)
		assert.Zero(t, refused(), "the last dial is too long ago")
		time.Sleep(2 * time.Second)
		assert.NotZero(t, refused())
		assert.Less(t, refused(), 2*time.Second, "it begins again")
	})
}
