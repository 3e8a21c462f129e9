// Command raftlab runs clusters of the real core in simulated worlds of disasters: by the thousand, or one
// again from its seed.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/coxswain/raft/storage/storagetest/powercut"
)

// Runs make much garbage and keep little: memory is cheaper than collecting it often. Beyond the limit, it is
// collected as often as that takes. GOGC and GOMEMLIMIT in the environment say otherwise.
const (
	garbagePercent = 400
	memoryMax      = 4 << 30 // bytes
)

func main() {
	powercut.Main() // chaos starts this program again, to serve the disks
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
