package transport

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// attempts is a dial function. Its attempts succeed after these times. All further attempts take the last of these times.
type attempts struct {
	take []time.Duration

	mu    sync.Mutex // each attempt runs in its own goroutine
	conns []*callerFrom
}

// begin returns the connection of the next attempt, and the attempt's duration.
func (a *attempts) begin() (*callerFrom, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	take := a.take[min(len(a.conns), len(a.take)-1)]
	a.conns = append(a.conns, &callerFrom{})
	return a.conns[len(a.conns)-1], take
}

func (a *attempts) dial(ctx context.Context, _ int) (net.Conn, error) {
	conn, take := a.begin()
	select {
	case <-time.After(take):
		return conn, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestHedged_ALostFirstPacketCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{take: []time.Duration{time.Second, time.Millisecond}}
		began := time.Now()
		conn, err := hedged(t.Context(), a.dial)
		require.NoError(t, err)
		assert.Same(t, a.conns[1], conn)
		assert.False(t, a.conns[1].closed)
		assert.Equal(t, dialAgain+time.Millisecond, time.Since(began))
	})
}

func TestHedged_OneAttemptIsEnoughIfItIsAnsweredSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{take: []time.Duration{dialAgain - 1}}
		_, err := hedged(t.Context(), a.dial)
		require.NoError(t, err)
		assert.Len(t, a.conns, 1)

		refused := errors.New("refused")
		began := time.Now()
		_, err = hedged(t.Context(), func(context.Context, int) (net.Conn, error) { return nil, refused })
		assert.Equal(t, refused, err)
		assert.Equal(t, began, time.Now())
	})
}

func TestHedged_AttemptsAreBoundedAndEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{take: []time.Duration{time.Hour}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := hedged(ctx, a.dial)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, a.conns, dialsMax)
	})
}

func TestHedged_AnAttemptThatComesTooLateIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{take: []time.Duration{2*dialAgain + 1}}
		conn, err := hedged(t.Context(), func(context.Context, int) (net.Conn, error) { // ignores its context
			c, take := a.begin()
			time.Sleep(take)
			return c, nil
		})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, a.conns, 3)
		assert.Same(t, a.conns[0], conn)
		assert.Equal(t, []bool{false, true, true}, []bool{a.conns[0].closed, a.conns[1].closed, a.conns[2].closed})
	})
}
