package main_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/testca"
)

// doctor asks these members, or all.
func (c cluster) doctor(ids ...string) *admin.Diagnosis {
	c.t.Helper()
	shared := client.NewHTTP(1, time.Second)
	defer shared.CloseIdleConnections()
	return admin.Diagnose(c.t.Context(), c.urls(ids...), admin.Asking(shared))
}

func (c cluster) urls(ids ...string) (urls []string) {
	for _, n := range c.Nodes {
		if len(ids) == 0 || slices.Contains(ids, n.ID) {
			urls = append(urls, n.URL())
		}
	}
	return urls
}

// diagnosed waits until the first verdict is this one. A wrong verdict must pass: it is of the moment of the break.
func (c cluster) diagnosed(verdict string, ids ...string) (d *admin.Diagnosis) {
	c.t.Helper()
	if !assert.Eventually(c.t, func() bool { d = c.doctor(ids...); return d.Verdict == verdict }, c.patience, poll, verdict) {
		for _, f := range d.Findings {
			c.t.Logf("%+v", f)
		}
		c.t.FailNow()
	}
	return d
}

// serving starts the cluster, and waits until the doctor finds nothing, or nothing but notices.
func (c cluster) serving() (leader local.Node) {
	c.t.Helper()
	require.NoError(c.t, c.Start())
	leader = c.leader("")
	c.write()
	require.Eventually(c.t, func() bool {
		d := c.doctor()
		return d.Severity != "outage" && d.Severity != "degraded"
	}, c.patience, poll, "the doctor finds nothing")
	return leader
}

// run runs raftkv, and returns its exit code and its output.
func (c cluster) run(args ...string) (code int, out string) {
	c.t.Helper()
	var stdout bytes.Buffer
	command := exec.CommandContext(c.t.Context(), program, args...)
	command.Stdout = &stdout
	err := command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code, err = exit.ExitCode(), nil
	}
	require.NoError(c.t, err)
	return code, stdout.String()
}

// doctorBreaks break a cluster of real processes. Each returns the members to ask; none: all.
var doctorBreaks = []struct {
	verdict string
	harm    func(c cluster) (ask []string)
}{
	{"not begun", func(c cluster) []string {
		require.NoError(c.t, c.Start("n1", "n2"))
		return nil
	}},
	{"no quorum", func(c cluster) []string {
		leader := c.serving()
		c.Kill(c.others(leader.ID)[0].ID, leader.ID)
		return nil
	}},
	{"majority lost", func(c cluster) []string {
		c.serving()
		c.Kill("n2", "n3")
		for _, id := range []string{"n2", "n3"} {
			require.NoError(c.t, os.RemoveAll(c.DataDir(id)))
			require.NoError(c.t, c.Start(id))
		}
		return nil
	}},
	{"not connected", func(c cluster) []string {
		leader := c.serving()
		c.Kill(c.others(leader.ID)[0].ID)
		return []string{leader.ID} // it names the others
	}},
	{"emptied disk", func(c cluster) []string {
		gone := c.others(c.serving().ID)[0].ID
		c.Kill(gone)
		require.NoError(c.t, os.RemoveAll(c.DataDir(gone)))
		require.NoError(c.t, c.Start(gone))
		return nil
	}},
	{"older image", func(c cluster) []string {
		old := c.others(c.serving().ID)[0]
		c.Kill(old.ID)
		image := filepath.Join(c.t.TempDir(), "image")
		require.NoError(c.t, os.CopyFS(image, os.DirFS(c.DataDir(old.ID))))
		require.NoError(c.t, c.Start(old.ID))
		c.caughtUp()
		c.Kill(old.ID)
		require.NoError(c.t, os.RemoveAll(c.DataDir(old.ID)))
		require.NoError(c.t, os.CopyFS(c.DataDir(old.ID), os.DirFS(image)))
		require.NoError(c.t, c.Start(old.ID))
		return nil
	}},
	{"address changed", func(c cluster) []string {
		moved := c.others(c.serving().ID)[0]
		c.Kill(moved.ID)
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(c.t, err)
		require.NoError(c.t, free.Close())
		c.startWith(moved, func(args []string) []string {
			return replaced(args, "--raft-addr", func(string) string { return free.Addr().String() })
		})
		return nil
	}},
	{"two clusters", func(c cluster) []string {
		c.serving()
		other := newCluster(c.t)
		other.serving()
		for i := range c.Nodes { // an operator mixes up addresses
			if i == 2 {
				c.Nodes[i].HTTPAddr = other.Nodes[i].HTTPAddr
			}
		}
		return nil
	}},
	{"settings differ", func(c cluster) []string {
		c.More = func(n local.Node) []string {
			if n.ID == "n2" {
				return []string{"--election-timeout", "300ms"}
			}
			return nil
		}
		c.serving()
		return nil
	}},
	{"certificate ends", func(c cluster) []string {
		c.withCertificates(map[string]time.Time{"n2": time.Now().AddDate(0, 0, 9)})
		c.serving()
		return nil
	}},
	{"certificate refused", func(c cluster) []string {
		dir := c.withCertificates(nil)
		stranger := c.others(c.serving().ID)[0]
		c.Kill(stranger.ID)
		c.certify(dir, stranger.ID, testca.New(c.t), time.Now().AddDate(5, 0, 0))
		require.NoError(c.t, c.Start(stranger.ID))
		return nil
	}},
	{"certificate not used", func(c cluster) []string {
		dir := c.withCertificates(nil)
		c.serving()
		require.NoError(c.t, os.WriteFile(filepath.Join(dir, "n1.pem"), []byte("no certificate"), 0o600))
		return nil
	}},
	{"no answer", func(c cluster) []string {
		c.More = func(n local.Node) []string {
			if n.ID == "n3" { // nobody serves there
				return []string{"--url", "http://127.0.0.1:1"}
			}
			return nil
		}
		require.NoError(c.t, c.Start())
		return []string{"n1"}
	}},
	{"link cut", func(c cluster) []string {
		cut := c.throughLinks("n1", "n3")
		c.serving()
		cut()
		return nil
	}},
}

