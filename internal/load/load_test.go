package load

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// answersAfter returns the operation of a system that answers each call after the same time. It runs inside a bubble.
func answersAfter(d time.Duration) func(context.Context, int) error {
	return func(context.Context, int) error {
		time.Sleep(d)
		return nil
	}
}

func TestLoad_AClosedLoopWaitsForEachAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Load{Callers: 4, Warmup: time.Second, Measure: 10 * time.Second, Do: answersAfter(9 * time.Millisecond)}
		r := l.Run(t.Context())
		assert.InDelta(t, 4*1000/9.0, r.PerSecond(), 1)
		assert.InEpsilon(t, 9e6, r.Latency.ValueAtQuantile(50), 0.001)
		assert.Equal(t, 10*time.Second, r.Took)
		assert.InDelta(t, 11*4*1000/9.0, l.Ended(), 8, "the warm-up counts here")
	})
}

func TestLoad_AClosedLoopOfSlowOperationsCountsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Load{Callers: 1, Measure: time.Second, Do: answersAfter(5 * time.Second)}
		r := l.Run(t.Context())
		assert.EqualValues(t, 1, r.Operations)
		assert.InDelta(t, 0.2, r.PerSecond(), 0.01)
	})
}

// If a system stops answering, the report must contain failures.
func TestLoad_AClosedLoopCountsWhatHadNoAnswerAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l := Load{Callers: 3, Measure: 4 * time.Second, Do: func(context.Context, int) error {
			if time.Since(began) < time.Second {
				time.Sleep(time.Millisecond)
				return nil
			}
			time.Sleep(10 * time.Second)
			return errors.New("no answer")
		}}
		r := l.Run(t.Context())
		assert.EqualValues(t, 3000, r.Operations)
		assert.EqualValues(t, 3, r.Failed)
	})
}

func TestLoad_AClosedLoopEndsAfterItsOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Load{Callers: 3, Operations: 100, Do: answersAfter(time.Millisecond)}
		r := l.Run(t.Context())
		assert.EqualValues(t, 100, r.Operations)
		assert.Equal(t, 34*time.Millisecond, r.Took)
	})
}

// A stall of one second delays all operations that are due in this second. A closed loop would count only one slow operation.
func TestLoad_AnOpenLoopCountsFromTheMomentEachWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l := Load{Callers: 1, Rate: 100, Measure: 10 * time.Second, Do: func(context.Context, int) error {
			if since := time.Since(began); since >= 5*time.Second && since < 6*time.Second {
				time.Sleep(6*time.Second - since)
			}
			return nil
		}}
		r := l.Run(t.Context())
		assert.EqualValues(t, 1000, r.Operations)
		assert.InEpsilon(t, 500e6, r.Latency.ValueAtQuantile(95), 0.05, "a tenth of them waited 500 ms on average")
		assert.InEpsilon(t, 1e9, r.Latency.Max(), 0.01)
	})
}

func TestLoad_TheLatencyShowsThatAnOpenLoopIsTooFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Load{Callers: 1, Rate: 200, Measure: 10 * time.Second, Do: answersAfter(10 * time.Millisecond)}
		r := l.Run(t.Context())
		assert.EqualValues(t, 2000, r.Operations, "all that were due")
		assert.InDelta(t, 100, r.PerSecond(), 1)
		assert.InEpsilon(t, 10e9, r.Latency.Max(), 0.01)
	})
}

func TestLoad_FailuresAreCountedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		l := Load{Callers: 2, Operations: 10, Do: func(_ context.Context, caller int) error {
			time.Sleep(time.Millisecond)
			if caller == 1 {
				return refused
			}
			return nil
		}}
		r := l.Run(t.Context())
		assert.EqualValues(t, 10, r.Operations+r.Failed)
		assert.Positive(t, r.Failed)
		assert.ErrorIs(t, r.Err, refused)
	})
}

func TestLoad_TheContextEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		for _, l := range []*Load{
			{Callers: 2, Measure: time.Hour, Do: answersAfter(time.Millisecond)},
			{Callers: 2, Measure: time.Hour, Rate: 10, Do: answersAfter(time.Millisecond)},
		} {
			l.Run(ctx)
		}
		assert.Less(t, time.Since(began), 2*time.Second)
	})
}
