package raft

import (
	"testing"

	expect "github.com/stretchr/testify/assert"
)

func TestLineage_CountsUpAndKeepsTheLast64(t *testing.T) {
	start := func(n uint64) StartID { return StartID{n, 1000 + n} }
	starts := func(from, to uint64) (l Lineage) {
		for n := from; n <= to; n++ {
			l = append(l, start(n))
		}
		return l
	}
	var l Lineage
	for startCount := range uint64(LineageStartsMax + 10) {
		before := l
		l = l.Begin(1001 + startCount)
		expect.NoError(t, l.Check())
		expect.Equal(t, start(startCount+1), l.Last())
		expect.Equal(t, startCount, before.Last().Count, "the lineage before is left as it was")
	}
	expect.Equal(t, starts(11, LineageStartsMax+10), l)
	expect.Error(t, append(starts(1, 2), start(4)).Check(), "a gap")
	expect.Error(t, Lineage{{}}.Check(), "no start has the number 0")
	expect.Error(t, starts(1, LineageStartsMax+1).Check())
}