// startWith starts a process of a member with changed arguments. It ends with the test.
func (c cluster) startWith(n local.Node, change func([]string) []string) {
	c.t.Helper()
	startApart(c.t, change(c.ServeArgs(n)))
}

// withCertificates gives the members certificates, some of which end at these times. It returns the directory.
func (c *cluster) withCertificates(until map[string]time.Time) (dir string) {
	ours, dir := testca.New(c.t), c.t.TempDir()
	for _, n := range c.Nodes {
		end, ends := until[n.ID]
		if !ends {
			end = time.Now().AddDate(5, 0, 0)
		}
		c.certify(dir, n.ID, ours, end)
	}
	c.More = func(n local.Node) []string {
		at := filepath.Join(dir, n.ID)
		return []string{"--tls-ca", at + ".ca", "--tls-cert", at + ".pem", "--tls-key", at + ".key"}
	}
	return dir
}

// certify writes the files of a member's certificate.
func (c cluster) certify(dir, id string, by *testca.Authority, until time.Time) {
	pair := by.Issue(c.t, "demo", raft.NodeID(id), until)
	for name, data := range map[string][]byte{".ca": testca.PEM(by), ".pem": pair.Certificate, ".key": pair.Key} {
		require.NoError(c.t, os.WriteFile(filepath.Join(dir, id+name), data, 0o600))
	}
}

// throughLinks makes two members dial each other through links, which cut makes swallow everything.
func (c cluster) throughLinks(one, other string) (cut func()) {
	var links []*link
	via := map[string][]string{}
	for _, n := range c.Nodes {
		for from, to := range map[string]string{one: other, other: one} {
			if n.ID == to {
				l := newLink(c.t, n.RaftAddr)
				links = append(links, l)
				via[from] = []string{"--via", to + "=" + l.listener.Addr().String()}
			}
		}
	}
	c.More = func(n local.Node) []string { return via[n.ID] }
	return func() {
		for _, l := range links {
			l.cut()
		}
	}
}

// link passes connections on to an address. Once it is cut, it passes on no byte, like a firewall that drops packets.
type link struct {
	listener net.Listener
	to       string
	dead     chan struct{}
	once     sync.Once
	all      sync.WaitGroup
}

func newLink(t *testing.T, to string) *link {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &link{listener: listener, to: to, dead: make(chan struct{})}
	ctx, end := context.WithCancel(context.Background())
	l.all.Go(func() { l.accept(ctx) })
	t.Cleanup(func() {
		end()
		_ = listener.Close()
		l.all.Wait()
	})
	return l
}

func (l *link) cut() { l.once.Do(func() { close(l.dead) }) }

func (l *link) accept(ctx context.Context) {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.all.Go(func() { l.pass(ctx, from) })
	}
}

func (l *link) pass(ctx context.Context, from net.Conn) {
	defer from.Close()
	to, err := new(net.Dialer).DialContext(ctx, "tcp", l.to)
	if err != nil {
		return
	}
	defer to.Close()
	broken := make(chan struct{}, 2)
	for _, ends := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(deaf{ends[0], l.dead}, ends[1])
			broken <- struct{}{}
		}()
	}
	select {
	case <-ctx.Done():
	case <-broken:
	}
}

// deaf writes to a connection until it is dead, and nowhere afterwards.
type deaf struct {
	net.Conn
	dead chan struct{}
}

func (d deaf) Write(p []byte) (int, error) {
	select {
	case <-d.dead:
		return len(p), nil
	default:
		return d.Conn.Write(p)
	}
}

