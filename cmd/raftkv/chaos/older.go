package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/coxswain/raft/cmd/raftkv/internal/api"
	"github.com/coxswain/raft/fuzzy"
)

// olderWait is how long a member is given to be seen by all, and, with an older image, to end.
const olderWait = 10 * time.Second

// older brings a member back with an older copy of its disk, after all others have seen its newer start. It has
// to end with a *StaleImageError, or to be kept out; its newest disk is put back then, since a lost member
// cannot be replaced yet. Nothing is injected where a link is cut for so long that not all have seen it: what an
// older image acknowledges to those who cannot tell must not be taken away again.
func (w *world) older(ctx context.Context, f Fault, m *member) error {
	if m.isWiped() {
		return nil
	}
	dir, err := os.MkdirTemp(w.dir, "images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	old, newest := filepath.Join(dir, "older"), filepath.Join(dir, "newest")
	w.kill(m)
	if err := errors.Join(m.disk.copyTo(old), w.start(m)); err != nil {
		return err
	}
	rest(ctx, f.For)
	newer, seen := w.awaitSeen(ctx, m)
	if !seen {
		return nil
	}
	w.kill(m)
	m.images.Add(1)
	if err := errors.Join(m.disk.copyTo(newest), m.disk.become(old), w.start(m)); err != nil {
		return err
	}
	m.outdate()
	w.count(f, "%s, %v after its copy", m.ID, f.For)
	w.awaitRefusal(ctx, m, newer)
	w.kill(m)
	m.images.Add(1)
	return m.disk.become(newest)
}

// status returns what the member says of itself; nothing if it does not answer.
func (w *world) status(ctx context.Context, m *member) api.Status {
	status, err := w.cluster.Status(ctx, m.Node)
	if err != nil {
		return api.Status{}
	}
	return status
}

// awaitSeen waits until the member is connected to all others, which have seen its present start then.
func (w *world) awaitSeen(ctx context.Context, m *member) (status api.Status, seen bool) {
	ctx, cancel := context.WithTimeout(ctx, olderWait)
	defer cancel()
	for ctx.Err() == nil {
		status, connected := w.status(ctx, m), 0
		for _, other := range status.Members {
			if i := w.index(other.ID); other.Connected || i >= 0 && w.members[i].isWiped() {
				connected++
			}
		}
		if connected == w.Nodes {
			return status, true
		}
		rest(ctx, lookPause)
	}
	return api.Status{}, false
}

// awaitRefusal waits until the member has ended, and for a while if it does not: it may be cut off. It must not be
// let in meanwhile, which it would tell by knowing a leader, or a term that it did not know on its newer disk.
func (w *world) awaitRefusal(ctx context.Context, m *member, newer api.Status) {
	ctx, cancel := context.WithTimeout(ctx, olderWait)
	defer cancel()
	for p := w.cluster.Process(m.ID); p.Running() && ctx.Err() == nil; rest(ctx, lookPause) {
		now := w.status(ctx, m)
		if now.Leader != "" || now.Term > newer.Term {
			w.fail(fuzzy.Safety, "an older image is kept out", "%s came back with an older copy of its disk, all others having seen "+
				"its newer start, and was let in: it is at start %d, follows %q in term %d", m.ID, now.StartCount, now.Leader, now.Term)
			return
		}
	}
}
