package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/fuzzy/processes"
)

func TestChaos_SaysWhatIsWrong(t *testing.T) {
	for _, row := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"chaos", "--faults", "kill,flood"}, exitUsage, "unknown fault \"flood\"; there are\n  kill "},
		{[]string{"chaos", "--nodes", "2"}, exitUsage, "--nodes 2: it takes 3 to 9"},
		{[]string{"chaos", "--nodes", "10"}, exitUsage, "--nodes 10: it takes 3 to 9"},
		{[]string{"chaos", "--duration", "0s"}, exitUsage, "--duration 0s: it takes more than 0"},
		{[]string{"chaos", "--duration", "soon"}, exitUsage, "a time with its unit"},
		{[]string{"chaos", "--seed", "xyz"}, exitUsage, "hexadecimal"},
		{[]string{"chaos", "here"}, exitUsage, "unknown command"},
		{[]string{"chaos", "--binary", "/no/such/raftkv"}, exitFailed, "--binary: "},
	} {
		code, _, errOut := lab(row.args...)
		assert.Equal(t, row.code, code, "%v", row.args)
		assert.Contains(t, errOut, row.want, "%v", row.args)
	}
}

func TestChaos_ItsExitCodesTellFailuresApart(t *testing.T) {
	for class, code := range map[fuzzy.Class]int{fuzzy.Panic: exitCrash, fuzzy.Safety: exitSafety, fuzzy.Liveness: exitLiveness} {
		assert.Equal(t, code, exitCode(&processes.Failure{Class: class}))
	}
	assert.Equal(t, exitFailed, exitCode(processes.ErrInterrupted))
}

func TestChaosBar_IsShownOnATerminalAlone(t *testing.T) {
	bar, show := chaosBar(&lastLines{}, time.Minute)
	assert.Nil(t, bar)
	assert.Nil(t, show)
}

func TestChaos_HelpListsTheFaults(t *testing.T) {
	code, out, _ := lab("chaos", "--help")
	require.Equal(t, exitClean, code)
	for _, line := range processes.Kinds() {
		assert.Contains(t, out, line)
	}
}
