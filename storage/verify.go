package storage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/snapfile"
)

// Verdict says what a damaged place means.
type Verdict string

// The verdicts, the worst first. Meaning and Remedy say more.
const (
	VerdictRefused  Verdict = "refused"  // a start refuses the store
	VerdictSnapshot Verdict = "snapshot" // a member starts, and ends when it restores or sends its snapshot
	VerdictUnused   Verdict = "unused"   // a start deletes the file
	VerdictTorn     Verdict = "torn"     // a start cuts it off
)

// Meaning returns what a damaged place means, in a sentence without a full stop.
func (v Verdict) Meaning() string {
	switch v {
	case VerdictSnapshot:
		return "this snapshot cannot be restored or sent: a member that has to do so ends"
	case VerdictUnused:
		return "no record names this snapshot: the next start deletes it"
	case VerdictTorn:
		return "an interrupted write has left this at the end of the log, and nothing shows that it was ever durable: the next start cuts it off"
	}
	return "this was durable: a start refuses the store, and changes nothing"
}

// Remedy returns what an operator should do, in a sentence without a full stop.
func (v Verdict) Remedy() string {
	switch v {
	case VerdictUnused, VerdictTorn:
		return "nothing: start the member"
	}
	return "put the right file back if it was moved or exchanged, or else replace the member (raftkv serve --set-aside, storage.SetAside); " +
		"if a majority of the members is lost, keep this directory as it is"
}

// Finding is a damaged place in the directory of a store.
type Finding struct {
	File    string
	Where   string // the offset, the page or the record; "": the file is missing, or cannot be read
	Verdict Verdict
	Err     error // what is wrong there
}

// Verification is what Verify has found.
type Verification struct {
	Files     int        // that were read
	Bytes     int64      // size of these files
	Mark      *raft.Mark // no member starts on a marked store, even if it is sound; nil: it has no mark
	Findings  []Finding  // at most 100 for the log and for each snapshot
	Unchecked string     // what could not be checked because of a finding; "": nothing
}

// Err returns nil if a member can start on the store, and restore and send its snapshot. Otherwise it returns the error with which
// the member ends.
func (v Verification) Err() error {
	if v.Mark != nil {
		return v.Mark.Err()
	}
	for _, f := range v.Findings {
		if f.Verdict == VerdictRefused || f.Verdict == VerdictSnapshot {
			return f.Err
		}
	}
	return nil
}

const logUnchecked = "the log, because only " + BoltFile + " says what belongs to it"

// findingsMax is the maximum number of findings for the log, and for each snapshot.
const findingsMax = 100

// Verify reads every checksum in the directory of a stopped member: those of the records in raft.db, of all entries of the log, and
// of all snapshots. It also checks the structure of raft.db, and everything else that a start checks. It changes nothing. It
// reads as fast as the disk does, and ctx can end it early. Until it returns, no member can start there. Any goroutine may call
// it.
//
// Damage is no error: see Verification.Err. An error says that there is nothing to verify, or that this release cannot. It is one
// of those of Inspect, except *raft.CorruptError.
func Verify(ctx context.Context, dir string) (Verification, error) {
	v := verifier{ctx: ctx, dir: dir}
	s, err := openReading(ctx, dir)
	if err != nil {
		if !v.damage(VerdictRefused, err) {
			return Verification{}, err
		}
		v.count(filepath.Join(dir, BoltFile))
		v.Unchecked = logUnchecked
		return v.Verification, v.snapshots(nil)
	}
	defer s.close() // nothing was written
	recorded, err := v.store(s)
	if err != nil {
		return v.Verification, err
	}
	return v.Verification, v.snapshots(recorded)
}

// verifier is the state of Verify.
type verifier struct {
	Verification
	ctx context.Context
	dir string
}

// damage adds a finding if the error says that stored bytes are damaged or cannot be read, and reports whether it does.
func (v *verifier) damage(verdict Verdict, err error) bool {
	f := Finding{Verdict: verdict, Err: err}
	var corrupt *raft.CorruptError
	var unread *fs.PathError
	switch {
	case errors.As(err, &corrupt):
		f.File, f.Where = corrupt.File, corrupt.Where
	case errors.Is(err, syscall.EIO) && errors.As(err, &unread):
		f.File = unread.Path
	default:
		return false
	}
	same := func(other Finding) bool { return other.File == f.File && other.Where == f.Where }
	if !slices.ContainsFunc(v.Findings, same) {
		v.Findings = append(v.Findings, f)
	}
	return true
}