// Each break gets its verdict first.
func TestDoctor_NamesTheBreakFirst(t *testing.T) {
	t.Parallel()
	for _, row := range doctorBreaks {
		t.Run(row.verdict, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			d := c.diagnosed(row.verdict, row.harm(c)...)
			first := d.Findings[0]
			assert.NotEmpty(t, first.Says)
			assert.NotEmpty(t, first.Next)
			assert.Equal(t, "docs/runbook.md#"+strings.ReplaceAll(row.verdict, " ", "-"), first.Runbook)
		})
	}
}

func TestDoctor_TellsWhoMayStop(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leader := c.serving()
	c.diagnosed(admin.Healthy)
	server := []string{"--server", leader.URL()}
	code, out := c.run(append([]string{"doctor"}, server...)...)
	assert.Zero(t, code)
	assert.True(t, strings.HasPrefix(out, "verdict: healthy: survives 1 failure\nwho hears whom  n1   n2   n3\nn1 hears        -    yes  yes\n"), out)
	for _, n := range c.Nodes {
		code, out = c.run(append([]string{"doctor", "--may-stop", n.ID}, server...)...)
		assert.Zero(t, code, out)
		assert.True(t, strings.HasPrefix(out, "yes: without "+n.ID+", a majority of the voters works"), out)
		assert.Equal(t, n.ID == leader.ID, strings.Contains(out, "raftkv members drain"), out)
	}
	code, out = c.run(append([]string{"doctor", "--may-stop", "n9"}, server...)...)
	assert.Equal(t, 4, code)
	assert.Contains(t, out, "no: there is no member n9")

	down := c.others(leader.ID)[0]
	c.Kill(down.ID)
	c.diagnosed("not connected")
	code, out = c.run(append([]string{"doctor"}, server...)...)
	assert.Equal(t, 6, code)
	assert.True(t, strings.HasPrefix(out, "verdict: not connected ("+down.ID+"), degraded\n"), out)
	for _, says := range []string{"  evidence: ", "  next: look whether the process of " + down.ID, "  see:  docs/runbook.md#not-connected\n", leader.ID + " hears "} {
		assert.Contains(t, out, says)
	}
	code, out = c.run(append([]string{"doctor", "--may-stop", leader.ID}, server...)...)
	assert.Equal(t, 4, code)
	assert.Contains(t, out, "no: without "+leader.ID+", 1 of 3 voters hold what is acknowledged, and 2 are needed; "+down.ID+": ")
	code, _ = c.run(append([]string{"doctor", "--may-stop", down.ID}, server...)...)
	assert.Zero(t, code, "it is down already")

	c.Kill(leader.ID)
	last := c.others(leader.ID)[1]
	c.diagnosed("no quorum", last.ID)
	code, out = c.run("doctor", "--server", last.URL(), "--may-stop", last.ID)
	assert.Equal(t, 4, code)
	assert.Contains(t, out, "no: no leader answers")
	assert.Contains(t, out, "verdict: no quorum, outage\n")
	code, _ = c.run("doctor", "--server", last.URL())
	assert.Equal(t, 7, code)
	c.Kill(last.ID)
	code, out = c.run("doctor", "--json", "--server", last.URL())
	assert.Equal(t, 8, code)
	assert.Contains(t, out, `"verdict":"no answer"`)
}

// The leader hears the two others, which do not reach each other: without it, nobody could lead.
func TestDoctor_TheOneThatReachesBothMustNotStop(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	cut := c.throughLinks("n1", "n3")
	c.serving()
	code, _ := c.run("members", "drain", "n1", "--server", c.Nodes[1].URL()) // so that n2 leads
	require.Zero(t, code)
	code, _ = c.run("members", "drain", "n3", "--server", c.Nodes[1].URL())
	require.Zero(t, code)
	cut()
	var out string
	require.Eventually(t, func() bool { // a new leader hears the others, and they notice the cut, after a while
		code, out = c.run("doctor", "--may-stop", "n2", "--server", c.Nodes[1].URL())
		return code == 4 && strings.HasPrefix(out, "no: without n2, n1 and n3 do not reach each other\n")
	}, c.patience, poll, "n2 must not stop")
	code, out = c.run("doctor", "--may-stop", "n3", "--server", c.Nodes[1].URL())
	assert.Zero(t, code, out)
}

// A problem is logged when it begins and when it ends, with its verdict.
func TestDoctor_TheLogHasTheSameVerdicts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leader := c.serving()
	down := c.others(leader.ID)[0].ID
	c.Kill(down)
	c.logged(leader.ID, `a problem has begun: verdict="not connected" member=`+down)
	require.NoError(t, c.Start(down))
	c.logged(leader.ID, `a problem has ended: verdict="not connected" member=`+down)
}

// logged waits until the log of a member has a line that contains the text.
func (c cluster) logged(id, text string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		all, err := os.ReadFile(filepath.Join(c.dir, id+".log"))
		return err == nil && strings.Contains(string(all), text)
	}, c.patience, poll, text)
}
