package transport

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
)

// connected connects a linker to bob. From then on, its dials have the outcomes found.
func connected(t *testing.T, found map[string]error) (*fakeNet, *linker, *transporttest.Recorder) {
	n := &fakeNet{found: map[string]error{"x": nil}}
	l, r := linkerOn(n)
	t.Cleanup(l.close)
	l.connect(bobAt("x", "y"))
	r.AwaitUp(t, "b")
	n.mu.Lock()
	n.found = found
	n.mu.Unlock()
	n.next()
	return n, l, r
}

var gone = map[string]error{"x": errNobodyListens, "y": errNobodyListens}

func TestLink_NewsOfAPeersEnd(t *testing.T) {
	refused := &RejectedError{By: bob, Rejection: raft.Rejection{Reason: raft.RejectWrongIncarnation}}
	for _, row := range []struct {
		rule  string
		lasts time.Duration
		why   error
		found map[string]error
		news  bool
	}{
		{"every address refuses", time.Hour, nil, gone, true},
		{"the connection lasted only a moment", 0, nil, gone, true},
		{"one host does not answer", time.Hour, nil, map[string]error{"y": errNobodyListens}, false},
		{"the other host does not answer", time.Hour, nil, map[string]error{"x": errNobodyListens}, false},
		{"another incarnation answers", time.Hour, nil, map[string]error{"x": errNobodyListens, "y": refused}, false},
		{"this member gave up the connection", time.Hour, fmt.Errorf("%w: a frame", ErrMalformed), gone, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, _, r := connected(t, row.found)
				time.Sleep(row.lasts)
				n.open.close(row.why)
				began := time.Now()
				assert.Equal(t, bob, r.AwaitLost(t, "b", false).Peer)
				e := r.Await(t, "the next loss", func(e transporttest.Event) bool { return e.Kind == transporttest.EventLost })
				assert.Equal(t, transporttest.Event{Kind: transporttest.EventLost, Peer: bob, Refused: row.news}, e)
				assert.Zero(t, time.Since(began))
				assert.Equal(t, []string{"x", "y"}, n.next())
				for range 3 {
					r.AwaitLost(t, "b", false)
				}
			})
		})
	}
}

// The system closes the listener of a killed process after its connections. Meanwhile, dials connect and then break.
func TestLink_NewsOfAPeerWhoseListenerClosesLast(t *testing.T) {
	for _, row := range []struct {
		closes time.Duration
		news   bool
	}{{readersWait / 2, true}, {2 * readersWait, false}} {
		synctest.Test(t, func(t *testing.T) {
			n, _, r := connected(t, map[string]error{"x": fmt.Errorf("a handshake: %w", io.EOF), "y": errNobodyListens})
			time.Sleep(time.Hour)
			n.open.close(nil)
			time.Sleep(row.closes)
			dials := len(n.next())
			assert.Less(t, dials, 60)
			r.Discard(func(e transporttest.Event) bool {
				assert.False(t, e.Refused)
				return true
			})
			n.mu.Lock()
			n.found = gone
			n.mu.Unlock()
			e := r.Await(t, "the next loss", func(e transporttest.Event) bool { return e.Kind == transporttest.EventLost })
			assert.Equal(t, row.news, e.Refused)
			r.AwaitLost(t, "b", false)
		})
	}
}

// The connection breaks, and the address refuses. But as long as a connection from the peer may deliver, its end is no news.
func TestLink_NewsWaitsForTheConnectionsOfThePeer(t *testing.T) {
	for _, row := range []struct {
		ends time.Duration // when the last connection of the peer has delivered all
		news bool
	}{{readersWait / 2, true}, {2 * readersWait, false}} {
		synctest.Test(t, func(t *testing.T) {
			n, l, r := connected(t, gone)
			l.readers.enter(bob)
			l.readers.enter(bob)
			l.readers.enter(raft.Peer{ID: "b", Incarnation: 2}) // another peer, which stays
			n.open.close(nil)
			r.AwaitLost(t, "b", false)
			time.Sleep(row.ends / 2)
			l.readers.leave(bob)
			time.Sleep(row.ends/2 - 1)
			if row.news {
				assert.Zero(t, r.Count())
			}
			l.readers.leave(bob)
			e := r.Await(t, "the next loss", func(e transporttest.Event) bool { return e.Kind == transporttest.EventLost })
			assert.Equal(t, row.news, e.Refused)
		})
	}
}

// A connection that begins while news of its peer is told delivers nothing before the news.
func TestReaders_NobodyEntersWhileNewsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r readers
		entered := make(chan struct{})
		assert.True(t, r.whenNone(t.Context(), bob, func() {
			go func() { r.enter(bob); close(entered) }()
			synctest.Wait()
			select {
			case <-entered:
				t.Error("it delivers before the news")
			default:
			}
			r.enter(alice)
			r.leave(alice)
		}))
		<-entered
		assert.False(t, r.whenNone(t.Context(), bob, func() { t.Error("a connection is open") }))
		r.leave(bob)
		assert.Empty(t, r.of)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.False(t, r.whenNone(ctx, bob, func() { t.Error("its contact was dropped") }))
	})
}

// Every connection breaks at once, for instance because two members break each other's connections.
func TestLink_ConnectionsThatBreakAtOnceAreNotRedialedAtFullSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{found: map[string]error{"x": nil}}
		l, r := linkerOn(n)
		defer l.close()
		began := time.Now()
		l.connect(bobAt("x"))
		const connections = 1000
		for range connections {
			r.AwaitUp(t, "b")
			n.open.close(nil)
			r.AwaitLost(t, "b", false)
		}
		assert.Greater(t, time.Since(began), connections/4*l.pauseMax)
	})
}

// A network resets the connection again and again. The pauses before the redials stay short, so that a leader behind the link
// is not silent for an election timeout.
func TestLink_ConnectionsThatLastLongerThanThePauseAreRedialedSoon(t *testing.T) {
	for _, lasts := range []time.Duration{500 * time.Millisecond, 20 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			n := &fakeNet{found: map[string]error{"x": nil}}
			l, r := linkerOn(n)
			l.pauseMin = 10 * time.Millisecond
			defer l.close()
			l.connect(bobAt("x"))
			for range 50 {
				broke := time.Now()
				r.AwaitUp(t, "b")
				assert.LessOrEqual(t, time.Since(broke), l.pauseMin)
				time.Sleep(lasts)
				n.open.close(nil)
				r.AwaitLost(t, "b", false)
			}
		})
	}
}

// Connections have begun to last: the next pause is the shortest again.
func TestLink_AConnectionThatLastedEndsTheLongPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{found: map[string]error{"x": nil}}
		l, r := linkerOn(n)
		l.pauseMin = 10 * time.Millisecond
		defer l.close()
		l.connect(bobAt("x"))
		for range 5 { // one redial at once, then pauses of up to 10, 20, 40 and 80 ms
			r.AwaitUp(t, "b")
			n.open.close(nil)
			r.AwaitLost(t, "b", false)
		}
		r.AwaitUp(t, "b")
		time.Sleep(700 * time.Millisecond) // less than pauseMax, so the next dial is not at once
		broke := time.Now()
		n.open.close(nil)
		r.AwaitLost(t, "b", false)
		r.AwaitUp(t, "b")
		assert.LessOrEqual(t, time.Since(broke), l.pauseMin)
	})
}
