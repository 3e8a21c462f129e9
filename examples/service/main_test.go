package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/testca"
	"github.com/coxswain/raft/rafttest"
)

func commands(all ...command) (texts [][]byte) {
	for _, c := range all {
		text, _ := json.Marshal(c)
		texts = append(texts, text)
	}
	return texts
}

func TestScores_AreAStateMachine(t *testing.T) {
	rafttest.CheckFSM(t, func() raft.FSM { return scores{} }, append(commands(
		command{Player: "ada", Points: 5}, command{Player: "bob", Points: -1}, command{Player: "ada", Remove: true}), []byte("no command")))
}

// Three members keep scores under faults: some crash, restart, and are restored from snapshots.
func TestScores_UnderFaults(t *testing.T) {
	rafttest.Simulate(t, 15, func() raft.FSM { return scores{} }, func(r *rand.Rand) []byte {
		return commands(command{Player: []string{"ada", "bob"}[r.IntN(2)], Points: r.IntN(5), Remove: r.IntN(4) == 0})[0]
	})
}

// service is three members, each a process.
type service struct {
	t                 *testing.T
	dir               string
	raft, http, admin [4]string // addresses by the number of the member
	running           [4]*local.Process
	clients           *http.Client
}

func newService(t *testing.T) *service {
	ports, ca := &local.Layout{}, testca.New(t)
	t.Cleanup(ports.Close)
	s := &service{t: t, dir: t.TempDir(), clients: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}, Timeout: 10 * time.Second}}
	t.Cleanup(s.clients.CloseIdleConnections)
	for n := 1; n <= 3; n++ {
		ca.Files(t, s.dir, "scores", raft.NodeID("n"+strconv.Itoa(n)))
		for _, addr := range []*string{&s.raft[n], &s.http[n], &s.admin[n]} {
			var err error
			*addr, err = ports.Reserve()
			require.NoError(t, err)
		}
	}
	t.Cleanup(func() {
		for n := 1; n <= 3 && t.Failed(); n++ {
			t.Logf("the log of n%d:\n%s", n, s.log(n))
		}
	})
	return s
}

func (s *service) log(n int) string {
	text, err := os.ReadFile(filepath.Join(s.dir, fmt.Sprintf("n%d.log", n)))
	require.NoError(s.t, err)
	return string(text)
}

func (s *service) start(program string, n int) {
	s.t.Helper()
	name := fmt.Sprintf("n%d", n)
	p, err := local.StartProcess(program, []string{"-id", name, "-dir", filepath.Join(s.dir, name), "-raft", s.raft[n], "-http", s.http[n],
		"-admin", s.admin[n], "-seeds", strings.Join(s.raft[1:], ","), "-certs", s.dir}, filepath.Join(s.dir, name+".log"))
	require.NoError(s.t, err)
	s.t.Cleanup(p.Kill)
	s.running[n] = p
}

// stop ends a member as systemd does.
func (s *service) stop(n int) {
	s.t.Helper()
	require.NoError(s.t, syscall.Kill(s.running[n].PID(), syscall.SIGTERM))
	require.NoError(s.t, s.running[n].Err(), "it ends well")
}

// ask sends a request, and returns the text and the status of the answer.
func (s *service) ask(ctx context.Context, method, addr, path string) (string, int, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, nil)
	require.NoError(s.t, err)
	response, err := s.clients.Do(request)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return strings.TrimSpace(string(text)), response.StatusCode, err
}

func (s *service) ready(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		_, status, err := s.ask(s.t.Context(), http.MethodGet, s.admin[n], "/readyz")
		return err == nil && status == http.StatusOK
	}, time.Minute, 10*time.Millisecond)
}

// load is clients that add a point to one player each, through all members.
type load struct {
	*service
	stop                context.CancelFunc
	done                sync.WaitGroup
	asked, acknowledged [4]atomic.Int64 // by player
	refused             sync.Map        // answers that are no success, and whose outcome is known
}

func (s *service) load() *load {
	ctx, stop := context.WithCancel(s.t.Context())
	l := &load{service: s, stop: stop}
	for player := range l.asked {
		l.done.Go(func() {
			for ctx.Err() == nil {
				l.asked[player].Add(1)
				_, err := l.add(player, s.http[1+rand.IntN(3)])
				if err == nil {
					l.acknowledged[player].Add(1)
				}
			}
		})
	}
	return l
}

// add adds a point. It does not try again, because another attempt would count twice if the outcome is unknown.
func (l *load) add(player int, through string) (string, error) {
	text, status, err := l.ask(l.t.Context(), http.MethodPost, through, fmt.Sprintf("/scores/player%d?points=1", player))
	if err == nil && status != http.StatusOK {
		err = errors.New(text)
		l.refused.Store(text, status)
	}
	return text, err
}

// more waits until 50 more points were acknowledged.
func (l *load) more() {
	l.t.Helper()
	sum := func() (sum int64) {
		for player := range l.acknowledged {
			sum += l.acknowledged[player].Load()
		}
		return sum
	}
	until := sum() + 50
	require.Eventually(l.t, func() bool { return sum() >= until }, time.Minute, 5*time.Millisecond)
}