// store checks raft.db and the log as a start does. If it finds damage, it looks for all of it. It returns the recorded snapshot,
// or nil if damage hides which one that is.
func (v *verifier) store(s anyStore) (recorded *raft.Snapshot, err error) {
	v.count(s.path)
	stored, _, err := s.scanOwn(v.ctx)
	if err == nil || stored.Snapshot.ID != (raft.EntryID{}) {
		recorded = &stored.Snapshot
	}
	if s.log != nil {
		for _, h := range s.log.log.Held() {
			v.count(h.Path)
		}
	}
	v.Mark = s.lineage.mark
	if err == nil {
		err = v.start(s, stored)
	}
	if v.ctx.Err() != nil {
		return nil, explain("reading", s.path, v.ctx.Err())
	}
	if err == nil || !v.damage(VerdictRefused, err) {
		return recorded, err
	}
	v.records(s)
	if s.log != nil && len(s.log.log.Catalog().Listed) == 0 {
		v.Unchecked = logUnchecked
	}
	places, err := s.home.damages(v.ctx, findingsMax)
	for _, place := range places {
		v.damage(VerdictRefused, place)
	}
	return recorded, err
}

// start checks what the core checks at a start.
func (v *verifier) start(s anyStore, stored raft.Stored) error {
	if s.log != nil && s.log.torn != nil {
		v.damage(VerdictTorn, s.log.torn)
	}
	if installInterrupted(&stored.Log, stored.Snapshot) {
		stored.Log = emptyLog(stored.Snapshot.Base)
	}
	stored.Applied = stored.Log.Base.ID // of a DurableFSM, only its own state says more
	err := stored.Check()
	if damage := (*raft.CorruptError)(nil); errors.As(err, &damage) && damage.File != s.path { // it names no file
		return &raft.CorruptError{File: s.path, Where: damage.File + ", " + damage.Where, Reason: damage.Reason}
	}
	return err
}

// records checks each record in raft.db by itself.
func (v *verifier) records(s anyStore) {
	_ = s.guard("reading", func() error { // what scan has found is in the findings already
		return s.db.View(func(tx *bbolt.Tx) error {
			for _, r := range storedRecords {
				in := tx.Bucket(r.bucket)
				if in == nil || in.Get(r.key) == nil {
					continue
				}
				if _, err := unsealed(in.Get(r.key)); err != nil {
					v.damage(VerdictRefused, damaged(s.path, r.name, err))
				}
			}
			return nil
		})
	})
}

// snapshots checks every complete snapshot. If recorded is nil, it is not known which one the store has recorded.
func (v *verifier) snapshots(recorded *raft.Snapshot) error {
	dir := snapfile.Open(files.ReadOnly(files.OS), filepath.Join(v.dir, snapshotDir))
	list, err := dir.Files()
	if err != nil {
		return explain("reading", filepath.Join(v.dir, snapshotDir), err)
	}
	for _, f := range list {
		if !f.Whole || recorded != nil && f.ID == recorded.File {
			continue
		}
		verdict := VerdictUnused
		if recorded == nil {
			verdict = VerdictSnapshot
		}
		r, err := dir.OpenRead(f.ID)
		if err := v.snapshot(r, err, verdict, verdict); err != nil {
			return err
		}
	}
	if recorded == nil || recorded.File == (raft.SnapshotID{}) {
		return nil
	}
	r, err := dir.OpenRecorded(*recorded)
	return v.snapshot(r, err, VerdictRefused, VerdictSnapshot)
}

// snapshot checks one snapshot. A start checks its head and its end, and a restore checks the rest.
func (v *verifier) snapshot(r *snapfile.Reader, err error, atStart, atRestore Verdict) error {
	if err != nil {
		if v.damage(atStart, err) {
			return nil
		}
		return explainSnapshot(err)
	}
	v.count(r.Path())
	places, err := r.Check(v.ctx, findingsMax)
	for _, place := range places {
		v.damage(atRestore, place)
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return explain("reading", r.Path(), err)
	}
	return nil
}

func (v *verifier) count(file string) {
	if info, err := os.Stat(file); err == nil {
		v.Files, v.Bytes = v.Files+1, v.Bytes+info.Size()
	}
}
