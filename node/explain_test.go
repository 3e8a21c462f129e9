package node

import (
	"errors"
	"slices"
	"testing"

	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/enums"
)

// Each kind of refusal has its own error. The answer to a change already contains its error. If this member does not lead, or
// transfers its leadership, the error names the leader instead.
func TestExplain_EveryRefusalHasItsError(t *testing.T) {
	n := &Node{cfg: Config{}.withDefaults(), taker: &taker{}}
	n.taker.trouble.set(&SnapshotError{})
	brought := errors.New("brought")
	for name, kind := range enums.Of(t, "..", "RefusalKind") {
		refusal := raft.RefusalKind(kind)
		a := raft.Answer{Kind: raft.AnswerRefused, Refusal: refusal}
		if refusal >= raft.RefusedConfigIndex && refusal != raft.RefusedFSMHangs || refusal == raft.RefusedTooLarge {
			a.Err = brought
			expect.Equal(t, brought, n.explain(&call{}, a), name)
			continue
		}
		var elsewhere *NotLeaderError
		leads := refusal == raft.RefusedNotLeader || refusal == raft.RefusedTransferring
		expect.Equal(t, leads, errors.As(n.explain(&call{}, a), &elsewhere), name)
	}
}

// Each answer of the core ends its request, or is the first of two.
func TestRequests_EveryAnswerIsPassedOn(t *testing.T) {
	fails := []raft.AnswerKind{raft.AnswerRefused, raft.AnswerNotApplied, raft.AnswerUnknown, raft.AnswerGivenUp}
	for name, kind := range enums.Of(t, "..", "AnswerKind") {
		if raft.AnswerKind(kind) == raft.AnswerAccepted {
			continue
		}
		failed := false
		req := &call{outcome: make(chan outcome, 1)}
		r := &requests{table: map[raft.RequestID]*call{1: req}}
		r.answer([]raft.Answer{{RequestID: 1, Kind: raft.AnswerKind(kind)}}, func(*call, raft.Answer) error { failed = true; return raft.ErrClosed })
		expect.Len(t, req.outcome, 1, name)
		expect.Equal(t, slices.Contains(fails, raft.AnswerKind(kind)), failed, "%s: a new answer needs its own case", name)
	}
}
