package main

import (
	"os"
	"testing"

	"github.com/coxswain/raft/internal/leaks"
)

// TestMain also runs the members of the test: they are processes of the same program.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1][0] == '[' {
		main()
		return
	}
	os.Exit(leaks.Main(m.Run))
}
