package raft

import (
	"fmt"
	"time"
)

// Cause says why a member has become the leader.
type Cause uint8

const (
	CauseSilence     Cause = iota // no leader was heard for an election timeout, or ever
	CauseNews                     // the news was that the process of the former leader had ended
	CauseSteppedDown              // the former leader stepped down
	CauseTransfer                 // the former leader transferred its leadership
	CauseTakeover                 // likewise, and its priority is lower
	CauseBootstrap                // the cluster is new
)

// Causes is the number of causes.
const Causes = int(CauseBootstrap) + 1

func (c Cause) String() string {
	texts := [...]string{
		CauseSilence:     "silence",
		CauseNews:        "news",
		CauseSteppedDown: "stepped down",
		CauseTransfer:    "transfer",
		CauseTakeover:    "takeover",
		CauseBootstrap:   "bootstrap",
	}
	if int(c) < len(texts) {
		return texts[c]
	}
	return "unknown"
}

// vacancy says why this member would become the leader now.
type vacancy struct {
	cause Cause
	of    NodeID // the former leader; "": none was known
	since Time   // when it was last heard, or the event came
}

// reason completes the sentence "n2 took over ...", if it did so at the given time. It is "" for the first leader of a cluster.
func (v vacancy) reason(at Time) string {
	took := time.Duration(at - v.since).Round(100 * time.Microsecond)
	switch {
	case v.cause == CauseBootstrap:
		return ""
	case v.cause == CauseNews:
		return fmt.Sprintf("%v after the process of %s had ended", took, v.of)
	case v.cause == CauseSteppedDown:
		return fmt.Sprintf("%v after %s had stepped down", took, v.of)
	case v.cause == CauseTransfer:
		return fmt.Sprintf("by a transfer from %s", v.of)
	case v.cause == CauseTakeover:
		return fmt.Sprintf("by a transfer from %s, whose priority is lower", v.of)
	case v.of == "":
		return "because it knew no leader"
	}
	return fmt.Sprintf("after %s was silent for %v", v.of, took)
}
