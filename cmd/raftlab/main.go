// Command raftlab runs clusters of the real core in simulated worlds of disasters: by the thousand, or one
// again from its seed.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/coxswain/raft/storage/storagetest/powercut"
)

func main() {
	powercut.Main() // chaos starts this program again, to serve the disks
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
