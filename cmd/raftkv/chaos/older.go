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

// olderWait bounds the wait until all members have seen one, and until a member with an older image has ended.
const olderWait = 10 * time.Second

// older restarts a member with an older copy of its disk, after all others have seen its newer start. The member must end
// with a *StaleImageError or be kept out. Then its newest disk is put back, since chaos does not replace members. If
// a link is cut for so long that not all members have seen the newer start, nothing is injected: a member that has not seen
// it may accept the older image, and then the image must not be replaced again, because it may have acknowledged entries.
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

// status returns the member's status; the zero value if it does not answer.
func (w *world) status(ctx context.Context, m *member) api.Status {
	status, err := w.cluster.Status(ctx, m.Node)
	if err != nil {
		return api.Status{}
	}
	return status
}

// awaitSeen waits until the member is connected to all others: then they have seen its present start.
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

// awaitRefusal waits until the member has ended, or until olderWait is over, since it may be cut off. No member may accept
// it meanwhile: then it would know a leader, or a term above that of its newer disk.
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
