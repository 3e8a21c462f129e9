package member

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
)

// Users of raftkv need not know Go. Each refusal therefore names a flag or a command, and no refusal names a function or a
// field.
func TestWords_RefusalsNameWhatHelps(t *testing.T) {
	for _, row := range []struct {
		reason raft.RejectReason
		names  string
	}{
		{raft.RejectClusterName, "--cluster"},
		{raft.RejectWrongID, "raftkv members address"},
		{raft.RejectWrongIncarnation, "raftkv members replace n2"},
		{raft.RejectOtherCluster, "--join"},
		{raft.RejectNamedOther, "raftkv members replace"},
		{raft.RejectListDiffers, "--peers"},
		{raft.RejectStaleStart, "--join"},
		{raft.RejectLate, "passes by itself"},
		{raft.RejectUnknownStart, "--data"},
		{raft.RejectTwin, "--data"},
		{raft.RejectOwnImage, "start n2 with --join"},
		{raft.RejectRemoved, "removed by configuration 9: end it, or start it with --rejoin 9 beside"},
		{raft.RejectCertificate, "--tls-cert"},
		{raft.RejectSlowDisk, "slow"},
		{raft.RejectVersion, "upgrade"},
		{raft.RejectMalformed, "dials this address"},
	} {
		r := &raft.Rejection{Reason: row.reason, From: raft.Peer{ID: "n2", Incarnation: 2}, Index: 9}
		said := fmt.Sprint(asCommand(fmt.Errorf("dial n2: %w", r)))
		assert.Contains(t, said, row.names)
		assert.Contains(t, said, row.reason.String())
		assert.NotRegexp(t, `Node\.|Config\.|storage\.`, said)
	}
	assert.NotRegexp(t, `Node\.`, asCommand(node.ErrWiped))
	assert.Equal(t, assert.AnError, asCommand(assert.AnError))
}

func TestWords_AreThoseOfTheLog(t *testing.T) {
	var log bytes.Buffer
	logger := commandWords{hclog.New(&hclog.LoggerOptions{Output: &log})}
	logger.Log(hclog.Warn, "was refused by a member", "member", "n2", "error", &raft.Rejection{Reason: raft.RejectRemoved, Index: 9})
	logger.Warn("peer is not connected", "error", &raft.Rejection{Reason: raft.RejectClusterName})
	assert.Contains(t, log.String(), "removed by configuration 9")
	assert.Contains(t, log.String(), "give all members the same --cluster")
}
