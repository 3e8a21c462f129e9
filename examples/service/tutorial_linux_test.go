package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/demo/local"
)

// terminal is a shell in which the commands of the tutorial run, one block after another.
type terminal struct {
	t      *testing.T
	dir    string
	in     io.Writer
	status *bufio.Scanner
}

// open starts the shell. When the test ends for any reason, the pipe that the first line reads ends, and with it all that the shell
// has started.
func open(t *testing.T) *terminal {
	t.Helper()
	alive, end, err := os.Pipe()
	require.NoError(t, err)
	defer alive.Close()
	s := &terminal{t: t, dir: t.TempDir()}
	cmd := exec.Command("bash", "-c", `(cat <&3; kill -9 0) & exec bash 3<&-`)
	cmd.Dir, cmd.ExtraFiles = s.dir, []*os.File{alive}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOWORK=off", "GOFLAGS=-ldflags=-w")
	s.in, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	s.status = bufio.NewScanner(out)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = end.Close()
		_ = cmd.Wait() // killed
	})
	return s
}

// run runs commands, and returns what they print.
func (s *terminal) run(commands string) string {
	s.t.Helper()
	script, output := filepath.Join(s.dir, "commands.sh"), filepath.Join(s.dir, "output")
	require.NoError(s.t, os.WriteFile(script, []byte(commands), 0o600))
	_, err := fmt.Fprintf(s.in, ". %s >%s 2>&1; echo $?\n", script, output)
	require.NoError(s.t, err)
	require.True(s.t, s.status.Scan(), "the shell has ended")
	text, err := os.ReadFile(output)
	require.NoError(s.t, err)
	require.Equal(s.t, "0", s.status.Text(), "%s\n%s", commands, text)
	return killed.ReplaceAllString(string(text), "")
}

// killed is what a shell reports of a background process. The tutorial says so once.
var killed = regexp.MustCompile(`(?m)^.*: line \d+: +\d+ Killed .*\n`)

var port = regexp.MustCompile(`127\.0\.0\.1:([789]00(?:\$\w+|[1-3]))`)

// elsewhere returns commands with free ports in place of those of the tutorial: ${P[700$n]} is the one for 700$n.
func elsewhere(commands string) string { return port.ReplaceAllString(commands, "127.0.0.1:$${P[$1]}") }

// reserve chooses the ports, and holds them until the test ends.
func (s *terminal) reserve() {
	s.t.Helper()
	held := &local.Layout{}
	s.t.Cleanup(held.Close)
	chosen := "declare -A P=("
	for _, kind := range []int{7000, 8000, 9000} {
		for n := 1; n <= 3; n++ {
			addr, err := held.Reserve()
			require.NoError(s.t, err)
			_, free, err := net.SplitHostPort(addr)
			require.NoError(s.t, err)
			chosen += fmt.Sprintf("[%d]=%s ", kind+n, free)
		}
	}
	s.run(chosen + ")\ncurl() { command curl --no-progress-meter \"$@\"; }") // which shows no progress in a terminal either
}

// The whole tutorial, with real processes: every block is run, and prints what the page says. Only the ports are others, and this
// checkout is the library.
func TestTutorial_RunsAsItIsWritten(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed here, which the tutorial needs", program)
		}
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	s := open(t)
	s.reserve()
	files, dir := map[string]string{}, filepath.Join(s.dir, "scores")
	for _, step := range steps(t) {
		if step.file != "" {
			step.apply(t, files)
			require.NoError(t, os.WriteFile(filepath.Join(dir, step.file), []byte(elsewhere(files[step.file])), 0o600))
			continue
		}
		require.Equal(t, "sh", step.kind, step.at)
		commands, want := step.expected()
		commands = strings.Replace(commands, "go get github", "go mod edit -replace github.com/coxswain/raft="+root+"\ngo get github", 1)
		began := time.Now()
		got := s.run(elsewhere(commands))
		t.Logf("%s took %v", step.at, time.Since(began).Round(time.Millisecond))
		if len(want) == 0 || agrees(want, got) {
			continue
		}
		logs, _ := exec.Command("sh", "-c", "tail -n 20 "+dir+"/*.log").CombinedOutput()
		if strings.Contains(string(logs), "the node woke late") {
			t.Skipf("the machine was too busy: %s prints\n%s", step.at, got)
		}
		require.Equal(t, strings.Join(want, "\n")+"\n", got, "%s prints something else; the logs end:\n%s", step.at, logs)
	}
}
