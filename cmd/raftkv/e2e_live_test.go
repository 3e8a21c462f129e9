package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/viewer/browsertest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// livePage is the page of a cluster in a browser.
type livePage struct{ *browsertest.Page }

// role waits until the page shows this role of a member.
func (p livePage) role(id, role string) {
	p.Wait(fmt.Sprintf("document.querySelector('[data-member=%s] .role')?.textContent === '%s'", id, role))
}

// says waits until this is in the list of what has happened.
func (p livePage) says(text string) {
	p.Wait(fmt.Sprintf("document.getElementById('events').textContent.includes('%s')", text))
}

// verdict waits for the word beside the title.
func (p livePage) verdict(text string) {
	p.Wait(fmt.Sprintf("document.getElementById('pill').textContent === '%s'", text))
}

// press presses a button of a member.
func (p livePage) press(button, id string) {
	button = fmt.Sprintf("[data-member=%s] [data-act=%s]", id, button)
	p.Wait("document.querySelector('" + button + "') !== null")
	p.Click(button)
}

func TestLive_ThePageGoesOnWhenTheMemberThatServesItDies(t *testing.T) {
	c, leader := startCluster(t)
	c.write()
	p := livePage{browsertest.Show(t, strings.Replace(leader.URL(), "127.0.0.1", "localhost", 1)+"/", "light")}
	p.role(leader.ID, "leader")
	p.Wait("document.querySelectorAll('td.yes').length === 6")
	p.verdict("healthy")
	c.Kill(leader.ID)
	next := c.leader(leader.ID)
	p.role(leader.ID, "does not answer")
	p.role(next.ID, "leader")
	p.says(next.ID + " took over ")
	p.Wait("document.getElementById('findings').textContent.includes('docs/runbook.md#not-connected')")
	require.NoError(t, c.Start(leader.ID))
	p.says(leader.ID + " answers again")
	p.verdict("healthy")
}

// startDemo starts the demo, and returns the URL of its page.
func startDemo(t *testing.T, args ...string) (demo *exec.Cmd, page string) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	demo = exec.Command(program, append([]string{"demo"}, args...)...)
	stdout, err := demo.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, demo.Start())
	lines := bufio.NewReader(stdout)
	for page == "" {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		_, page, _ = strings.Cut(strings.TrimSpace(line), "In a browser: ")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, lines) // until the demo ends
	}()
	t.Cleanup(func() {
		_ = demo.Process.Signal(os.Interrupt) // fails if it has ended
		<-ended
		assert.NoError(t, demo.Wait(), "it has lost nothing")
	})
	return demo, page
}

func TestLive_EachButtonOfTheDemo(t *testing.T) {
	demo, url := startDemo(t)
	p := livePage{browsertest.Show(t, url, "dark")}
	p.Wait("document.querySelector('.member.leader') !== null")
	follower := browsertest.Eval[string](p.Page, "document.querySelector('.member:not(.leader)').dataset.member")
	for _, row := range []struct{ button, role, back string }{
		{"kill", "down", "restart"}, {"freeze", "frozen", "resume"},
	} {
		p.press(row.button, follower)
		p.role(follower, row.role)
		p.press(row.back, follower)
		p.role(follower, "follower")
	}
	p.press("cut", follower)
	p.says(follower + " cut off: it did not lead, so writes go on")
	p.press("heal", follower)
	p.says(follower + " connected again")
	p.role(follower, "follower")

	p.Click("#kill-leader")
	p.Wait("/ killed → .* leads, writes stopped .* 0 lost/.test(document.getElementById('said').textContent)")
	p.Wait("!document.getElementById('restart-all').disabled")
	p.Click("#restart-all")
	p.Wait("document.querySelectorAll('.member.gone').length === 0 && !document.getElementById('add').disabled")
	p.Click("#add")
	p.says("n4 joined after ")
	p.press("replace", "n4")
	p.says("n4 was replaced after ")
	p.press("remove", "n4")
	p.says("n4 was removed after ")
	p.Wait("document.querySelector('[data-member=n4]') === null")
	assert.Equal(t, "0", p.Text("#lost"))
	p.Wait("Number(document.getElementById('rate').textContent) > 0 && document.getElementById('latency').textContent.includes('p99')")
	p.Wait("Array.from(document.querySelectorAll('.member .next')).some((e) => e.textContent === 'would take over')")
	p.Resize(390, 900)
	assert.EqualValues(t, 390, browsertest.Eval[int64](p.Page, "document.documentElement.scrollWidth"), "nothing sticks out on a phone")

	// A page that was not told yet presses a button of a member that is gone.
	origin := strings.TrimSuffix(url, admin.LivePath)
	assert.Contains(t, asked(t, http.MethodPost, origin+"/demo/kill?member=n4", ""), `404 {"code":"unknown_member","message":"there is no member \"n4\" any more"`)
	assert.Contains(t, asked(t, http.MethodPost, origin+"/demo/heal?member="+follower, ""), `409 {"code":"refused","message":"`+follower+` is running"`)
	assert.Contains(t, asked(t, http.MethodPost, origin+"/demo/nothing?member="+follower, ""), `404 {"code":"not_found"`)
	assert.Contains(t, asked(t, http.MethodPost, origin+"/demo/kill", "http://evil.example"), `403 {"code":"cross_site"`)
	assert.Contains(t, asked(t, http.MethodPost, origin+"/demo/kill", "http://127.0.0.1:4001"), `403 {"code":"cross_site"`, "another port is another site")
	assert.Contains(t, asked(t, http.MethodGet, origin+"/demo/kill", ""), "405 ", "an image of any page can be at this address")
	rebound := regexp.MustCompile(`^http://[^:]+`).ReplaceAllString(origin, "http://evil.example")
	assert.Contains(t, browsertest.Eval[string](browsertest.Visit(t, rebound+admin.LivePath), "document.body.innerText"), `"code":"wrong_host"`,
		"a name that has the address of this machine by now")

	require.NoError(t, demo.Process.Signal(os.Interrupt))
	p.Wait("document.getElementById('said').textContent.startsWith('The demo has ended')")
}

// asked sends a request for a page of this origin, and returns the status and the body of the answer.
func asked(t *testing.T, method, url, origin string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return fmt.Sprintf("%d %s", answer.StatusCode, body)
}

// What "make picture" takes for the README: a real run, some seconds after the leader was killed.
func TestPicture_OfTheLivePage(t *testing.T) {
	path := os.Getenv("RAFTKV_PICTURE")
	if path == "" {
		t.Skip("RAFTKV_PICTURE names no file for the picture: make picture does")
	}
	_, url := startDemo(t)
	p := livePage{browsertest.Show(t, url, "dark")}
	p.Resize(1080, 760)
	p.Wait("document.querySelector('.member.leader') !== null && performance.now() > 40e3")
	p.Click("#kill-leader")
	p.Wait("/ killed → .* leads, writes stopped .* 0 lost/.test(document.getElementById('said').textContent)")
	from := browsertest.Eval[float64](p.Page, "performance.now()")
	p.Wait(fmt.Sprintf("performance.now() > %f", from+4e3))
	p.Screenshot(path)
}
