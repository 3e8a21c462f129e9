package failover

import (
	"context"
	"os"
	"os/exec"
	"syscall"

	"github.com/coxswain/raft/internal/testnet"
)

// insideVariable is set in a process that has a network namespace of its own.
const insideVariable = "RAFTLAB_FAILOVER_INSIDE"

// links is a network that drops packets.
type links struct{ *testnet.Net }

// openLinks opens the network. Its reason says why there is none.
func openLinks() (_ *links, reason string) {
	if os.Getenv(insideVariable) == "" {
		return nil, "dropping packets needs a network namespace, and that needs root"
	}
	n, err := testnet.Open()
	if err != nil {
		return nil, err.Error()
	}
	return &links{n}, ""
}

// heal ends all that was done to the packets. l may be nil.
func (l *links) heal() {
	if l == nil {
		return
	}
	for from := range testnet.MembersMax {
		for to := range testnet.MembersMax {
			l.Treat(from, to, testnet.Link{})
		}
	}
}

func (l *links) close() {
	if l != nil {
		_ = l.Close() // the namespace ends with this process
	}
}

// Separate returns a command that runs this program again, with the same arguments, in a network namespace of its own. It
// returns nil if this process is in one already, or may not create one.
func Separate(ctx context.Context, o Options) (*exec.Cmd, error) {
	if !o.DropsPackets() || os.Getenv(insideVariable) != "" || os.Geteuid() != 0 {
		return nil, nil
	}
	if _, err := o.program(); err != nil { // building it there may fail for want of a network
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, program, os.Args[1:]...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // so that it removes what it has made
	c.Env = append(os.Environ(), insideVariable+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	return c, nil
}
