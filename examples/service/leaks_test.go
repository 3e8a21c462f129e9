package main

import (
	"os"
	"testing"

	"github.com/coxswain/raft/internal/leaks"
)

// TestMain also runs the members of the tests: they are processes of the same program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-id" {
		main()
		return
	}
	os.Exit(leaks.Main(m.Run))
}
