package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runShards runs all shards of a campaign and returns the files of their reports.
func runShards(t *testing.T, of int, args ...string) (paths []string) {
	t.Helper()
	for n := range of {
		code, out, errOut := lab(append(args, "--json", "--shard", fmt.Sprintf("%d/%d", n+1, of))...)
		require.Equal(t, exitClean, code, errOut)
		paths = append(paths, filepath.Join(t.TempDir(), "shard.json"))
		require.NoError(t, os.WriteFile(paths[n], []byte(out), 0o600))
	}
	return paths
}

// The merged report is that of one machine: every seed counts once, whatever the order of the files.
func TestMerge_TheShardsAreTheCampaign(t *testing.T) {
	args := []string{"fuzz", "--profile", "history,calm", "--seed", "2f", "--seeds", "10"}
	whole := counts(t, args...)
	p := runShards(t, 3, args...)
	assert.Equal(t, whole, counts(t, "merge", p[2], p[0], p[1]))

	code, out, errOut := lab("merge", p[0], p[1], p[2])
	require.Equal(t, exitClean, code, errOut)
	assert.Contains(t, out, "10 seeds of history,calm from 2f")
}

// altered writes a copy of a report that differs by a change.
func altered(t *testing.T, path string, change func(*report)) string {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(text, &r))
	change(&r)
	text, err = json.Marshal(r)
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "altered.json")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

func TestMerge_TellsOfTheFailuresOfAllShards(t *testing.T) {
	p := runShards(t, 2, "fuzz", "--profile", "history", "--seeds", "2")
	fail := func(n int) string {
		return altered(t, p[n], func(r *report) {
			r.Failures = []failure{{Seed: fmt.Sprintf("f10.history.%d", n), Class: "liveness", Rule: "L3", Text: "nobody serves", At: 7, Event: 8}}
		})
	}
	failing := []string{fail(0), fail(1)}
	for _, row := range []struct {
		paths  []string
		failed []int
	}{{[]string{failing[0], p[1]}, []int{0}}, {[]string{p[0], failing[1]}, []int{1}}, {failing, []int{0, 1}}} {
		code, out, errOut := lab(append([]string{"merge"}, row.paths...)...)
		assert.Equal(t, exitLiveness, code)
		for _, n := range row.failed {
			assert.Contains(t, out, fmt.Sprintf("FAILED f10.history.%d: liveness L3: nobody serves", n))
		}
		assert.Contains(t, errOut, "liveness: L3: nobody serves")
	}
}

// Every count of a report is added up, the one that two small campaigns leave at zero as well.
func TestMerge_AddsUpEveryCount(t *testing.T) {
	one, sum := report{}, report{Decisions: map[string]int{}, ByFault: map[string]int{}}
	fields := reflect.ValueOf(&one).Elem()
	for i := range fields.NumField() {
		if fields.Field(i).CanInt() {
			fields.Field(i).SetInt(int64(i + 1))
		}
	}
	sum.add(&one)
	sum.add(&one)
	for i := range fields.NumField() {
		if fields.Field(i).CanInt() {
			assert.Equal(t, 2*fields.Field(i).Int(), reflect.ValueOf(sum).Field(i).Int(), fields.Type().Field(i).Name)
		}
	}
}

