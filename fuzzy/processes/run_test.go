package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/internal/built"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/storage/storagetest/powercut"
)

// memberRole is an environment variable that makes this test binary act as raftkv, as a member that misbehaves.
const memberRole = "CHAOS_TEST_MEMBER"

func TestMain(m *testing.M) {
	powercut.Main()
	switch os.Getenv(memberRole) {
	case "dying":
		fmt.Println("panic: this is how it ends")
		os.Exit(2)
	case "silent":
		_, _ = os.Stdin.Read(make([]byte, 1)) // block until the parent ends
		os.Exit(0)
	}
	code := leaks.Main(m.Run)
	built.Remove()
	os.Exit(code)
}

// storm is the duration of the longer runs of the tests. With -race, which "make verify" uses, it is 20 seconds.
var storm = 12 * time.Second

// run runs a cluster under faults in a temporary directory. After a clean run, this directory must be empty again.
func run(t *testing.T, o Options) (Report, error) {
	t.Helper()
	if o.Binary == "" {
		var err error
		o.Binary, err = built.Raftkv()
		require.NoError(t, err)
	}
	o.temp = t.TempDir()
	o.Say = func(line string) { t.Log(line) }
	r, err := Run(t.Context(), o)
	t.Logf("%s", r)
	mounts, _ := os.ReadFile("/proc/mounts") // empty on other systems than Linux
	assert.NotContains(t, string(mounts), o.temp, "nothing is mounted any longer")
	left, readErr := os.ReadDir(o.temp)
	require.NoError(t, readErr)
	assert.Equal(t, r.Kept != "", len(left) > 0, "left over: %v", left)
	return r, err
}

// beside lets the test run in parallel with similar tests, because the test spends most of its time in waits.
func beside(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes for ten seconds")
	}
	t.Parallel()
}

func TestRun_IsCleanWhileLeadersAreKilledAndPowerIsCut(t *testing.T) {
	beside(t)
	r, err := run(t, Options{
		Seed: 5, Duration: 10 * time.Second, Nodes: 3,
		Faults: []Kind{Kill, Pause, PowerCut, PowerCutAll, FullDisk, StallSync, OneWay, Partition, HalfOpen, DeadConn},
	})
	require.NoError(t, err)
	assert.Equal(t, "clean", r.Verdict)
	assert.Positive(t, r.LeaderKills)
	assert.Positive(t, r.Operations.Writes)
	assert.Equal(t, int(r.Operations.Answered+r.Operations.Unknown), r.Checks.Operations, "every operation was checked")
	assert.Equal(t, 3, r.Checks.Members)
	assert.Equal(t, r.Checks.Histories, r.Checks.Scanned, "every key is read again")
	assert.Empty(t, r.Kept)
}

func TestRun_MembersComeGoMoveAndAreReplaced(t *testing.T) {
	beside(t)
	r, err := run(t, Options{
		Seed: 3, Duration: storm, Nodes: 3, PlainDisks: true,
		Faults: []Kind{Kill, Resize, Swap, Demote, Move, Wipe, OlderImage, Damage},
	})
	require.NoError(t, err)
	m, lost := r.Membership, r.Faults[Wipe]+r.Faults[OlderImage]+r.Faults[Damage]
	assert.Positive(t, lost+r.Faults[Resize]+r.Faults[Swap]+r.Faults[Demote]+r.Faults[Move])
	assert.GreaterOrEqual(t, m.total(), lost, "every lost disk is replaced")
	assert.Equal(t, lost > 0, m.ReplacedWithin.Max > 0)
	assert.Positive(t, m.Settled, "at the end the members are those that were asked for last")
	assert.Positive(t, r.Checks.Members)
}

