package session_test

import (
	"os"
	"testing"

	"github.com/coxswain/raft/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m.Run)) }
