package apart

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/coxswain/raft/internal/built"
)

// impossibleCode is the exit code of the process in the new namespaces if it may not do there what it needs.
const impossibleCode = 75

// Run runs this program again in new namespaces, where it may build networks and mount without touching those of this machine.
// All that it builds there ends with it. The program's main function calls Main, which takes the other path there.
func Run(out io.Writer) error {
	if _, err := exec.LookPath("ip"); err != nil {
		return &ImpossibleError{"the command ip is not installed (Debian: iproute2)"}
	}
	if _, err := built.Raftkv(); err != nil {
		return err
	}
	defer built.Remove()
	dir, err := os.MkdirTemp("", "apart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt) // it ends the other process, and then this one
	defer signal.Stop(interrupted)
	program := exec.Command("/proc/self/exe")
	program.Env = append(os.Environ(), insideVariable+"="+dir)
	program.Stdout, program.Stderr = out, out
	program.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		program.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		program.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		program.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if err := program.Start(); err != nil {
		return &ImpossibleError{"no network namespace: " + err.Error()}
	}
	if err = program.Wait(); program.ProcessState.ExitCode() == impossibleCode {
		return &ImpossibleError{"see above"}
	}
	return err
}

// Main is the main function of a program that Run runs. In the new namespaces, it calls body with a directory for files.
func Main(body func(dir string) error) {
	if dir := os.Getenv(insideVariable); dir != "" {
		end(body(dir))
	}
	end(Run(os.Stdout))
}

// end ends the process.
func end(err error) {
	var impossible *ImpossibleError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &impossible) && Inside():
		say(err)
		os.Exit(impossibleCode)
	case errors.As(err, &impossible):
		say("skipped:", err)
		os.Exit(0)
	}
	say(err)
	os.Exit(1)
}
