package admin_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// ward is a cluster in memory whose members' disks, connections and state machines break on demand.
type ward struct {
	*rafttest.Cluster
	t *testing.T

	noSnapshot atomic.Bool // no state machine can be frozen
	restores   atomic.Bool // a restore of a state machine does not end
	lost       atomic.Pointer[func(raft.Message) bool]
	hindered   atomic.Pointer[raft.NodeID] // the follower that reports a hindrance which only a later release knows
	mu         sync.Mutex
	disks      map[raft.NodeID]*ailment
	protocol   map[raft.NodeID]uint16 // that a member seems to speak
}

// ailment is what is wrong with a disk.
type ailment struct {
	forgets atomic.Uint64 // at the next start, entries after this index are lost; 0: none
	slow    atomic.Int64  // each write takes so long
	full    atomic.Bool   // no snapshot has room
	bytes   atomic.Int64  // size of the disk
}

func newWard(t *testing.T) *ward {
	w := &ward{t: t, disks: map[raft.NodeID]*ailment{}, protocol: map[raft.NodeID]uint16{}}
	w.Cluster = rafttest.Prepare(t, rafttest.Options{
		NewFSM: func() raft.FSM { return &tally{of: w} },
		Configure: func(cfg *node.Config) {
			cfg.SnapshotEntries, cfg.SnapshotTailBytes, cfg.SnapshotHoldBytes = 32, 1, 1
		},
		Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
			return &ailing{s.(raft.SnapshotStorage), w.disk(id)}
		},
		Transport: func(_ raft.NodeID, wire raft.Transport) raft.Transport { return &noisy{wire, w} },
	})
	for _, id := range w.IDs() {
		w.Start(id)
	}
	w.Leader()
	w.propose(1)
	w.diagnosed(admin.Healthy)
	return w
}

func (w *ward) disk(id raft.NodeID) *ailment {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.disks[id] == nil {
		w.disks[id] = &ailment{}
		w.disks[id].bytes.Store(math.MaxInt64 / 2)
	}
	return w.disks[id]
}

// propose proposes commands through the leader, and returns the index of the last one.
func (w *ward) propose(commands int) (last raft.Index) {
	w.t.Helper()
	for range commands {
		r, err := w.Leader().Propose(w.t.Context(), []byte("x"))
		require.NoError(w.t, err)
		last = r.Index
	}
	return last
}

// ask is an admin.Ask, as if each member had a server that goes on after the member has ended by itself.
func (w *ward) ask(_ context.Context, url string) (admin.Status, error) {
	n := w.Node(raft.NodeID(strings.TrimPrefix(url, "http://")))
	if n == nil {
		return admin.Status{}, errors.New("connection refused")
	}
	return admin.StatusOf(n), nil
}

func (w *ward) diagnosed(verdict string) (d *admin.Diagnosis) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			w.t.Logf("%+v", d.Findings)
		}
	}()
	w.Await("the doctor to say "+verdict, func() bool {
		d = admin.Diagnose(w.t.Context(), []string{"http://n1", "http://n2", "http://n3"}, w.ask)
		return d.Verdict == verdict
	})
	return d
}

// away cuts off a follower until the leader has compacted what it lacks.
func (w *ward) away() (id raft.NodeID) {
	leader := w.Leader()
	w.Converge()
	id = w.Follower().Status().ID
	w.Isolate(id)
	w.propose(100)
	w.Await("a compacted log", func() bool { return leader.Status().Base.Index > w.Node(id).Status().Last.Index })
	return id
}

// tally is a state machine that counts commands.
type tally struct {
	of    *ward
	count uint64
}

func (f *tally) Apply(batch []raft.Entry, _ [][]byte) error {
	f.count += uint64(len(batch))
	return nil
}

func (f *tally) Snapshot() (raft.FSMSnapshot, error) {
	if f.of.noSnapshot.Load() {
		return nil, errors.New("the state cannot be frozen")
	}
	return frozen(f.count), nil
}

func (f *tally) Restore(ctx context.Context, _ raft.EntryID, r io.Reader) error {
	if f.of.restores.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := binary.Read(r, binary.LittleEndian, &f.count); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, r)
	return err
}

type frozen uint64

func (f frozen) WriteTo(_ context.Context, w io.Writer) error {
	return binary.Write(w, binary.LittleEndian, uint64(f))
}

