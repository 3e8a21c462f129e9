// Command raftctl looks into the data directory of a stopped member: what the store holds, the entries of its log, and whether
// its bytes are sound. It works on the directory of every program that keeps its data with package storage.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends the process even while it waits for its input
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
