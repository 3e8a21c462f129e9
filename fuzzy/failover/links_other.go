//go:build !linux

package failover

import (
	"context"
	"os/exec"

	"github.com/coxswain/raft/internal/testnet"
)

// links is a network that drops packets. There is none on this system.
type links struct{}

func openLinks() (*links, string) { return nil, "dropping packets needs Linux" }

// Treat does nothing.
func (*links) Treat(int, int, testnet.Link) {}

func (*links) heal() {}

func (*links) close() {}

// Separate returns nil: this system has no network namespaces.
func Separate(context.Context, Options) (*exec.Cmd, error) { return nil, nil }
