// Command raftlab runs clusters of the real core in a simulated world full of faults. It runs thousands of seeds, or it
// replays one seed.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/coxswain/raft/storage/storagetest/powercut"
)

// A run produces much garbage and keeps little. Less frequent garbage collection therefore saves time, and costs memory.
// Above memoryMax, the runtime collects garbage as often as necessary. GOGC and GOMEMLIMIT in the environment override these
// values.
const (
	garbagePercent = 1600
	memoryMax      = 4 << 30 // bytes
)

func main() {
	powercut.Main() // chaos starts this program again as the server of the disks
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryMax)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
