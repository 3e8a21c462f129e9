package segments_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/segments"
)

func TestLog_KeepsWhatIsAppended(t *testing.T) {
	h := newHome(newTree().FS())
	l := opened(t, h)
	m := model{}
	for k := range 30 {
		all := entries(m.last(), raft.Term(1+k/10), k%9)
		require.NoError(t, l.Append(m.last(), all, 0))
		m.append(m.last(), all)
		m.check(t, l)
	}
	require.NoError(t, l.Close())
	assert.Greater(t, len(h.catalog.Listed), 3)

	l, found, err := h.open()
	require.NoError(t, err)
	m.check(t, l)
	assert.Nil(t, found.Torn)
	assert.Equal(t, m.last(), found.Log.Last)
	assert.Equal(t, []raft.TermRun{{Term: 1, First: 1}, {Term: 2, First: m.entries[36].Index}}, found.Log.Runs[:2])
}

// The test makes random calls that an owner may make, and sometimes opens the log again.
func TestLog_IsWhatTheModelIs(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := newHome(newTree().FS())
		h.prunes = seed%2 == 0
		l := opened(t, h)
		m := model{}
		for step := range 150 {
			term := raft.Term(step/5 + 1)
			switch random.IntN(10) {
			case 0:
				require.NoError(t, l.Mark())
			case 1:
				require.NoError(t, l.Prepare(0))
			case 2:
				base := id(m.start.Index, m.start.Term)
				if n := random.IntN(len(m.entries) + 1); n > 0 {
					base = m.entries[n-1].ID()
				}
				h.compact(l, base)
				m.compact(base)
			case 3:
				_, err := l.Prune()
				require.NoError(t, err)
			case 4:
				if random.IntN(4) == 0 {
					start := id(raft.Index(random.IntN(int(m.last().Index)+3)), term)
					require.NoError(t, h.reset(l, start))
					m = model{start: start}
					for more := true; more; {
						var err error
						more, err = l.Prune()
						require.NoError(t, err)
					}
					require.Len(t, h.catalog.Listed, 1, "a reset log takes no room")
				}
			case 5:
				require.NoError(t, l.Close())
				var found segments.Found
				var err error
				l, found, err = h.open()
				require.NoError(t, err)
				require.Equal(t, m.stored(h.base), found.Log, "seed %d, step %d", seed, step)
			case 6:
				after := m.start
				if n := random.IntN(len(m.entries) + 1); n > 0 {
					after = m.entries[n-1].ID()
				}
				all := entries(after, term, random.IntN(4))
				require.NoError(t, l.Append(after, all, 0))
				m.append(after, all)
			default:
				all := entries(m.last(), term, random.IntN(12)*(1+step%9/8*7))
				require.NoError(t, l.Append(m.last(), all, 0))
				m.append(m.last(), all)
			}
			require.NoError(t, m.differs(l), "seed %d, step %d", seed, step)
		}
		m.check(t, l)
		require.NoError(t, l.Close())
		l = opened(t, h)
		m.check(t, l)
	}
}

func TestLog_TakesAnEntryLargerThanASegment(t *testing.T) {
	h := newHome(newTree().FS())
	l := opened(t, h)
	m := model{}
	all := []raft.Entry{entry(1, 1, 10), entry(2, 1, 10_000), entry(3, 1, 0)}
	require.NoError(t, l.Append(m.last(), all, 0))
	m.append(m.last(), all)
	m.check(t, l)
	require.NoError(t, l.Close())
	m.check(t, opened(t, h))
}

