package segments_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/segments"
)

const (
	dir    = "/data/log"
	member = raft.Incarnation(0xfeed)
)

// small makes a few entries fill a batch, and a few batches fill a segment.
var small = segments.Sizes{SegmentBytes: 2048, FirstBytes: 1024, BatchBytes: 400, MarkBytes: 300, BufferBytes: 256}

// home is the owner of a log. It keeps the catalog in a store that never fails.
type home struct {
	disk    files.FS
	dir     string
	catalog segments.Catalog
	base    raft.Base
	salt    uint64
	sizes   segments.Sizes
	pauses  int    // calls of Pause
	pause   func() // called by Pause; nil: it takes no time
	kept    func() // called by keep; may be nil
	prunes  bool   // Await prunes first, as on a full disk
	waits   bool   // Await waits for a file descriptor
	lacked  int    // how often there was no file descriptor
	reserve int64  // bytes that a new file leaves free
}

func newHome(disk files.FS) *home { return &home{disk: disk, dir: dir, sizes: small} }

// open recovers the log and then calls Begin, as a start does.
func (h *home) open() (*segments.Log, segments.Found, error) {
	l := h.unread()
	found, err := l.Recover(context.Background(), member, h.catalog, h.base)
	if err == nil {
		err = l.Begin()
	}
	return l, found, err
}

// unread returns the log of a new process, before Recover.
func (h *home) unread() (l *segments.Log) {
	l = segments.New(h.disk, h.dir, h.sizes, segments.Owner{
		Salt: func() uint64 { h.salt++; return h.salt*0x9e3779b97f4a7c15 | 1<<63 },
		Keep: h.keep,
		Await: func(bytes int64) error {
			for more := h.prunes && l.Failed() == nil; more; {
				var err error
				if more, err = l.Prune(); err != nil {
					return err
				}
			}
			return h.prepare(l, bytes)
		},
		Pause: func(time.Duration) {
			if h.pauses++; h.pause != nil {
				h.pause()
			}
		},
		Reserve: func() int64 { return h.reserve },
	})
	return l
}

func (h *home) prepare(l *segments.Log, bytes int64) error {
	for {
		err := l.Prepare(bytes)
		if !h.waits || !files.NoDescriptor(err) {
			return err
		}
		h.lacked++
	}
}

// keep encodes and decodes the catalog, as a file would.
func (h *home) keep(c segments.Catalog) (err error) {
	if h.kept != nil {
		h.kept()
	}
	h.catalog, err = segments.DecodeCatalog(c.Encode())
	return err
}

// reset drops the log and begins a new log after an entry.
func (h *home) reset(l *segments.Log, start raft.EntryID) error {
	return l.Reset(start, func(c segments.Catalog) error {
		h.base = raft.Base{ID: start}
		return h.keep(c)
	})
}

func (h *home) compact(l *segments.Log, base raft.EntryID) {
	h.base = raft.Base{ID: base}
	l.Compact(base)
}

func opened(t testing.TB, h *home) *segments.Log {
	t.Helper()
	l, _, err := h.open()
	require.NoError(t, err)
	return l
}

func id(i raft.Index, term raft.Term) raft.EntryID { return raft.EntryID{Term: term, Index: i} }

func entry(i raft.Index, term raft.Term, size int) raft.Entry {
	e := raft.Entry{Index: i, Term: term, Kind: raft.EntryCommand, Time: int64(i), Data: make([]byte, size)}
	for k := range e.Data {
		e.Data[k] = byte(uint64(i) + uint64(term)*7 + uint64(k)*13)
	}
	if i == 1 {
		e.Kind, e.Data = raft.EntryBootstrap, bootstrap().Encode()
	}
	e.Seal()
	return e
}

func bootstrap() raft.Bootstrap {
	n1 := raft.Member{ID: "n1", Address: "h1:1", Incarnation: member}
	return raft.Bootstrap{
		Cluster: raft.ClusterID{1, 2, 3}, Bootstrapper: n1.Peer(), Probe: raft.RPCID{StartCount: 1, Counter: 7},
		Configuration: raft.NewConfiguration([]raft.Member{n1}),
	}
}

// entries returns count entries of different sizes after an entry.
func entries(after raft.EntryID, term raft.Term, count int) (all []raft.Entry) {
	for k := range count {
		i := after.Index + 1 + raft.Index(k)
		all = append(all, entry(i, term, int(i)*29%120))
	}
	return all
}

// model is a log in the simplest form.
type model struct {
	start   raft.EntryID
	entries []raft.Entry
}

func (m *model) last() raft.EntryID {
	if n := len(m.entries); n > 0 {
		return m.entries[n-1].ID()
	}
	return m.start
}

func (m *model) append(after raft.EntryID, all []raft.Entry) {
	kept := m.entries[: after.Index-m.start.Index : after.Index-m.start.Index]
	m.entries = append(kept, all...)
}

func (m *model) compact(base raft.EntryID) {
	m.entries, m.start = m.entries[base.Index-m.start.Index:], base
}

func (m *model) clone() model { return model{m.start, m.entries[:len(m.entries):len(m.entries)]} }

// stored returns what a start finds of the log.
func (m *model) stored(base raft.Base) (log raft.StoredLog) {
	if base.ID != (raft.EntryID{}) {
		log.Begin(base)
	}
	for _, e := range m.entries {
		if err := log.Observe(e); err != nil {
			panic(err)
		}
	}
	return log
}

// differs returns an error that says how a log differs from the model. If there is no difference, it returns nil.
func (m *model) differs(l *segments.Log) error {
	if l.Start() != m.start || l.Last() != m.last() {
		return fmt.Errorf("the log is (%v, %v], not (%v, %v]", l.Start(), l.Last(), m.start, m.last())
	}
	if len(m.entries) == 0 {
		return nil
	}
	got, err := l.Entries(raft.Span{After: m.start.Index, Last: m.last().Index}, math.MaxInt)
	if err != nil {
		return err
	}
	return same(got, m.entries)
}

func same(got, want []raft.Entry) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d entries, not %d", len(got), len(want))
	}
	for k := range got {
		if string(got[k].Record()) != string(want[k].Record()) {
			return fmt.Errorf("entry %v, not %v", got[k].ID(), want[k].ID())
		}
	}
	return nil
}

// check compares a log with the model. It reads from every entry on, with several limits of bytes.
func (m *model) check(t testing.TB, l *segments.Log) {
	t.Helper()
	require.NoError(t, m.differs(l))
	for k := range m.entries {
		for _, n := range []int{1, 2, 7} {
			to := min(k+n, len(m.entries))
			size := 0
			for _, e := range m.entries[k:to] {
				size += len(e.Record())
			}
			got, err := l.Entries(raft.Span{After: m.start.Index + raft.Index(k), Last: m.last().Index}, size)
			require.NoError(t, err)
			require.NoError(t, same(got, m.entries[k:to]))
		}
	}
}

func newTree() *crashdisk.Tree { return crashdisk.New() }
