// Package leaks finds what a test has left behind: goroutines of this module, and open files and sockets.
package leaks

import (
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	module = "github.com/coxswain/raft"
	// looksMax is how often Check looks without seeing an end of anything before the test fails: for 30 seconds, or longer on a
	// machine that is slow. Only a failing test waits so long.
	looksMax = 300
	// collectAfter is after how many looks the garbage is collected, which closes the files and connections that nobody uses. It
	// would do so at any time. So a test that a Close is not missing must count the calls of Close.
	collectAfter = 10
)

// checked holds the running tests that have called Check.
var checked sync.Map

// Check makes the test fail if it leaves something behind. It counts from its first call in the test, and ends after every
// cleanup that the test registers later. So it comes first in a function that all tests use, and tests may call it again.
// Tests that run at the same time cannot use it.
func Check(t testing.TB) {
	t.Helper()
	if _, again := checked.LoadOrStore(t, true); again {
		return
	}
	before := held()
	t.Cleanup(func() {
		checked.Delete(t)
		if left := since(before); len(left) > 0 && !t.Failed() {
			t.Errorf("the test has left behind:\n%s", strings.Join(left, "\n"))
		}
	})
}

// Main runs the tests of a package by m.Run, or by a function that calls it, and returns the exit code for TestMain. If the
// tests succeed but leave something behind, it prints that and returns 1.
func Main(run func() int) int {
	before := held()
	if code := run(); code != 0 {
		return code
	}
	if left := since(before); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "FAIL: the tests of this package have left behind:\n%s\n", strings.Join(left, "\n"))
		return 1
	}
	return 0
}

// since returns what is held now and was not held before. It waits until nothing is left, or nothing ends any more.
func since(before map[string]string) []string {
	least, pause := math.MaxInt, time.Millisecond
	for looks := 0; ; looks++ {
		left := held()
		maps.DeleteFunc(left, func(key, what string) bool { _, known := before[key]; return known || what == "" })
		if len(left) < least {
			least, looks = len(left), 0
		}
		if looks == collectAfter {
			runtime.GC()
		}
		if len(left) == 0 || looks == looksMax {
			return first(slices.Sorted(maps.Values(left)))
		}
		<-time.After(pause)
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// first returns at most 20 of the descriptions.
func first(left []string) []string {
	const most = 20
	if n := len(left); n > most {
		return append(left[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return left
}

// held returns all that this process holds. A key names one thing for as long as it is held, and the value describes it. The
// goroutines of others are held, too, without a description: one that sync.WaitGroup.Go has started does not look like ours
// until it has run.
func held() map[string]string {
	all := descriptors()
	buf := make([]byte, 1<<16)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	for _, stack := range strings.Split(string(buf), "\n\n")[1:] { // the first one is ours
		id := header.FindString(stack)
		if all[id] = ""; ours(stack) {
			all[id] = id + ": " + strings.Join(functions.FindAllString(stack, -1), ", in ")
		}
	}
	return all
}

var (
	header    = regexp.MustCompile(`^goroutine \d+`)
	functions = regexp.MustCompile(`(?m)^(` + module + `.*\)$|created by .*)`)
	byATest   = regexp.MustCompile(`created by (testing\.|testing/synctest\.|internal/synctest\.|os/signal\.)`)
)

// ours reports whether the goroutine runs code of this module, or was started by such code. The goroutines of tests are not
// counted, because the tests that surround a subtest wait for it.
func ours(stack string) bool {
	return strings.Contains(stack, module) && !strings.HasPrefix(stack, "goroutine 1 ") && !byATest.MatchString(stack)
}