func (frozen) Close() error { return nil }

// ailing is a disk with an ailment.
type ailing struct {
	raft.SnapshotStorage
	*ailment
}

// Load loses entries that were synced. It keeps the starts and what is known about peers, so no handshake notices the loss.
func (s *ailing) Load(ctx context.Context, identity raft.Identity) (raft.Stored, error) {
	stored, err := s.SnapshotStorage.Load(ctx, identity)
	above := raft.Index(s.forgets.Swap(0))
	if err != nil || above == 0 {
		return stored, err
	}
	kept, err := s.Entries(raft.Span{After: 0, Last: above}, 1<<20)
	if err != nil {
		return stored, err
	}
	stored.Log, stored.Commit = raft.StoredLog{}, min(stored.Commit, above)
	for _, e := range kept {
		if err := stored.Log.Observe(e); err != nil {
			return stored, err
		}
	}
	return stored, s.SnapshotStorage.Write(raft.StorageWrite{Log: &raft.LogWrite{After: stored.Log.Last}})
}

func (s *ailing) Write(write raft.StorageWrite) error {
	<-time.After(time.Duration(s.slow.Load()))
	return s.SnapshotStorage.Write(write)
}

func (s *ailing) CreateSnapshot(file raft.SnapshotID) (raft.SnapshotWriter, error) {
	if s.full.Load() {
		return nil, syscall.ENOSPC
	}
	return s.SnapshotStorage.CreateSnapshot(file)
}

func (s *ailing) DiskBytes() (used, free int64, err error) { return 0, s.bytes.Load(), nil }

// noisy is a transport that loses messages, adds hindrances to replies, and lets members seem to speak earlier protocols.
type noisy struct {
	raft.Transport
	of *ward
}

func (n *noisy) Send(to raft.Peer, lane raft.Lane, batch []raft.Message) error {
	var left []raft.Message
	for _, m := range batch {
		if lost := n.of.lost.Load(); lost != nil && (*lost)(m) {
			continue
		}
		if r, ok := m.Body.(raft.HeartbeatReply); ok {
			if id := n.of.hindered.Load(); id != nil && *id == m.From.ID {
				r.Hindered |= 1 << 7
			}
			m.Body = r
		}
		left = append(left, m)
	}
	if len(left) == 0 {
		return nil
	}
	return n.Transport.Send(to, lane, left)
}

func (n *noisy) Start(h raft.Handler) error { return n.Transport.Start(&hearing{h, n.of}) }

type hearing struct {
	raft.Handler
	of *ward
}

func (e *hearing) Up(h raft.Hello) {
	e.of.mu.Lock()
	if p := e.of.protocol[h.From.ID]; p != 0 {
		h.Protocol = p
	}
	e.of.mu.Unlock()
	e.Handler.Up(h)
}

