package processes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
)

// snapshotPolicy makes each member take a snapshot every second or two. With the ballast, a member needs about a second to
// take or send a snapshot.
var snapshotPolicy = []string{
	"--snapshot-entries", "400", "--snapshot-log-bytes", "1MiB", "--snapshot-tail-bytes", "64KiB",
	"--snapshot-hold-bytes", "1MiB", "--snapshot-rate", "2MiB",
}

const (
	ballastKeys  = 64
	ballastBytes = 32 << 10 // size of each value
	ballastPause = 100 * time.Millisecond
	// logBytesMax bounds the log of every member, even if clients write much. A member removes a segment a moment after a
	// snapshot covers it. Until then, LogBytes counts the whole segment, so the log may be longer by one segment.
	logBytesMax     = 32<<20 + segmentBytesMax
	segmentBytesMax = 32 << 20 // the default of storage.LogOptions
	// awayMax bounds the time for which a member is kept down. The member stays down until the leader's log no longer holds
	// the entries that the member lacks.
	awayMax = 20 * time.Second
	// aimMax bounds the wait for a moment when a member takes, sends or receives a snapshot.
	aimMax   = 3 * time.Second
	aimPause = 10 * time.Millisecond
)

// ballast writes values that make snapshots and the log large. At the end, the run compares its keys like those of the
// workload.
type ballast struct {
	members []*client.Client
	written atomic.Int64 // bytes of acknowledged values
	number  int          // number of the next write
}

func (w *world) newBallast() (b *ballast, closeIdle func()) {
	shared := client.NewHTTP(1, time.Second)
	b = &ballast{}
	for _, m := range w.members {
		b.members = append(b.members, m.Client(shared))
	}
	return b, shared.CloseIdleConnections
}

func ballastKey(i int) string { return fmt.Sprintf("ballast/%d", i%ballastKeys) }

// write writes the next value, and reports whether it was acknowledged.
func (b *ballast) write(ctx context.Context) bool {
	value := bytes.Repeat([]byte{byte('a' + b.number/ballastKeys%26)}, ballastBytes)
	_, err := client.Try(ctx, b.members, func(c *client.Client) (api.Written, error) {
		return c.Put(ctx, ballastKey(b.number), value, client.Condition{})
	})
	if err != nil {
		return false
	}
	b.number++
	b.written.Add(ballastBytes)
	return true
}

// startBallast writes every key of the ballast once, and then continues more slowly until stop is called.
func (w *world) startBallast(ctx context.Context) (stop func(), loaded bool) {
	b, closeIdle := w.newBallast()
	w.ballast = b
	if !w.await(ctx, "a new cluster serves", "its first values were not written", func() bool {
		b.write(ctx)
		return b.number >= ballastKeys
	}) {
		closeIdle()
		return func() {}, false
	}
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() {
		defer closeIdle()
		for ctx.Err() == nil {
			b.write(ctx)
			pause(ctx, ballastPause)
		}
	})
	return func() { cancel(); working.Wait() }, true
}

// keys returns the keys that all members must agree on.
func (w *world) keys() []string {
	keys := w.work.Keys()
	for i := range ballastKeys {
		keys = append(keys, ballastKey(i))
	}
	return keys
}

// away keeps a member down until the member needs a snapshot. In half of the cases, away resets the connections to the member
// while it receives the snapshot. The leader must then resume the stream.
func (w *world) away(ctx context.Context, f Fault, m *member) error {
	behind, err := w.sendAway(ctx, m)
	if err != nil || !behind || f.Random>>16&1 != 0 {
		return err
	}
	half := func(s admin.Snapshot) bool { return receives(s) && s.Receiving.Done > s.Receiving.Total/3 }
	if receiver := w.aim(ctx, m, half); receiver != nil {
		w.note("%-14s %s receives a snapshot, and its connections are reset", f.Kind, receiver.ID)
		for _, p := range w.to(w.index(receiver.ID)) {
			p.drop()
		}
	}
	return nil
}

// sendAway keeps the member down until some leader's log begins after every entry that the member can have. Then it starts
// the member again. It returns false if that takes too long, or if the others have no leader. The others may have no leader
// because they may not be a majority.
func (w *world) sendAway(ctx context.Context, m *member) (behind bool, err error) {
	if w.cannotSpareOne() {
		w.miss(Away) // without it nothing is written
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, awayMax)
	defer cancel()
	w.kill(m)
	began, led, last := time.Now(), time.Now(), uint64(0)
	for ; !behind && ctx.Err() == nil && time.Since(led) < leaderWait; pause(ctx, lookPause) {
		var end, base uint64
		for _, s := range w.cluster.Statuses(ctx) {
			end = max(end, s.Last)
			if s.Role == "leader" {
				base, led = max(base, s.Base), time.Now()
			}
		}
		if last == 0 {
			last = end // the member is down, so it has nothing beyond
		}
		if behind = last > 0 && base > last; behind {
			w.count(Fault{Kind: Away}, "%s, for %v, until a log began behind entry %d", m.ID, time.Since(began), base)
		}
	}
	if !behind {
		w.miss(Away)
	}
	return behind, w.start(m)
}

