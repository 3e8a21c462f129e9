package fuzzy

import (
	"cmp"
	"errors"
	"io"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/sim"
	"github.com/coxswain/raft/internal/snapfile"
)

// drawFiles draws the faults that may happen to snapshots. Like drawRare, it uses its own stream.
func drawFiles(seed Seed, p *Profile) {
	s := sim.NewStream(seed.Number, sim.Profile<<16)
	full, fails := drawRate(s), drawRate(s)
	p.Snapshots.BlockBytes, p.Snapshots.ReserveBytes = s.LogUniform(100, 4096), s.LogUniform(1, 1<<20)*s.IntN(2)
	old := s.IntN(p.Voters + p.Learners + 1)
	if s.IntN(8) == 0 && p.Snapshots.On && !p.Node.Durable {
		p.Snapshots.Old = old
	}
	if some := s.IntN(4); p.Snapshots.On && len(p.Faults) > 0 {
		if p.Members.on() { // the disks of members that join are often full
			some, full.Every = some|1, min(full.Every, sim.In(500*time.Millisecond))
		}
		full.Fault, fails.Fault = Full, FileFault
		p.Faults = append(p.Faults, [][]FaultRate{nil, {full}, {fails}, {full, fails}}[some]...)
	}
}

func drawRate(s *sim.Stream) FaultRate {
	return FaultRate{
		Every: s.LogTime(sim.In(300*time.Millisecond), sim.In(5*time.Second)),
		For:   s.LogTime(sim.In(10*time.Millisecond), sim.In(2*time.Second)),
	}
}

// protocol returns the protocol version of the member. The last of the initial members may run a release without snapshots,
// and the first ones a release without priorities.
func (n *node) protocol() uint16 {
	p := &n.c.profile
	switch {
	case n.upgraded || p.spare(n.index):
		return raft.ProtocolNewest
	case n.index >= p.Voters+p.Learners-p.Snapshots.Old:
		return 1
	case n.index < p.Members.Earlier:
		return raft.ProtocolMembership
	}
	return raft.ProtocolNewest
}

// carries returns the maximum number of bytes of records in an append to the member; 0 means no limit. Every other member has
// the profile's limit until the member is healed. The limit applies only if the host reports connections. Otherwise the host
// could not inform a core that the limit is gone.
func (n *node) carries() int {
	if n.upgraded || n.index%2 == 0 || !n.c.profile.Node.Connections {
		return 0
	}
	return n.c.profile.Node.Carries
}

// ofSnapshot reports whether a message exists only in protocol 2.
func ofSnapshot(b raft.Body) bool {
	_, offer := b.(raft.InstallSnapshot)
	return offer || isStream(b)
}

// snapshotsPath is the directory of the snapshots on a simulated disk.
const snapshotsPath = "snapshots"

// pathOf returns the name of a complete file.
func pathOf(file raft.SnapshotID) string { return snapfile.Open(nil, snapshotsPath).Path(file) }

// fileSystem is the part of a disk that holds the files of snapshots. The production code of the library writes and reads
// these files.
type fileSystem struct {
	random *sim.Stream
	tree   *crashdisk.Tree
	dir    *snapfile.Dir // as the running process has opened it

	fullTill sim.Time // the disk has little room before this time
	free     int64    // total bytes that its files may occupy until then
	spoiled  bool     // a file was damaged
	failed   bool     // a fault may have kept this life of the process from removing a file
	removed  string   // the path that a fault removed in this life of the process
	former   []byte   // an earlier file, which may replace another one
}

func newFileSystem(c *cluster, i int) fileSystem {
	return fileSystem{random: sim.NewStream(c.seed.Number, sim.DiskConcern<<24+sim.Concern(i)), tree: crashdisk.New()}
}

// fileSizes returns the sizes used in snapshot files. Its blocks are small, so that even small snapshots have many blocks.
func (p *Profile) fileSizes() snapfile.Sizes {
	return snapfile.Sizes{BlockBytes: cmp.Or(p.Snapshots.BlockBytes, snapshotSyncBytes), SyncBytes: 2 * snapshotSyncBytes}
}

// cut ends a life of the disk. An arbitrary part of the unsynced data survives.
func (f *fileSystem) cut() {
	keep := crashdisk.KeepNothing
	switch f.random.IntN(3) {
	case 0:
		keep = func() bool { return true }
	case 1:
		keep = f.random.Coin
	}
	f.tree.Cut(keep)
	f.dir, f.removed, f.failed = nil, "", false // a start opens no file that is not recorded
}

