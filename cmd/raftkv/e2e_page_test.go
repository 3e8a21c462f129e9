package main_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// page runs the commands of docs/membership.md literally, but in a new directory and on free ports.
type page struct {
	t         *testing.T
	dir       string
	blocks    [][]string        // blocks of commands
	ports     map[string]string // port on the page -> port in the test
	processes map[string]*local.Process
}

func openPage(t *testing.T) *page {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are for a shell")
	}
	text, err := os.ReadFile("../../docs/membership.md")
	require.NoError(t, err)
	p := &page{t: t, dir: t.TempDir(), ports: map[string]string{}, processes: map[string]*local.Process{}}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		commands := strings.ReplaceAll(block[1], "\\\n", " ")
		p.blocks = append(p.blocks, strings.Split(strings.TrimSpace(commands), "\n"))
	}
	layout, err := local.OpenLayout(t.TempDir(), local.NodesMax, nil)
	require.NoError(t, err)
	t.Cleanup(layout.Close)
	for i, n := range layout.Nodes {
		for on, here := range map[string]string{"5%d": n.RaftAddr, "4%d": n.HTTPAddr} {
			series, number := 101, i
			if i > 3 {
				series, number = 201, i-4
			}
			p.ports[fmt.Sprintf("127.0.0.1:"+on, series+number)] = here
		}
	}
	t.Cleanup(func() {
		for id, process := range p.processes {
			process.Kill()
			if text, err := os.ReadFile(p.log(id)); err == nil && t.Failed() {
				t.Logf("the log of %s:\n%s", id, text)
			}
		}
	})
	return p
}

func (p *page) log(id string) string { return filepath.Join(p.dir, id+".log") }

// here replaces the ports in a text of the page with the ports of the test.
func (p *page) here(text string) string {
	return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllStringFunc(text, func(address string) string {
		require.Contains(p.t, p.ports, address, "the page uses a port that the test does not know")
		return p.ports[address]
	})
}

// run runs a command of the page, and returns its output.
func (p *page) run(line string) string {
	p.t.Helper()
	words := strings.Fields(p.here(line))
	require.Equal(p.t, "raftkv", words[0], line)
	if words[1] == "serve" {
		p.serve(words[1:])
		return ""
	}
	cmd := exec.CommandContext(p.t.Context(), program, words[1:]...)
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	p.t.Logf("$ %s\n%s", strings.Join(words, " "), out)
	require.NoError(p.t, err, line)
	return string(out)
}

// serve starts a member in the background, like the & on the page.
func (p *page) serve(words []string) {
	p.t.Helper()
	words = strings.Fields(strings.TrimSuffix(strings.Join(words, " "), "&"))
	args := append(words[:1:1], "--stop-with-stdin")
	id := ""
	for i, word := range words[1:] {
		switch words[i] {
		case "--id":
			id = word
		case "--data":
			word = filepath.Join(p.dir, word)
		}
		args = append(args, word)
	}
	if before := p.processes[id]; before != nil {
		before.Kill()
	}
	process, err := local.StartProcess(program, args, p.log(id))
	require.NoError(p.t, err)
	p.processes[id] = process
}

// voters waits until the servers report these voters. One of the servers must answer.
func (p *page) voters(server string, want ...string) {
	p.t.Helper()
	l := client.NewLookout([]string{p.here(server)})
	defer l.Close()
	require.Eventually(p.t, func() bool {
		now, err := l.Look(p.t.Context())
		return err == nil && now.Change == nil && assert.ObjectsAreEqual(want, now.Voters())
	}, patience, poll, "voters %v", want)
}

// ended waits until the process of a member has ended with this exit code.
func (p *page) ended(id string, code int) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	select {
	case <-p.processes[id].Done():
	case <-ctx.Done():
		require.Fail(p.t, id+" does not end")
	}
	var exit *exec.ExitError
	require.ErrorAs(p.t, p.processes[id].Err(), &exit)
	require.Equal(p.t, code, exit.ExitCode())
}

// On the page, a cluster of one member grows to three members. It then replaces a lost disk, moves all members at once, and
// shrinks to one member again.
func TestEndToEnd_ThePageOfMembershipSaysWhatIsTrue(t *testing.T) {
	t.Parallel()
	p := openPage(t)
	const n1 = "http://127.0.0.1:4101"
	require.Len(t, p.blocks, 5, "a block of commands was added to docs/membership.md: run it here")
	drain, grow, replace, move, shrink := p.blocks[0], p.blocks[1], p.blocks[2], p.blocks[3], p.blocks[4]

	for i, line := range grow {
		if i == 3 { // this block shows a state that is reached only once the members have joined
			p.voters(n1, "n1", "n2", "n3")
		}
		out := p.run(line)
		if i == 0 {
			p.voters(n1, "n1")
		}
		if i == 3 {
			assert.Contains(t, out, p.here("n3  voter  127.0.0.1:5103  http://127.0.0.1:4103"))
		}
	}
	p.run("raftkv put color blue --server " + n1)

	p.processes["n3"].Kill() // as if the machine were lost
	require.NoError(t, os.RemoveAll(filepath.Join(p.dir, "n3")))
	for _, line := range replace {
		p.run(line)
	}
	p.voters(n1, "n1", "n2", "n3")

	for i, line := range drain {
		assert.Contains(t, p.run(line), []string{"n3 can be stopped", "n3"}[i])
	}

	for _, process := range p.processes {
		process.Kill()
	}
	for _, line := range move {
		p.run(line)
	}
	const moved = "http://127.0.0.1:4201"
	p.shows(moved, "127.0.0.1:5201", "127.0.0.1:5202", "127.0.0.1:5203")
	assert.Equal(t, "blue", p.run("raftkv get color --server "+moved))

	for i, line := range shrink {
		assert.Contains(t, p.run(line), "done: configuration ")
		p.ended([]string{"n3", "n2"}[i], 9)
	}
	p.voters(moved, "n1")
	assert.Equal(t, "blue", p.run("raftkv get color --server "+moved))
}

// shows waits until "raftkv members" shows these addresses.
func (p *page) shows(server string, addresses ...string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
		defer cancel()
		out, _ := exec.CommandContext(ctx, program, "members", "--server", p.here(server)).Output()
		for _, address := range addresses {
			if !bytes.Contains(out, []byte(p.here(address))) {
				return false
			}
		}
		return true
	}, patience, 100*time.Millisecond, "%s: %v", server, addresses)
}
