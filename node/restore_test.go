package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"syscall"
	"testing"
	"testing/synctest"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// holes is a storage that holds no entries, or fails.
type holes struct {
	raft.Storage
	err error
}

func (h holes) Entries(raft.Span, int) ([]raft.Entry, error) { return nil, h.err }

// A snapshot from the leader replaces the log. From then on the log lacks entries that are not applied yet. The applier waits
// for the restoration and does not end the node.
func TestRestore_BesideApply(t *testing.T) {
	n := parts(holes{err: raft.ErrNotStored}, nil, nil)
	n.applier = newApplier(n, &tally{}, raft.EntryID{})
	n.applier.applyUpTo(raft.EntryID{Term: 1, Index: 3})
	var storage *StorageError
	require.ErrorAs(t, n.applier.work(), &storage, "entries that are missing without a reason end the node")
	n.applier.abandon()
	require.NoError(t, n.applier.work())
	require.NoError(t, n.applier.apply(raft.EntryID{Term: 1, Index: 3}), "also if the read had begun before")
}

// A snapshot is taken at the entry that the core named, not at a later one of the same batch.
func TestSnapshot_IsTakenExactlyAtItsEntry(t *testing.T) {
	n := parts(nil, nil, nil)
	n.cache.Write(&raft.LogWrite{Entries: entriesOf(1, 0, 9, 1), Generation: 1})
	state := &freezing{}
	n.applier = newApplier(n, state, raft.EntryID{})
	n.applier.task(func(t *applierTasks) { t.take = &raft.Take{Base: raft.Base{ID: raft.EntryID{Term: 1, Index: 4}}} })
	n.applier.applyUpTo(raft.EntryID{Term: 1, Index: 9})
	require.NoError(t, n.applier.work())
	expect.Equal(t, []int{4}, state.frozenAt)
	expect.Equal(t, 9, state.n)

	n.applier.task(func(t *applierTasks) { t.take = &raft.Take{Base: raft.Base{ID: raft.EntryID{Term: 1, Index: 5}}} })
	var broken *raft.InvariantError
	require.ErrorAs(t, n.applier.work(), &broken, "it is never taken late")
}

// freezing is a tally that notes when it is frozen.
type freezing struct {
	tally
	frozenAt []int
}

func (f *freezing) Snapshot() (raft.FSMSnapshot, error) {
	f.frozenAt = append(f.frozenAt, f.n)
	return nil, errors.New("not now")
}

// The applier never sees the entries that a snapshot covers. So restore must answer the proposers of those entries.
func TestRestore_AnswersWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := parts(nil, nil, nil)
		covered, err := n.requests.propose(raft.EntryCommand, []byte("a"), nil)
		require.NoError(t, err)
		later, err := n.requests.propose(raft.EntryCommand, []byte("b"), nil)
		require.NoError(t, err)
		n.requests.take(nil)
		n.requests.answer([]raft.Answer{
			{RequestID: covered.requestID, Kind: raft.AnswerAccepted, ID: raft.EntryID{Term: 1, Index: 7}},
			{RequestID: later.requestID, Kind: raft.AnswerAccepted, ID: raft.EntryID{Term: 1, Index: 8}},
		}, nil)
		waited := make(chan error, 1)
		go func() { waited <- n.WaitApplied(t.Context(), 7) }()
		synctest.Wait()
		n.requests.unknown(7)
		n.applied.advance(7)
		expect.ErrorIs(t, (<-covered.outcome).err, ErrOutcomeUnknown)
		expect.Empty(t, later.outcome, "what lies behind the snapshot is applied, or answered by the core")
		expect.NoError(t, <-waited)
	})
}

// A stop also cancels an offer that still waits. An offer that is made after the stop begins a stream.
func TestStreamer_AStopEndsWhatWasOfferedBefore(t *testing.T) {
	n := parts(nil, nil, nil)
	b := raft.Peer{ID: "b", Incarnation: 2}
	offer := func(file byte) raft.Message {
		return raft.Message{To: b, Body: raft.InstallSnapshot{Snapshot: raft.Snapshot{File: raft.SnapshotID{file}, Size: -1, Held: true}}}
	}
	hold := func(file byte) *held {
		ctx, cancel := n.context()
		h := &held{taking: &taking{ctx: ctx, cancel: cancel}, file: raft.SnapshotID{file}, streamed: make(chan struct{}), streamer: newSignal(), writer: newSignal()}
		n.taker.held = h
		return h
	}
	t.Cleanup(func() { close(n.stop); n.wg.Wait() })
	s := n.streamer
	first := hold(1)
	s.offered(offer(1))
	s.stop([]raft.Peer{b})
	s.takeAll()
	expect.Nil(t, s.current)
	expect.ErrorIs(t, first.err, errStreamOver)
	second := hold(2)
	s.stop([]raft.Peer{b})
	s.offered(offer(2))
	s.takeAll()
	require.NotNil(t, s.current)
	expect.NoError(t, second.err)
}