// A run can fail: on disks that lie about syncs, a power cut loses acknowledged writes.
func TestRun_FindsTheWritesThatLyingDisksLose(t *testing.T) {
	beside(t)
	o := Options{Duration: 5 * time.Second, Nodes: 3, Faults: []Kind{PowerCutAll}, Lie: true}
	r, err := run(t, o)
	if r.LeftOutReason != "" {
		t.Skipf("no power cuts here: %s", r.LeftOutReason)
	}
	var failure *Failure
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, fuzzy.Safety, failure.Class)
	assert.Contains(t, failure.Text, "was acknowledged")
	assert.Equal(t, "safety", r.Verdict)
	history, err := os.ReadFile(filepath.Join(r.Kept, "history.ndjson"))
	require.NoError(t, err)
	assert.Equal(t, r.Checks.Operations, strings.Count(string(history), "\n"), "the whole history is saved")
	assert.FileExists(t, filepath.Join(r.Kept, "n1.kept", "raft.db"), "the data outlives its mount")
	pages, err := filepath.Glob(filepath.Join(r.Kept, "violation-*.html"))
	require.NoError(t, err)
	assert.NotEmpty(t, pages)
}

func TestRun_AProcessThatEndsByItselfIsACrash(t *testing.T) {
	t.Setenv(memberRole, "dying")
	r, err := run(t, Options{Duration: time.Second, Nodes: 3, Binary: os.Args[0]})
	var failure *Failure
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, fuzzy.Panic, failure.Class)
	assert.Contains(t, failure.Text, "panic: this is how it ends")
	assert.Equal(t, "crash", r.Verdict)
	assert.DirExists(t, r.Kept)
}

func TestRun_AClusterWithoutALeaderIsNotAlive(t *testing.T) {
	t.Setenv(memberRole, "silent")
	o := Options{Duration: time.Second, Nodes: 3, Binary: os.Args[0], patience: 100 * time.Millisecond}
	r, err := run(t, o)
	var failure *Failure
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, fuzzy.Liveness, failure.Class)
	assert.Equal(t, "liveness", r.Verdict)
}

func TestRun_AnInterruptedOneIsNotJudgedAndLeavesNothing(t *testing.T) {
	t.Setenv(memberRole, "silent")
	temp := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	r, err := Run(ctx, Options{Duration: time.Hour, Nodes: 3, Binary: os.Args[0], temp: temp})
	assert.ErrorIs(t, err, ErrInterrupted)
	assert.Equal(t, "not judged", r.Verdict)
	assert.NotContains(t, r.String(), "checked: ")
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestRun_SaysWhyItCannot(t *testing.T) {
	for _, row := range []struct {
		o    Options
		says string
	}{
		{Options{Duration: time.Second, Nodes: 2}, "--nodes 2: it takes 3 to 9"},
		{Options{Nodes: 3}, "--duration 0s"},
		{Options{Duration: time.Second, Nodes: 3, Binary: "/no/such/raftkv"}, "--binary: "},
		{Options{Duration: time.Second, Nodes: 3, Binary: os.Args[0], PlainDisks: true, Faults: []Kind{PowerCut}},
			"no fault of --faults is left: --plain-disks"},
		{Options{Duration: time.Second, Nodes: 3, Binary: os.Args[0], PlainDisks: true, Lie: true}, "--plain-disks and --lying-disks"},
	} {
		r, err := Run(t.Context(), row.o)
		assert.ErrorContains(t, err, row.says)
		var failure *Failure
		assert.False(t, errors.As(err, &failure))
		assert.Empty(t, r.Kept)
	}
}

func TestGuard_APanicOfTheHarnessIsAnError(t *testing.T) {
	err := (&world{}).guard(func() error { panic("lost") })
	assert.ErrorContains(t, err, "the harness panicked: lost")
	assert.ErrorContains(t, err, "run_test.go")
}

func TestReport_SaysWhatWasLeftOut(t *testing.T) {
	r := Report{Verdict: "clean", Faults: map[Kind]int{Kill: 2}, LeftOut: []Kind{PowerCut}, LeftOutReason: "no /dev/fuse"}
	assert.Contains(t, r.String(), "left out: power-cut (no /dev/fuse)")
	assert.Contains(t, r.Markdown(), "| left out | power-cut (no /dev/fuse) |")
	assert.True(t, strings.HasPrefix(r.String(), "clean: "))
	assert.Contains(t, r.Markdown(), "| faults | 2: 2 kill |")
}