// fileCallsMax is higher than the number of calls needed to create or complete a file.
const fileCallsMax = 12

// cutFiles interrupts a process's work on its files. The interruption may come between any two calls.
func (n *node) cutFiles() {
	f, v := &n.disk.files, &n.vault
	if f.dir == nil {
		return
	}
	if v.writing {
		f.tree.StopAfter(f.random.IntN(fileCallsMax))
		_, _ = n.writeTaken()
	}
	if v.busy() {
		f.tree.StopAfter(f.random.IntN(fileCallsMax))
		_ = n.writeSpool()
	}
	f.cut()
}

// files returns the files of the running process.
func (n *node) files() *snapfile.Dir {
	f := &n.disk.files
	if f.fullTill > 0 && f.fullTill <= n.c.now() {
		f.roomAgain()
	}
	return f.dir
}

func (f *fileSystem) roomAgain() {
	f.fullTill = 0
	f.tree.Fill(false)
	f.tree.Quota(0)
}

// heal ends all faults of the disk except existing damage.
func (f *fileSystem) heal() {
	f.roomAgain()
	f.tree.FailAt(0, nil)
}

// space returns the room for snapshots on the disk.
func (n *node) space() pipeline.Space {
	free, err := n.files().Free()
	if err != nil {
		free = 0
	}
	return pipeline.Space{Free: free, Reserve: n.c.profile.reserve()}
}

// reserve returns the space that snapshots leave free.
func (p *Profile) reserve() int64 { return pipeline.Reserve(int64(p.Snapshots.ReserveBytes), 0, false) }

// announced returns the size that a frozen state announces; -1: none.
func (n *node) announced(f *snapFile) int64 {
	if n.disk.files.random.Coin() {
		return -1
	}
	return int64(len(f.payload))
}

// openFiles checks the file that the durable record names, as loading a store does. It returns false if the process
// ends.
func (n *node) openFiles() bool {
	if !n.c.profile.Snapshots.On {
		return true
	}
	f := &n.disk.files
	f.dir = snapfile.OpenSized(f.tree.FS(), snapshotsPath, n.c.profile.fileSizes())
	if n.disk.snapshot.File == (raft.SnapshotID{}) {
		return true
	}
	r, err := f.dir.OpenRecorded(n.disk.snapshot)
	if err == nil {
		err = r.Close()
	}
	if err != nil {
		n.cannotRead(n.disk.snapshot.ID, err)
	}
	return err == nil
}

// cannotRead ends a process that needs a file that it cannot read. A damaged disk stays damaged until its member is replaced
// or gets an empty disk.
func (n *node) cannotRead(id raft.EntryID, err error) {
	d := &n.disk
	n.c.check.checkUnreadable(n, id, err)
	n.crash()
	var corrupt *raft.CorruptError
	switch {
	case errors.As(err, &corrupt) && (d.files.random.Coin() || !n.mayEmpty()):
		d.damaged = true
		return
	case errors.As(err, &corrupt):
		n.empty()
	}
	n.restartIn(d.files.random.Exponential(n.c.profile.ElectionTimeout))
}

// cleanFiles removes every file but the recorded one. It returns false if the process ends.
func (n *node) cleanFiles() bool {
	if n.files() == nil {
		return true
	}
	_, err := n.files().Clean(n.disk.snapshot.File)
	if err != nil {
		n.cannotRead(n.disk.snapshot.ID, err)
		return false
	}
	n.c.check.checkCleaned(n)
	return true
}

// openSnapshot opens a complete file. The file of the recorded snapshot must match the record.
func (n *node) openSnapshot(file raft.SnapshotID) (*snapfile.Reader, error) {
	if recorded := n.disk.snapshot; recorded.File == file {
		return n.files().OpenRecorded(recorded)
	}
	return n.files().OpenRead(file)
}

// readSnapshot reads a whole snapshot.
func (n *node) readSnapshot(s *raft.Snapshot) ([]byte, error) { return read(n.openSnapshot(s.File)) }

func read(r *snapfile.Reader, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	payload := make([]byte, r.Size())
	if _, err = r.ReadAt(payload, 0); errors.Is(err, io.EOF) {
		err = nil
	}
	return payload, errors.Join(err, r.Close())
}

// empty replaces the disk by an empty one.
func (f *fileSystem) empty() {
	f.tree, f.spoiled, f.fullTill, f.former = crashdisk.New(), false, 0, nil
}