// soft is a storage of snapshots. The test sets its free space, and its files have no known size.
type soft struct {
	raft.SnapshotStorage
	free int64
}

func (s *soft) FreeBytes() (int64, error)                                   { return s.free, nil }
func (s *soft) LogBytes() int64                                             { return 0 }
func (s *soft) CreateSnapshot(raft.SnapshotID) (raft.SnapshotWriter, error) { return softFile{}, nil }
func (s *soft) OpenSnapshot(raft.SnapshotID) (raft.SnapshotReader, error)   { return softFile{}, nil }

type softFile struct {
	raft.SnapshotWriter
	io.ReaderAt
}

func (softFile) Abort() error { return nil }
func (softFile) Close() error { return nil }
func (softFile) Size() int64  { panic("nobody knows") }

// A newer snapshot clears the error of a failed one, whether this member took or received the newer one.
func TestStatus_ANewerSnapshotEndsTheTroubleOfAnEarlierOne(t *testing.T) {
	n := parts(nil, nil, nil)
	n.files = &soft{}
	n.applier = newApplier(n, &tally{}, raft.EntryID{})
	failed := &SnapshotError{Op: "write", ID: raft.EntryID{Term: 1, Index: 5}, Err: &raft.SpaceError{}}
	n.taker.trouble.set(failed)
	status := func(last raft.Index) error {
		return n.snapshotStatus(raft.CoreStatus{Snapshot: raft.EntryID{Term: 1, Index: last}}).Err
	}
	expect.Equal(t, error(failed), status(4))
	expect.Equal(t, nil, status(5))
	expect.Equal(t, nil, status(7))
}

// crowdedFiles is a storage that at first cannot open a file, because no file descriptor is free.
type crowdedFiles struct {
	soft
	left int
}

func (c *crowdedFiles) OpenSnapshot(raft.SnapshotID) (raft.SnapshotReader, error) {
	if c.left--; c.left >= 0 {
		return nil, &fs.PathError{Op: "open", Path: "snapshot", Err: syscall.EMFILE}
	}
	return emptyFile{}, nil
}

type emptyFile struct{ softFile }

func (emptyFile) Size() int64 { return 0 }

// easy can be restored from any snapshot.
type easy struct{ tally }

func (*easy) Restore(context.Context, raft.EntryID, io.Reader) error { return nil }

func TestRestore_WaitsForAFileDescriptor(t *testing.T) {
	n := parts(nil, nil, nil)
	n.files = &crowdedFiles{left: 2}
	n.applier = newApplier(n, &easy{}, raft.EntryID{})
	require.NoError(t, n.applier.restoreFrom(t.Context(), raft.Snapshot{}, &restoring{}))

	n.files = &crowdedFiles{left: 1 << 30}
	close(n.stop)
	require.ErrorIs(t, n.applier.restoreFrom(t.Context(), raft.Snapshot{}, &restoring{}), syscall.EMFILE, "until the node ends")
}

// A snapshot has replaced the log. Entries that were read ahead belong to the old log, so the applier drops them.
func TestRestore_AppliesNothingThatWasReadBefore(t *testing.T) {
	n := parts(nil, nil, nil)
	n.files = &crowdedFiles{}
	n.applier = newApplier(n, &easy{}, raft.EntryID{Term: 1, Index: 2})
	t.Cleanup(func() { close(n.stop); n.wg.Wait() })
	n.applier.ahead = []raft.Entry{{Index: 3, Term: 1}, {Index: 4, Term: 1}}
	waiter, err := n.applied.join(3, 1)
	require.NoError(t, err)
	require.NoError(t, n.applier.restore(raft.Snapshot{Base: raft.Base{ID: raft.EntryID{Term: 1, Index: 3}}}))
	expect.Empty(t, n.applier.ahead)
	expect.Equal(t, raft.EntryID{Term: 1, Index: 3}, n.applier.at)
	expect.Equal(t, raft.Index(3), n.applied.index())
	expect.Len(t, waiter.done, 1, "no later entry need be applied to wake it")
}