func TestLog_RefusesWhatCannotFollow(t *testing.T) {
	for name, row := range map[string]struct {
		after raft.EntryID
		all   []raft.Entry
	}{
		"another term":    {id(5, 2), nil},
		"beyond the end":  {id(11, 1), nil},
		"a gap":           {id(10, 1), entries(id(11, 1), 1, 1)},
		"an earlier term": {id(10, 1), entries(id(10, 1), 0, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(newTree().FS())
			l := opened(t, h)
			m := model{}
			all := entries(m.last(), 1, 10)
			require.NoError(t, l.Append(m.last(), all, 0))
			m.append(m.last(), all)
			require.Error(t, l.Append(row.after, row.all, 0))
			require.Error(t, l.Append(m.last(), entries(m.last(), 1, 1), 0), "after an error nothing is written")
			require.NoError(t, l.Close())
			m.check(t, opened(t, h))
		})
	}
}

func TestLog_KeepsTheHintAsFarAsItReaches(t *testing.T) {
	h := newHome(newTree().FS())
	l := opened(t, h)
	require.NoError(t, l.Append(id(0, 0), entries(id(0, 0), 1, 5), 9))
	require.NoError(t, l.Close())
	_, found, err := h.open()
	require.NoError(t, err)
	assert.EqualValues(t, 5, found.Commit)
}

func TestLog_ReusesSegmentFiles(t *testing.T) {
	tree := newTree()
	h := newHome(tree.FS())
	l := opened(t, h)
	m := model{}
	for range 300 {
		all := entries(m.last(), 1, 10)
		require.NoError(t, l.Append(m.last(), all, 0))
		m.append(m.last(), all)
		h.compact(l, m.last())
		m.compact(m.last())
		for more := true; more; {
			var err error
			more, err = l.Prune()
			require.NoError(t, err)
		}
	}
	list, err := h.disk.List(dir)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(list), 4, "the last segment, the next one, and two spare files")
	assert.LessOrEqual(t, l.Bytes(), 2*small.SegmentBytes)
	require.NoError(t, l.Close())
	m.check(t, opened(t, h))
}

// The disk is full, and compaction has left segments behind. A write of several segments reuses them, even after the first
// part of the write.
func TestLog_AWriteMakesRoomForItself(t *testing.T) {
	tree := newTree()
	h := newHome(tree.FS())
	h.prunes = true
	l := opened(t, h)
	m := model{}
	all := entries(m.last(), 1, 60)
	require.NoError(t, l.Append(m.last(), all, 0))
	m.append(m.last(), all)
	h.compact(l, m.last())
	m.compact(m.last())
	require.Greater(t, len(h.catalog.Listed), 5)
	tree.Quota(tree.Used())
	all = entries(m.last(), 2, 30)
	require.NoError(t, l.Append(m.last(), all, 0))
	m.append(m.last(), all)
	m.check(t, l)
	require.NoError(t, l.Close())
	m.check(t, opened(t, h))
}

// silent is a disk that does not report how much is free, for example because of a quota.
type silent struct{ files.FS }

func (silent) Free(string) (int64, error) { return 0, errors.ErrUnsupported }

// Spare files are too small for a large segment. If filling the segment fails because the disk is full, the log also removes
// the spare files to make room.
func TestLog_ALargeSegmentTakesTheRoomOfSpareFiles(t *testing.T) {
	tree := newTree()
	s := newScript(silent{tree.FS()})
	require.NoError(t, s.run([]act{starts(), appends(0, 1, 60), compacts(0), prepares()}))
	tree.Quota(tree.Used() + small.SegmentBytes)
	large := entry(s.log.Last().Index+1, 1, 2*int(small.SegmentBytes))
	require.NoError(t, s.log.Append(s.log.Last(), []raft.Entry{large}, 0))
}

func TestLog_AppendDoesNotAllocate(t *testing.T) {
	h := newHome(files.OS)
	h.dir, h.sizes = t.TempDir(), segments.Sizes{FirstBytes: 1 << 20}
	l := opened(t, h)
	all := entries(id(0, 0), 1, 2000)
	next := 0
	allocations := testing.AllocsPerRun(100, func() {
		if err := l.Append(l.Last(), all[next:next+10], 0); err != nil {
			t.Fatal(err)
		}
		next += 10
	})
	assert.Zero(t, allocations)
	require.NoError(t, l.Close())
}