func TestMerge_RefusesWhatIsNoWholeCampaign(t *testing.T) {
	p := runShards(t, 2, "fuzz", "--profile", "history", "--seeds", "4")
	thirds := runShards(t, 3, "fuzz", "--profile", "history", "--seeds", "4")
	garbage := filepath.Join(t.TempDir(), "garbage.json")
	require.NoError(t, os.WriteFile(garbage, []byte("seeds: 4"), 0o600))
	alter := func(change func(*report)) string { return altered(t, p[1], change) }
	for what, row := range map[string]struct {
		paths []string
		want  string
	}{
		"one is missing at the end":   {[]string{p[0]}, "the shard with the seeds 2 to 3 is missing"},
		"one is missing before":       {[]string{p[1]}, "the shard with the seeds 0 to 1 is missing"},
		"one is there twice":          {[]string{p[0], p[1], p[0]}, "(seeds 0 to 1 of 4) overlaps " + p[0]},
		"others of the same campaign": {[]string{p[0], thirds[1], thirds[2]}, "(seeds 1 to 1 of 4) overlaps"},
		"another commit":              {[]string{p[0], alter(func(r *report) { r.Build = "commit 1234" })}, "is of commit 1234 and "},
		"another first seed":          {[]string{p[0], alter(func(r *report) { r.Base = "7" })}, "is of another campaign (--profile history --seed 7 --seeds 4)"},
		"other profiles":              {[]string{p[0], alter(func(r *report) { r.Profiles = "calm" })}, "is of another campaign (--profile calm"},
		"other seeds":                 {[]string{p[0], alter(func(r *report) { r.Part.Of = 5 })}, "is of another campaign"},
		"one that stopped":            {[]string{p[0], alter(func(r *report) { r.Seeds = 1 })}, "has run 1 of its 2 seeds, with 0 failures: run the shard to its end, with --keep-going"},
		"a whole campaign":            {[]string{alter(func(r *report) { r.Part = nil })}, "is no report of a shard: fuzz --shard N/M --json prints one"},
		"an impossible part":          {[]string{alter(func(r *report) { r.Part.To = r.Part.From })}, "is no report of a shard"},
		"no report":                   {[]string{garbage}, "is no report of fuzz --json"},
		"no file":                     {[]string{"/nonexistent/x"}, "no such file"},
	} {
		code, out, errOut := lab(append([]string{"merge"}, row.paths...)...)
		assert.Equal(t, exitFailed, code, what)
		assert.Empty(t, out, what)
		assert.Contains(t, errOut, row.want, what)
	}
	code, _, _ := lab("merge")
	assert.Equal(t, exitUsage, code)
}

func TestShard_SaysWhatIsWrong(t *testing.T) {
	for args, want := range map[string]string{
		"--shard 3":                    `--shard "3": it takes a number and the number of shards, such as 3/16`,
		"--shard 0/16":                 "--shard 0/16: the shards are 1/16 to 16/16",
		"--shard 17/16":                "--shard 17/16: the shards are 1/16 to 16/16",
		"--shard 1/0":                  "--shard 1/0: there can be 1 to 4096 shards",
		"--shard -1/2":                 "it takes a number",
		"--shard 1/16 --seeds 15":      "--shard 1/16: 15 seeds are too few for 16 shards",
		"--shard 1/16 --duration 1s":   "--shard 1/16 is a part of --seeds: --duration does not say how many seeds there are",
		"--shard 99999999999/16":       "it takes a number",
		"--shard 1/2 --seeds 2 --json": "", // sound
	} {
		code, _, errOut := lab(append([]string{"fuzz", "--profile", "history"}, strings.Fields(args)...)...)
		if want == "" {
			assert.Equal(t, exitClean, code, args)
			continue
		}
		assert.Equal(t, exitUsage, code, args)
		assert.Contains(t, errOut, want)
	}
}

// What the example says runs as it stands, but for the number of seeds.
func TestExample_ACampaignOnManyMachines(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the example's commands are for a shell of Unix")
	}
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asRaftlab, self)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "raftlab"), []byte(script), 0o700))
	sh := func(command string, env ...string) string {
		c := exec.Command("sh", "-c", strings.NewReplacer("--seeds 200000", "--seeds 16", "--profile all", "--profile history", "/dev/termination-log", "/dev/null").Replace(command))
		c.Dir, c.Env = dir, append(append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH")), env...)
		out, err := c.Output()
		require.NoError(t, err, command)
		return string(out)
	}
	find := func(file, pattern string) string {
		text, err := os.ReadFile("../../examples/campaign/" + file)
		require.NoError(t, err)
		found := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
		require.Len(t, found, 2, pattern)
		return found[1]
	}
	of := func(dir string) (r report) {
		require.NoError(t, json.Unmarshal([]byte(sh("raftlab merge --json "+dir+"*.json")), &r))
		return r
	}
	parallel := find("README.md", `(?m)^seq 16 \| parallel '(.*)'$`)
	pod := strings.Join(strings.Fields(find("job.yaml", `(?s)- >-\n(.*?)\n          env:`)), " ")
	for i := range 16 {
		sh(strings.ReplaceAll(parallel, "{}", fmt.Sprint(i+1)))
		out := sh(pod, fmt.Sprintf("JOB_COMPLETION_INDEX=%d", i))
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("pod-%d.json", i)), []byte(out), 0o600))
	}
	assert.Equal(t, 16, of("shard-").Seeds)
	assert.Equal(t, 16, of("pod-").Seeds)
	assert.Contains(t, sh(find("README.md", `(?m)^(raftlab merge --json .* > campaign\.json)$`)+"; cat campaign.json"), `"seeds": 16`)
}