// An index may be applied between the two checks of a caller that begins to wait.
func TestApplied_ACallerThatComesJustAfterItsIndexDoesNotWait(t *testing.T) {
	n := parts(nil, nil, nil)
	n.applied.advance(42)
	waiter, err := n.applied.join(42, 1)
	require.NoError(t, err)
	expect.Nil(t, waiter, "nothing wakes it while nothing else is applied")
}

func TestRestore_APanicOfTheStorageIsAnError(t *testing.T) {
	n := parts(nil, nil, nil)
	n.files = &soft{}
	n.applier = newApplier(n, &tally{}, raft.EntryID{})
	var storage *StorageError
	require.ErrorAs(t, n.applier.restoreFrom(t.Context(), raft.Snapshot{}, &restoring{}), &storage)
	expect.ErrorContains(t, storage, "nobody knows")
}

// An earlier offer was ignored with an error. That error must not be reported as the reason why a later chunk is refused.
func TestReceive_SaysWhyAChunkIsRefused(t *testing.T) {
	n := parts(nil, nil, nil)
	disk := &soft{free: 2 << 20}
	n.files, n.senders.ended = disk, true
	want := raft.Receive{From: raft.Peer{ID: "n2"}, Snapshot: raft.Snapshot{File: raft.SnapshotID{1}, Size: 100}}
	n.receiver.work(receiverWork{asked: &want})
	disk.free = 1 << 20
	n.receiver.work(receiverWork{asked: &want})
	require.NoError(t, n.receiver.trouble.get(), "the file has its room already")
	tooLong := raft.Message{From: want.From, To: n.identity.self, Body: raft.SnapshotChunk{File: want.Snapshot.File, Data: make([]byte, 200)}}
	n.receiver.work(receiverWork{chunk: &tooLong})
	require.ErrorIs(t, n.receiver.trouble.get(), raft.StreamDamaged)
}

// reentered is a file. While it is written, another chunk arrives.
type reentered struct {
	softFile
	arrives func()
	written []byte
}

func (f *reentered) Write(p []byte) (int, error) {
	if f.arrives != nil {
		f.arrives()
	}
	f.written = append(f.written, p...)
	return len(p), nil
}

// Each chunk that waits or is being written has its own buffer.
func TestReceive_ReusesTheMemoryOfChunksThatWereWritten(t *testing.T) {
	n := parts(nil, nil, nil)
	disk, file := &soft{free: 2 << 20}, &reentered{}
	n.files, n.senders.ended = disk, true
	r := n.receiver
	want := raft.Receive{From: raft.Peer{ID: "n2"}, Snapshot: raft.Snapshot{File: raft.SnapshotID{1}, Size: 400}}
	chunk := func(number int) raft.Message {
		data := bytes.Repeat([]byte{byte(number)}, 100)
		return raft.Message{From: want.From, To: n.identity.self, Body: raft.SnapshotChunk{File: want.Snapshot.File, At: int64(100 * number), Data: data}}
	}
	r.work(receiverWork{asked: &want})
	r.spool = file
	require.True(t, r.chunk(chunk(0)))
	r.work(r.take())
	require.Len(t, r.spare.buffers, 1)
	require.True(t, r.chunk(chunk(1)))
	require.True(t, r.chunk(chunk(2)))
	file.arrives = func() { file.arrives = nil; require.True(t, r.chunk(chunk(3))) }
	for range 3 {
		r.work(r.take())
	}
	var all []byte
	for number := range 4 {
		all = append(all, bytes.Repeat([]byte{byte(number)}, 100)...)
	}
	expect.Equal(t, all, file.written)
	r.abort()
	expect.Empty(t, r.spare.buffers, "none is kept between two streams")
}

// The bulk lane keeps a chunk until the chunk has left, so the streamer does not reuse its memory.
func TestStream_ReusesTheMemoryOfAChunkThatHasLeft(t *testing.T) {
	for lane, reused := range map[raft.Lane]bool{raft.LaneBulk: false, raft.LaneSnapshot: true} {
		s := &streamer{lane: lane, current: &stream{from: zeroes{}}}
		first, err := s.read(pipeline.Ask{Chunk: true, Bytes: 100})
		require.NoError(t, err)
		second, err := s.read(pipeline.Ask{Chunk: true, At: 100, Bytes: 100})
		require.NoError(t, err)
		expect.Equal(t, reused, &first[0] == &second[0], lane.String())
	}
}

type zeroes struct{ softFile }

func (zeroes) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }
