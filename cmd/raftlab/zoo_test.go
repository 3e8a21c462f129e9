package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestZoo_ListsItsMutantsAndRefusesUnknownOnes(t *testing.T) {
	code, out, _ := lab("zoo", "--list", "E01")
	assert.Equal(t, exitClean, code)
	assert.Contains(t, out, "E01     one vote a term: a member votes for any candidate whose log is good enough")

	code, _, errOut := lab("zoo", "E999")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errOut, `unknown mutant "E999"; there are canary, no-op, E01, E02, `)

	code, _, _ = lab("zoo", "--workers", "0")
	assert.Equal(t, exitUsage, code)
}
