package member

import (
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/tracepage"
	"github.com/coxswain/raft/rafttest"
)

// The end of a member does not wait for a reader of a named pipe.
func TestDumpTrace_InThePlaceOfANamedPipe(t *testing.T) {
	node := rafttest.New(t, 1, func() raft.FSM { return &kv.Store{} }).Leader()
	path := filepath.Join(t.TempDir(), TraceFile)
	require.NoError(t, unix.Mkfifo(path, 0o600))
	dumpTrace(node, path, hclog.NewNullLogger())
	require.NoError(t, files.CheckRegular(path))
	_, err := tracepage.Read(path)
	require.NoError(t, err)
}