// breaks break a cluster in memory. Each returns the member that the verdict is about; "": the cluster.
var breaks = []struct {
	verdict string
	harm    func(w *ward) raft.NodeID
}{
	{"contradicted", func(w *ward) raft.NodeID {
		leader := w.Leader().Status().ID
		rest := w.others(leader)
		kept := w.propose(1)
		w.Converge()
		w.Isolate(rest[1])
		lost := w.propose(2) - 1
		w.Partition([]raft.NodeID{leader}, rest)
		w.Crash(rest[0])
		w.disk(rest[0]).forgets.Store(uint64(kept))
		w.Start(rest[0])
		w.Await("the others have a leader", func() bool {
			s := w.Node(rest[1]).Status()
			return s.Leader != "" && s.Leader != leader && s.Commit >= lost
		})
		w.Heal()
		return leader
	}},
	{"lost entries", func(w *ward) raft.NodeID {
		id := w.others(w.Leader().Status().ID)[0]
		kept := w.propose(5) - 3
		w.Converge()
		w.Crash(id)
		w.disk(id).forgets.Store(uint64(kept))
		<-w.Start(id).Done()
		w.Crash(id) // its process has ended
		return id
	}},
	{"suspected", func(w *ward) raft.NodeID {
		kept := w.propose(1)
		w.Join("n4")
		w.Add("n4")
		require.NoError(w.t, w.Leader().TransferLeadership(w.t.Context(), "n4"))
		w.propose(1)
		w.Converge()
		w.Crash("n3")
		w.disk("n3").forgets.Store(uint64(kept))
		w.Start("n3")
		return "n3"
	}},
	{"earlier release", func(w *ward) raft.NodeID {
		id := w.away()
		w.mu.Lock()
		w.protocol[id] = raft.ProtocolSnapshots - 1
		w.mu.Unlock()
		w.Heal()
		return id
	}},
	{"needs a snapshot", func(w *ward) raft.NodeID {
		id := w.away()
		w.disk(id).full.Store(true)
		w.Heal()
		return id
	}},
	{"restoring", func(w *ward) raft.NodeID {
		w.propose(100)
		w.Converge()
		id := w.Follower().Status().ID
		w.restores.Store(true)
		w.Restart(id)
		return id
	}},
	{"hindered", func(w *ward) raft.NodeID {
		id := w.Follower().Status().ID
		w.hindered.Store(&id)
		return id
	}},
	{"behind", func(w *ward) raft.NodeID {
		id := w.Follower().Status().ID
		w.noSnapshot.Store(true) // else it needs a snapshot
		w.disk(id).slow.Store(int64(700 * time.Millisecond))
		leader := w.Leader()
		ctx, cancel := context.WithCancel(w.t.Context())
		w.t.Cleanup(cancel)
		go func() {
			for more := time.Tick(20 * time.Millisecond); ctx.Err() == nil; <-more {
				_, _ = leader.Propose(ctx, []byte("x")) // fails once the test ends
			}
		}()
		return id
	}},
	{"no leader", func(w *ward) raft.NodeID {
		none := func(m raft.Message) bool {
			switch m.Body.(type) {
			case raft.PreVoteRequest, raft.VoteRequest:
				return true
			}
			return false
		}
		w.lost.Store(&none)
		leader := w.Leader()
		w.Isolate(leader.Status().ID)
		w.Await("it steps down", func() bool { return leader.Status().Role != raft.Leader })
		w.Heal()
		return ""
	}},
	{"version skew", func(w *ward) raft.NodeID {
		w.mu.Lock()
		w.protocol["n3"] = raft.ProtocolNewest - 1
		w.mu.Unlock()
		w.Restart("n3")
		return "n3"
	}},
	{"small disk", func(w *ward) raft.NodeID {
		w.disk("n2").bytes.Store(1 << 20)
		w.Restart("n2")
		return "n2"
	}},
	{"snapshot fails", func(w *ward) raft.NodeID {
		w.noSnapshot.Store(true)
		w.propose(100)
		return "n1"
	}},
}

func (w *ward) others(id raft.NodeID) (ids []raft.NodeID) {
	for _, other := range w.IDs() {
		if other != id {
			ids = append(ids, other)
		}
	}
	return ids
}

// Each break gets its verdict first, about the right member.
func TestDiagnose_NamesTheBreakFirst(t *testing.T) {
	for _, row := range breaks {
		t.Run(row.verdict, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWard(t)
				id := row.harm(w)
				first := w.diagnosed(row.verdict).Findings[0]
				assert.Equal(t, string(id), first.Member)
				assert.NotEmpty(t, first.Says)
			})
		})
	}
}

// If one certificate of three is wrong, its owner refuses the other two, and each of them refuses it.
func TestDiagnose_BeginsWithTheMemberOfWhomTheMostSayIt(t *testing.T) {
	d := admin.Diagnose(t.Context(), []string{"http://n1", "http://n2", "http://n3"}, func(_ context.Context, url string) (admin.Status, error) {
		s := admin.Status{ID: strings.TrimPrefix(url, "http://"), Bootstrapped: true, Term: 1, Leader: "n1"}
		refused := []string{"n3"}
		if s.ID == "n3" {
			s.Leader, refused = "", []string{"n1", "n2"}
		}
		for _, id := range refused {
			s.Findings = append(s.Findings, admin.Finding{Verdict: node.VerdictCertificate, Member: id, Says: "unknown authority"})
		}
		return s, nil
	})
	require.NotEmpty(t, d.Findings)
	assert.Equal(t, admin.Finding{Verdict: node.VerdictCertificate, Severity: node.Degraded, Member: "n3", Says: "unknown authority"}, d.Findings[0].Finding)
	assert.Equal(t, []string{"n1 says of n3: unknown authority", "n2 says of n3: unknown authority"}, d.Findings[0].Evidence)
}