// spoiled reports whether a disk is lost or has an unreadable file.
func (d *disk) spoiled() bool { return d.damaged || len(d.ghosts) > 0 || d.files.spoiled }

// fill leaves a disk little or no room for snapshots for some time. Sometimes it also leaves no room for the disk's log.
func (m *nemesis) fill(c *cluster, n *node) {
	newest := c.newestCommitted()
	joins := c.profile.Members.on() && newest != nil && !votes(&newest.Configuration, n.peer())
	if !joins {
		n = c.busy(n)
	} else if n.disk.files.fullTill > c.now() {
		return
	}
	room, till, full, log := m.random.LogUniform(1, 2*max(c.profile.Snapshots.BytesMax, 1)), c.now()+m.random.Exponential(m.rate.For), m.random.Coin(), m.random.IntN(8)
	if joins { // for longer than a change waits for it, and after some bytes of a stream
		till, room, full = till+4*c.profile.Members.Patience, room+2*c.profile.Snapshots.ChunkBytes+4*c.profile.Snapshots.BlockBytes, false
	}
	if s := &n.disk.segments; c.profile.Segments.On && n.core != nil {
		s.fill(till)
	}
	f := &n.disk.files
	f.roomAgain()
	f.fullTill, f.free = till, f.tree.Used()
	if full {
		f.tree.Fill(true)
		n.disk.fails = n.disk.fails || log == 0
		return
	}
	f.free += c.profile.reserve() + int64(room)
	f.tree.Quota(f.free)
}

// busy returns a member that is writing a file. If there is none, it returns the given node.
func (c *cluster) busy(n *node) *node {
	for i := range c.nodes {
		if other := c.nodes[(n.index+i)%len(c.nodes)]; other.vault.file != nil || other.vault.spool != nil {
			return other
		}
	}
	return n
}

// spoilFile makes one of the next calls on the files of a disk fail. If another disk may be lost, it may instead damage a
// file.
func (m *nemesis) spoilFile(c *cluster, n *node) {
	damage, call, crash, wait := m.random.IntN(4), m.random.LogUniform(1, 30), m.random.Coin(), m.random.Exponential(m.rate.For)
	which, at := m.random.Uint64(), m.random.Uint64()
	if c.profile.Segments.On && n.disk.segments.random.Coin() {
		m.spoilLog(c, n, wait)
		return
	}
	f := &n.disk.files
	disk := f.tree.FS()
	list, err := disk.List(snapshotsPath)
	if damage > 0 || !m.mayLose(c, n) || err != nil || len(list) == 0 {
		busy := &c.busy(n).disk.files
		busy.failed = true
		busy.tree.FailAt(call, syscall.EIO)
		return
	}
	path := filepath.Join(snapshotsPath, list[which%uint64(len(list))].Name)
	content, err := contentOf(disk, path)
	if err != nil || len(content) == 0 {
		return
	}
	if f.former == nil && which>>40&1 == 0 {
		f.former = content // nothing is damaged yet
		return
	}
	f.spoiled = true
	switch which >> 32 % 8 {
	case 0:
		f.removed, err = path, disk.Remove(path)
	case 1, 2, 3:
		if f.former != nil {
			err = replace(disk, path, f.former)
			break
		}
		fallthrough
	default:
		content[at>>3%uint64(len(content))] ^= 1 << (at & 7)
		err = replace(disk, path, content)
	}
	c.faulted("%s of %s is damaged (%v)", path, n.name(), err)
	if crash && n.core != nil {
		n.crash()
		n.restartIn(wait)
	}
}

func contentOf(disk files.FS, path string) ([]byte, error) {
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	content := make([]byte, size)
	_, err = f.ReadAt(content, 0)
	return content, errors.Join(err, f.Close())
}

// replace durably replaces a file's content. A reader that has the file open continues to read the former content.
func replace(disk files.FS, path string, content []byte) error {
	if err := disk.Remove(path); err != nil {
		return err
	}
	f, err := disk.Create(path)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(content, 0); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), f.Close(), disk.SyncDir(filepath.Dir(path)))
}

// retireFiles removes the disks with a damaged file before the second phase, because their members may not have noticed the
// damage.
func (c *cluster) retireFiles() {
	for _, n := range c.nodes {
		if n.disk.files.spoiled && !n.disk.damaged {
			n.crash()
			n.disk.damaged = true
		}
	}
}