// miss records that a fault was aimed at a certain moment, and that this moment did not come.
func (w *world) miss(k Kind) {
	w.note("%-14s its moment did not come", k)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Missed[k]++
}

// The moments that faults are aimed at.
func takes(s admin.Snapshot) bool    { return s.Taking != nil }
func sends(s admin.Snapshot) bool    { return s.Sending != nil }
func receives(s admin.Snapshot) bool { return s.Receiving != nil }
func writes(s admin.Snapshot) bool   { return takes(s) || receives(s) }

// aim waits until a member is at the given moment, and returns the member. If several are, it returns the preferred member.
// It returns nil if no member is at the moment within aimMax.
func (w *world) aim(ctx context.Context, preferred *member, does func(admin.Snapshot) bool) (found *member) {
	ctx, cancel := context.WithTimeout(ctx, aimMax)
	defer cancel()
	for ; found == nil && ctx.Err() == nil; pause(ctx, aimPause) {
		for i, s := range w.cluster.Statuses(ctx) {
			if does(s.Snapshot) && (found == nil || w.members[i] == preferred) {
				found = w.members[i]
			}
		}
	}
	return found
}

// killAimed kills a member while it takes, sends or receives a snapshot.
func (w *world) killAimed(ctx context.Context, f Fault, m *member) error {
	does := map[Kind]func(admin.Snapshot) bool{KillTaking: takes, KillSending: sends, KillReceiving: receives}[f.Kind]
	if f.Kind != KillTaking {
		if behind, err := w.sendAway(ctx, m); err != nil || !behind {
			return err
		}
	}
	victim := w.aim(ctx, m, does)
	if victim == nil {
		w.miss(f.Kind)
		return nil
	}
	w.kill(victim)
	w.count(f, "%s, for %v", victim.ID, f.For)
	pause(ctx, f.For)
	return nil
}

// aimed reports whether a disk fault waits until a member writes a snapshot.
func (f Fault) aimed() bool {
	return (f.Kind == FullDisk || f.Kind == PowerCut) && f.Random>>16&1 == 0
}

// whileWriting returns the member whose disk is to fail. If some member writes a snapshot, whileWriting returns such a
// member.
func (w *world) whileWriting(ctx context.Context, f Fault, m *member) *member {
	found := w.aim(ctx, m, writes)
	if found == nil {
		return m
	}
	w.note("%-14s %s writes a snapshot", f.Kind, found.ID)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Snapshots.DisksFailed++
	return found
}

// snapshotLines are the members' log lines about snapshots.
var snapshotLines = []struct {
	text  string
	count func(*Snapshots) *int
}{
	{"a snapshot was taken:", func(s *Snapshots) *int { return &s.Taken }},
	{`a problem has begun: verdict="snapshot fails"`, func(s *Snapshots) *int { return &s.Failed }},
	{"a snapshot was sent:", func(s *Snapshots) *int { return &s.Sent }},
	{"the sending of a snapshot resumes:", func(s *Snapshots) *int { return &s.Resumed }},
	{"a snapshot was received:", func(s *Snapshots) *int { return &s.Received }},
	{"a snapshot was not received:", func(s *Snapshots) *int { return &s.Refused }},
	{"the FSM was restored:", func(s *Snapshots) *int { return &s.Restored }},
}

// countSnapshots counts the log lines about snapshots of all members, including members that were removed.
func (w *world) countSnapshots() (err error) {
	for _, m := range w.members {
		log, openErr := os.Open(filepath.Join(w.dir, m.ID+".log"))
		if errors.Is(openErr, os.ErrNotExist) {
			continue // the member was never started
		}
		if openErr != nil {
			return openErr
		}
		err = errors.Join(err, w.report.Snapshots.countLines(bufio.NewScanner(log)), log.Close())
	}
	if w.ballast != nil {
		w.report.Snapshots.Written = w.ballast.written.Load()
	}
	return err
}

func (s *Snapshots) countLines(lines *bufio.Scanner) error {
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		for _, row := range snapshotLines {
			if strings.Contains(lines.Text(), row.text) {
				*row.count(s)++
			}
		}
	}
	return lines.Err()
}

// checkLog fails the run if the log of a member is longer than snapshots should allow.
func (w *world) checkLog(s api.Status) {
	if s.LogBytes > logBytesMax {
		w.fail(fuzzy.Liveness, "the log stays bounded", "%s has a log of %d bytes, over %d: it begins behind entry %d, and its newest "+
			"snapshot covers entry %d (%s)", s.ID, s.LogBytes, logBytesMax, s.Base, s.Snapshot.Last, s.Snapshot.Error)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Snapshots.LogBytes = max(w.report.Snapshots.LogBytes, s.LogBytes)
}