// check compares what each member has with what clients were told. Nothing that was acknowledged is missing, and nothing is there
// that nobody asked for.
func (l *load) check() {
	l.stop()
	l.done.Wait()
	for n := 1; n <= 3; n++ {
		for player := range l.asked {
			for _, read := range []string{"", "?read=lease", "?read=stale"} {
				require.EventuallyWithT(l.t, func(t *assert.CollectT) {
					text, _, err := l.ask(l.t.Context(), http.MethodGet, l.http[n], fmt.Sprintf("/scores/player%d%s", player, read))
					require.NoError(t, err)
					total, err := strconv.ParseInt(text, 10, 64)
					require.NoError(t, err, text)
					assert.GreaterOrEqual(t, total, l.acknowledged[player].Load())
					assert.LessOrEqual(t, total, l.asked[player].Load())
				}, time.Minute, 10*time.Millisecond)
			}
		}
	}
}

// build builds the first release of the tutorial.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range release(t, false) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, args := range []string{"mod init example.com/scores", "mod edit -replace github.com/coxswain/raft=" + root, "get .", "build -o v1"} {
		cmd := exec.CommandContext(t.Context(), "go", strings.Fields(args)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOWORK=off", "GOFLAGS=-ldflags=-w")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return filepath.Join(dir, "v1")
}

// Under load, the members are upgraded one after another, and then killed one after another: no member refuses a write during the
// upgrade, none that was acknowledged is lost, and the new command is refused until all know it.
func TestService_UpgradesAndCrashesUnderLoad(t *testing.T) {
	t.Parallel()
	former, s := build(t), newService(t)
	for n := 1; n <= 3; n++ {
		s.start(former, n)
	}
	for n := 1; n <= 3; n++ {
		s.ready(n)
	}
	l := s.load()
	l.more()
	for n := 1; n <= 3; n++ {
		s.stop(n)
		l.more()
		s.start(os.Args[0], n)
		s.ready(n)
		l.more()
		_, status, err := s.ask(t.Context(), http.MethodDelete, s.http[n], "/scores/nobody")
		require.NoError(t, err)
		if n < 3 {
			assert.NotEqual(t, http.StatusOK, status, "version 1 does not know the command")
		}
	}
	l.refused.Range(func(text, _ any) bool { return l.wokeLate() || assert.Fail(t, "refused during the upgrade", text) })
	require.Eventually(t, func() bool {
		_, status, err := s.ask(t.Context(), http.MethodDelete, s.http[1], "/scores/nobody")
		return err == nil && status == http.StatusOK
	}, time.Minute, 10*time.Millisecond)

	s.stop(3)
	s.start(former, 3)
	require.Error(t, s.running[3].Err())
	assert.Regexp(t, `version 2.*version 1|version 1.*version 2`, s.log(3), "it says why it does not start")
	s.start(os.Args[0], 3)
	s.ready(3)
	for n := 1; n <= 3; n++ {
		s.running[n].Kill()
		l.more()
		s.start(os.Args[0], n)
		s.ready(n)
		l.more()
	}
	l.check()
	testBadInput(t, s)
	testMetrics(t, s)
}

// wokeLate reports that the machine let a member wait for so long that it may have lost its leader.
func (s *service) wokeLate() bool {
	return strings.Contains(s.log(1)+s.log(2)+s.log(3), "the node woke late")
}

// Every refusal says what is wrong and what to do, and changes nothing.
func testBadInput(t *testing.T, s *service) {
	for _, row := range []struct {
		method, addr, path string
		want               admin.Code
	}{
		{"POST", s.http[1], "/scores/ada", admin.BadRequest},
		{"POST", s.http[1], "/scores/ada?points=many", admin.BadRequest},
		{"POST", s.http[1], "/scores/ada?points=99999999999999999999", admin.BadRequest},
		{"GET", s.http[1], "/scores/ada?read=fast", admin.BadRequest},
	} {
		text, _, err := s.ask(t.Context(), row.method, row.addr, row.path)
		require.NoError(t, err)
		var answer admin.Error
		require.NoError(t, json.Unmarshal([]byte(text), &answer), text)
		assert.Equal(t, row.want, answer.Code, row.path)
		assert.NotEmpty(t, answer.Remedy, row.path)
	}
	text, _, err := s.ask(t.Context(), http.MethodGet, s.http[2], "/scores/ada")
	require.NoError(t, err)
	assert.Equal(t, "0", text)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.admin[1]+"/backup", nil)
	require.NoError(t, err)
	request.Host = "example.com" // as a page does that has given its own name the address of the member
	response, err := s.clients.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	refusal, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Contains(t, string(refusal), admin.WrongHost)
}

// A member exports every metric that the alerts and the dashboard use, and has a page for people.
func testMetrics(t *testing.T, s *service) {
	page, status, err := s.ask(t.Context(), http.MethodGet, s.admin[1], admin.LivePath)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	assert.Contains(t, page, "<html")
	exported, _, err := s.ask(t.Context(), http.MethodGet, s.admin[1], "/metrics")
	require.NoError(t, err)
	for _, file := range []string{"../../docs/alerts.yaml", "../../docs/dashboard.json"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		names := regexp.MustCompile(`\braft_[a-z_]+`).FindAllString(string(text), -1)
		assert.NotEmpty(t, names, file)
		for _, name := range names {
			assert.Regexp(t, `(?m)^`+name+`[ {]`, exported, file)
		}
	}
}
