package pipeline

import (
	"math/rand/v2"
	"testing"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// naiveDisk applies one write at a time.
type naiveDisk struct {
	hard   raft.HardState
	start  raft.EntryID // the log begins behind it
	log    []raft.Entry
	thens  []raft.Message
	commit raft.Index
}

func (d *naiveDisk) write(w raft.Write) {
	if w.Hard != nil {
		d.hard = *w.Hard
	}
	if l := w.Log; l != nil {
		d.log = append(d.log[:l.After.Index-d.start.Index:l.After.Index-d.start.Index], l.Entries...)
	}
	d.commit = max(d.commit, w.Commit)
	d.thens = append(d.thens, w.Then...)
}

func (d *naiveDisk) last() raft.Index { return d.start.Index + raft.Index(len(d.log)) }

func (d *naiveDisk) id(i raft.Index) raft.EntryID {
	if i == d.start.Index {
		return d.start
	}
	return d.log[i-d.start.Index-1].ID()
}

// randomWrites returns a random sequence of writes that a core could issue on the log that the disk holds: appends,
// truncations and new terms.
func randomWrites(rng *rand.Rand, disk *naiveDisk) []raft.Write {
	model := naiveDisk{log: append([]raft.Entry(nil), disk.log...)}
	term, generation := raft.Term(3), uint64(1)
	writes := make([]raft.Write, 1+rng.IntN(12))
	for i := range writes {
		w := raft.Write{Seq: raft.Seq(i + 1), Commit: raft.Index(rng.IntN(5)), Then: make([]raft.Message, rng.IntN(3))}
		for k := range w.Then {
			w.Then[k].Term = raft.Term(100*i + k)
		}
		if rng.IntN(5) == 0 {
			term++
			w.Hard = &raft.HardState{Term: term}
		}
		if rng.IntN(4) > 0 {
			after := model.last()
			if rng.IntN(3) == 0 {
				after -= raft.Index(rng.IntN(int(after) + 1))
				generation++
				term++
			}
			w.Log = &raft.LogWrite{After: model.id(after), Generation: generation}
			for k := range rng.IntN(4) {
				w.Log.Entries = append(w.Log.Entries, raft.Entry{Index: after + raft.Index(k) + 1, Term: term, Kind: raft.EntryNoop})
			}
		}
		model.write(w)
		writes[i] = w
	}
	return writes
}

func TestMergeWrites_HasTheEffectOfAllOfThemInTurn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		one, merged := &naiveDisk{}, &naiveDisk{}
		for i := range 5 {
			e := raft.Entry{Index: raft.Index(i + 1), Term: 2, Kind: raft.EntryNoop}
			one.log, merged.log = append(one.log, e), append(merged.log, e)
		}
		queue := randomWrites(rng, one)
		for _, w := range queue {
			one.write(w)
		}
		for rest := queue; len(rest) > 0; {
			w, n := MergeWrites(rest)
			require.Positive(t, n)
			require.Equal(t, rest[n-1].Seq, w.Seq, "the merged write acknowledges the last one in it")
			for _, later := range rest[1:n] {
				require.Nil(t, later.Hard, "no later write carries Hard")
			}
			merged.write(w)
			rest = rest[n:]
		}
		require.Equal(t, one, merged)
	}
}

func TestMergeWrites_LeavesTheMergedWritesAsTheyWere(t *testing.T) {
	entries := make([]raft.Entry, 2, 10) // room behind them, which an append must not use
	entries[0], entries[1] = raft.Entry{Index: 1, Term: 1}, raft.Entry{Index: 2, Term: 1}
	queue := []raft.Write{
		{Seq: 1, Log: &raft.LogWrite{Entries: entries, Generation: 1}},
		{Seq: 2, Log: &raft.LogWrite{After: raft.EntryID{Term: 1, Index: 1}, Entries: []raft.Entry{{Index: 2, Term: 2}}, Generation: 2}},
		{Seq: 3, Log: &raft.LogWrite{After: raft.EntryID{Term: 2, Index: 2}, Entries: []raft.Entry{{Index: 3, Term: 2}}, Generation: 2}},
	}
	w, n := MergeWrites(queue)
	require.Equal(t, 3, n)
	expect.Equal(t, []raft.Entry{{Index: 1, Term: 1}, {Index: 2, Term: 2}, {Index: 3, Term: 2}}, w.Log.Entries)
	expect.Equal(t, uint64(2), w.Log.Generation)
	expect.Equal(t, []raft.Entry{{Index: 1, Term: 1}, {Index: 2, Term: 1}, {}}, entries[:3], "the log cache shares these")
}

