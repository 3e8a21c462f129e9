package member

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/node"
)

const (
	readyPatience = time.Second // time until the member logs what it waits for
	readyPause    = time.Minute // time until it logs that again
)

// reportReady logs what the member waits for, and finally that the member is ready. Without these lines, a first start would
// wait silently for members that do not run.
func (m *Member) reportReady(ctx context.Context) {
	n, log := m.node, m.cfg.Logger
	for patience := readyPatience; ; patience = readyPause {
		waiting, cancel := context.WithTimeout(ctx, patience)
		err := m.Ready(waiting)
		var leader raft.Member
		if err == nil {
			leader, err = n.WaitLeader(waiting) // the leader may be lost again
		}
		cancel()
		switch {
		case err == nil:
			log.Info("ready", "leader", leader.ID)
			return
		case ctx.Err() != nil || errors.Is(err, raft.ErrClosed):
			return
		case errors.Is(err, node.ErrWiped) && m.seeker == nil: // the node logs that
			return
		}
		if m.seeker == nil {
			log.Warn("not ready yet", "reason", reasonOf(err))
			continue
		}
		log.Warn("not ready yet", "reason", reasonOf(err), "missing", strings.Join(m.Status().Missing, "; "))
	}
}

// reasonOf returns the reason why a member is not ready.
func reasonOf(err error) string {
	var waiting *node.NotReadyError
	if errors.As(err, &waiting) {
		return waiting.Reason
	}
	return err.Error()
}

// TraceFile is the name of a file in Config.Dir. If a member ends by itself, this file holds its last decisions.
const TraceFile = "trace.ndjson"

// dumpTrace writes the trace events of a node that ended by itself to a file. It may fail if the node ended because of its
// disk.
func dumpTrace(n *node.Node, path string, log hclog.Logger) {
	var events bytes.Buffer
	err := n.WriteTrace(&events)
	if err = errors.Join(err, files.WriteAnew(path, events.Bytes())); err != nil {
		log.Warn("the last decisions could not be written to a file", "error", err)
		return
	}
	log.Info("the last decisions are kept: raftlab trace --from FILE --format html shows them", "file", path)
}
