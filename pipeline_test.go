package raft_test

import (
	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// diskReader is a disk that is read.
type diskReader func(raft.Span, int) ([]raft.Entry, error)

func (s diskReader) Entries(span raft.Span, bytesMax int) ([]raft.Entry, error) {
	return s(span, bytesMax)
}

// testLog is what a member of the harness reads its log with.
type testLog struct {
	*pipeline.Cache
	pipeline.Log
}

func init() {
	raft.MergeWrites = pipeline.MergeWrites
	raft.NewTestLog = func(last raft.Index, bytesMax int, read func(raft.Span, int) ([]raft.Entry, error)) raft.TestLog {
		cache := pipeline.NewCache(last, bytesMax)
		return testLog{cache, pipeline.Log{Cache: cache, Storage: diskReader(read)}}
	}
}
