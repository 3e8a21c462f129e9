package member

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/tracepage"
	"github.com/coxswain/raft/rafttest"
)

func TestDumpNotes_KeepsWhatRaftlabShows(t *testing.T) {
	node := rafttest.New(t, 1, func() raft.FSM { return &kv.Store{} }).Leader()
	path := filepath.Join(t.TempDir(), TraceFile)
	var log bytes.Buffer
	dumpTrace(node, path, hclog.New(&hclog.LoggerOptions{Output: &log}))
	assert.Contains(t, log.String(), "file="+path)
	events, err := tracepage.Read(path)
	require.NoError(t, err)
	var told bytes.Buffer
	require.NoError(t, events.Print(&told, false))
	assert.Contains(t, told.String(), "term 1  lead term 1\n")

	require.NoError(t, os.Remove(path))
	log.Reset()
	dumpTrace(node, filepath.Join(path, "no", "such", "directory"), hclog.New(&hclog.LoggerOptions{Output: &log}))
	assert.Contains(t, log.String(), "the last decisions could not be written to a file: error=")
}
