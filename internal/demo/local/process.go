// Package local runs members of the demo store as processes on this machine, for the demo on a terminal, for the
// end-to-end tests and for the harness in fuzzy/processes.
package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"
)

// logBytesMax bounds a member's log file. If the file is larger, the next start truncates it.
const logBytesMax = 16 << 20

// ErrNoFreeze is returned on systems that cannot stop a process and continue it later.
var ErrNoFreeze = errors.New("freezing a process is not available on this system")

// Process is a child process. It ends when this process ends for any reason, because it watches the pipe that is its standard
// input. On Linux the kernel also kills it, even if it is frozen. Its methods may be called from any goroutine.
type Process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	frozen atomic.Bool
	cut    atomic.Bool
	done   chan struct{}
	err    error // result of Wait; read after done
}

// StartProcess starts the program and appends its output to the log file.
func StartProcess(program string, args []string, logFile string) (*Process, error) {
	log, err := openLog(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own descriptor
	p := &Process{cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = detached()
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the process and waits for it on the same thread, because the kernel kills the process when the thread that
// started it ends.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
	}
}

func openLog(name string) (*os.File, error) {
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if info, err := os.Stat(name); err == nil && info.Size() > logBytesMax {
		flags |= os.O_TRUNC
	}
	return os.OpenFile(name, flags, 0o600)
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process was started and has not ended.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Err returns the error with which the process ended. Call it after Done.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Frozen reports whether Freeze has stopped the process.
func (p *Process) Frozen() bool { return p.frozen.Load() }

// Kill kills the process, with SIGKILL on Unix, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.done
}

// Freeze pauses the process with SIGSTOP.
func (p *Process) Freeze() error {
	if err := freeze(p.cmd.Process); err != nil {
		return err
	}
	p.frozen.Store(true)
	return nil
}

// Resume continues a frozen process.
func (p *Process) Resume() error {
	if err := resume(p.cmd.Process); err != nil {
		return err
	}
	p.frozen.Store(false)
	return nil
}

// Stop asks the process to end. If the process has not ended after the given time, Stop kills it.
func (p *Process) Stop(within time.Duration) {
	if p.Frozen() {
		_ = p.Resume() // fails only if it has ended already
	}
	_ = p.stdin.Close() // as above
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
}

// The commands that a process gets from its parent, one a line.
const (
	cutCommand    = "cut"
	repairCommand = "repair"
)

// Cut cuts the process off from the other members, or ends that. The process must have been started with --stop-with-stdin --can-be-cut.
func (p *Process) Cut(cut bool) error {
	command := repairCommand
	if cut {
		command = cutCommand
	}
	if _, err := io.WriteString(p.stdin, command+"\n"); err != nil {
		return err
	}
	p.cut.Store(cut)
	return nil
}

// IsCut reports whether Cut has cut the process off.
func (p *Process) IsCut() bool { return p.cut.Load() }

// UntilInputEnds returns a context that ends when the input ends. The child uses it with the pipe from its parent. It calls cut
// for the commands of Cut.
func UntilInputEnds(ctx context.Context, in io.Reader, cut func(bool)) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			switch lines.Text() {
			case cutCommand:
				cut(true)
			case repairCommand:
				cut(false)
			}
		}
		cancel(fmt.Errorf("the parent process has ended (%v)", lines.Err()))
	}()
	return ctx
}
