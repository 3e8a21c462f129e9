package admin

import (
	"os"
	"testing"

	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/internal/viewer/browsertest"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(func() int { return browsertest.Main(m) })) }