func TestMergeWrites_KeepsAResetAReset(t *testing.T) {
	reset := raft.Write{Seq: 1, Log: &raft.LogWrite{After: raft.EntryID{Term: 3, Index: 10}, Entries: []raft.Entry{{Index: 11, Term: 3}}, Reset: true}}
	behind := raft.Write{Seq: 2, Log: &raft.LogWrite{After: raft.EntryID{Term: 3, Index: 11}, Entries: []raft.Entry{{Index: 12, Term: 3}}}}
	w, n := MergeWrites([]raft.Write{reset, behind})
	require.Equal(t, 2, n)
	expect.True(t, w.Log.Reset)
	_, n = MergeWrites([]raft.Write{behind, reset})
	expect.Equal(t, 1, n, "what a reset drops is written before it, or not at all, but never merged with it")
}

// After a crash between two writes, only the first write is on the disk. A part of the later write may have to become durable
// before its log. So such a write must not be merged into the first.
func TestMergeWrites_ALaterRecordIsAWriteOfItsOwn(t *testing.T) {
	first := raft.Write{Seq: 1, Hard: &raft.HardState{Term: 1}, Snapshot: &raft.Snapshot{}, Base: &raft.Base{}}
	for what, w := range map[string]raft.Write{
		"mark": {Seq: 2, Mark: &raft.Mark{}}, "term": {Seq: 2, Hard: &raft.HardState{Term: 2}},
		"snapshot": {Seq: 2, Snapshot: &raft.Snapshot{}}, "base": {Seq: 2, Base: &raft.Base{}},
	} {
		merged, n := MergeWrites([]raft.Write{first, w})
		expect.Equal(t, 1, n, what)
		expect.Equal(t, first, merged, what)
	}
	merged, n := MergeWrites([]raft.Write{first, {Seq: 2}})
	expect.Equal(t, 2, n)
	expect.Equal(t, first.Snapshot, merged.Snapshot)
	expect.Equal(t, first.Base, merged.Base)
}

func TestMergeWrites_StopsAtItsLimit(t *testing.T) {
	big := func(i raft.Index) raft.Write {
		return raft.Write{Seq: raft.Seq(i), Log: &raft.LogWrite{After: raft.EntryID{Term: 1, Index: i - 1}, Entries: []raft.Entry{{Index: i, Term: 1, Data: make([]byte, 3<<20)}}}}
	}
	_, n := MergeWrites([]raft.Write{big(1), big(2), big(3), big(4)})
	expect.Equal(t, 2, n)
}

// A mark is a write by itself. If a crash happens during the writes before the mark, the mark must not be on the disk.
func TestMergeWrites_AMarkIsAWriteOfItsOwn(t *testing.T) {
	queue := []raft.Write{{Seq: 1, Commit: 3}, {Seq: 2, Mark: &raft.Mark{Kind: raft.MarkStaleImage}}}
	merged, n := MergeWrites(queue)
	require.Equal(t, 1, n)
	expect.Nil(t, merged.Mark)
	merged, n = MergeWrites(queue[1:])
	require.Equal(t, 1, n)
	expect.Equal(t, queue[1].Mark, merged.Mark)
}

func TestDeliver_NoAppendIsLargerThanItsReceiverTakes(t *testing.T) {
	const each = raft.RecordOverheadBytes + 10
	var entries []raft.Entry
	for i, size := range []int{10, 10, 10, 10, 500, 10} {
		entries = append(entries, entriesOf(1, raft.Index(i), raft.Index(i+1), size)...)
	}
	c := NewCache(0, 1<<20)
	c.Write(&raft.LogWrite{Entries: entries, Generation: 1})
	ask := raft.Message{Body: raft.AppendRequest{Last: entries[5].ID(), Generation: 1}}
	deliver := func(takes int) (sent []raft.Span, drops []raft.SendDropped) {
		Log{Cache: c}.Deliver([]raft.Message{ask}, 1<<20, takes, func(m raft.Message) {
			a := m.Body.(raft.AppendRequest)
			sent = append(sent, raft.Span{After: a.Prev.Index, Last: a.Last.Index})
			expect.True(t, takes == 0 || Records(m) <= takes)
		}, func(m raft.Message, err error) {
			e, appends := Dropped(m, err)
			require.True(t, appends)
			drops = append(drops, e)
		})
		return sent, drops
	}
	sent, drops := deliver(0)
	expect.Equal(t, []raft.Span{{After: 0, Last: 6}}, sent)
	expect.Empty(t, drops)
	sent, drops = deliver(2*each + 1)
	expect.Equal(t, []raft.Span{{After: 0, Last: 2}, {After: 2, Last: 4}}, sent, "a batch is split")
	expect.Equal(t, []raft.SendDropped{{
		Span: raft.Span{After: 4, Last: 6}, Oversized: entries[4].ID(), OversizedBytes: raft.RecordOverheadBytes + 500,
	}}, drops, "with all that is behind it")
	sent, drops = deliver(raft.RecordOverheadBytes + 500)
	expect.Len(t, sent, 3)
	expect.Empty(t, drops)
}
