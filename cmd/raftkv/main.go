// Command raftkv is the demo store of the library: a small replicated key-value store with an HTTP
// interface, and a demo that runs three of it on one machine and breaks them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/coxswain/raft/cmd/raftkv/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
