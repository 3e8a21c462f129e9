package leaks

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

// CheckTimers makes a test in a testing/synctest bubble fail if timers are left at its end that call a function, like those of
// time.AfterFunc and context.WithTimeout. It comes first in the bubble. It lets an hour pass after every cleanup that the test
// registers later, and counts the goroutines that begin in that hour.
func CheckTimers(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		runtime.GC() // the first one starts goroutines of the runtime
		before := started()
		<-time.After(time.Hour)
		if n := started() - before; n > 0 && !t.Failed() {
			t.Errorf("the test has left behind %d timers", n)
		}
	})
}

// started returns how many goroutines this process has started. It returns 0 in releases of Go before 1.26, which do not count.
func started() uint64 {
	sample := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
