package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asRaftlab is an environment variable that makes this test program act as raftlab. The test needs this, because a campaign
// continues only in the build that began it.
const asRaftlab = "RAFTLAB_TEST_IS_RAFTLAB"

func TestMain(m *testing.M) {
	if os.Getenv(asRaftlab) != "" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// counts runs a campaign to its end. It returns the figures that depend only on the seeds.
func counts(t *testing.T, args ...string) report {
	t.Helper()
	code, out, errOut := lab(append(args, "--json")...)
	require.Equal(t, exitClean, code, errOut)
	var r report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	assert.Positive(t, r.CoreSeconds)
	r.Seconds, r.CoreSeconds, r.EventsPerCoreSecond, r.VirtualHoursPerCoreHour, r.FaultsPerCoreHour = 0, 0, 0, 0, 0
	r.VirtualHours, r.Origin = float64(time.Duration(r.VirtualHours*float64(time.Hour)).Round(time.Second)), ""
	return r
}

// If the process of a campaign is killed or interrupted, the campaign loses nothing, and no seed counts twice.
func TestFuzz_GoesOnWhereItWasKilledAndInterrupted(t *testing.T) {
	args := []string{"fuzz", "--profile", "history,calm", "--seed", "2f", "--seeds", "40", "--workers", "2"}
	path := filepath.Join(t.TempDir(), "progress.json")
	resumed := append(args, "--resume", path)
	so := func() (p progress) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &struct{ State *progress }{&p}))
		return p
	}

	child := exec.Command(os.Args[0], resumed...)
	child.Env = append(os.Environ(), asRaftlab+"=1")
	require.NoError(t, child.Start())
	require.Eventually(t, func() bool {
		_, err := os.Stat(path)
		return err == nil && so().Report.Seeds > 0
	}, time.Minute, time.Millisecond, "it saves what it has done")
	require.NoError(t, child.Process.Kill())
	_ = child.Wait() // it was killed
	killed := so()
	assert.Equal(t, killed.Taken, killed.Report.Seeds+len(killed.Running), "what it was running is to be run again")

	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, errOut bytes.Buffer
	assert.Equal(t, exitFailed, run(ctx, resumed, &out, &errOut))
	assert.Contains(t, errOut.String(), "the same command continues from there")
	assert.Equal(t, killed.Report.Seeds, so().Report.Seeds)

	whole := counts(t, args...)
	assert.Equal(t, 40, whole.Seeds)
	assert.Equal(t, whole, counts(t, resumed...))
	assert.Equal(t, whole, counts(t, resumed...), "a campaign that has ended prints its report again")

	code, _, refused := lab(append(resumed, "--seeds", "41")...)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, refused, `--resume: `+path+` holds the progress of "fuzz --profile history,calm --seed 2f --seeds 40"`)
}

// A resumed campaign still has its earlier failure. Without --keep-going, it stays ended.
func TestFuzz_AResumedCampaignHasItsFailures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress.json")
	c := campaign{workers: 1, seeds: 9, resume: path}
	require.NoError(t, c.prepare("2f", "history", ""))
	require.NoError(t, c.goOn())
	c.Report.Seeds, c.Taken = 1, 1
	c.Report.Failures = []failure{{Seed: "f10.history.2f", Class: "liveness", Rule: "L3", Text: "nobody serves", At: 7, Event: 8}}
	require.NoError(t, c.file.Save(&c.progress))
	args := []string{"fuzz", "--seed", "2f", "--seeds", "9", "--profile", "history", "--resume", path}
	code, out, errOut := lab(args...)
	assert.Equal(t, exitLiveness, code)
	assert.Contains(t, out, "1 seeds of history from 2f")
	assert.Contains(t, errOut, "liveness: L3: nobody serves (at 7ns, event 8)")
	code, out, _ = lab(append(args, "--keep-going")...)
	assert.Equal(t, exitLiveness, code)
	assert.Contains(t, out, "9 seeds of history from 2f")
}

// If a campaign cannot save its progress, it ends, because nobody could resume it.
func TestFuzz_EndsIfItsProgressCannotBeSaved(t *testing.T) {
	code, _, errOut := lab("fuzz", "--seeds", "3", "--resume", "/nonexistent/progress.json")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errOut, "--resume: open /nonexistent/progress.json")

	dir := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(dir, 0o700))
	c := campaign{workers: 1, seeds: 3, resume: filepath.Join(dir, "progress.json")}
	require.NoError(t, c.prepare("0", "history", ""))
	require.NoError(t, c.goOn())
	require.NoError(t, os.RemoveAll(dir))
	var out bytes.Buffer
	assert.ErrorContains(t, c.run(t.Context(), &out, &out), "--resume: open "+dir)
	assert.Equal(t, 1, c.Report.Seeds, "it runs no more seeds")
}
