package fuzzy

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/sim"
)

// Segments sets how members keep their logs in segments.
type Segments struct {
	On          bool
	Bytes       int // of a segment
	FirstBytes  int // of the first one
	BatchBytes  int
	MarkBytes   int
	BufferBytes int
	Tend        sim.Time // mean time until a process that has written maintains its segments
}

// SegmentStats counts the events in logs that are kept in segments.
type SegmentStats struct {
	Truncations, Resets, Rolled, Pruned int
	Failed, Waits                       int // writes that failed, or waited for room
	NoRoom, Transfers                   int // proposals refused because of a full disk; attempts to transfer leadership then
	Shortenings, HeldBack               int // snapshots requested then; messages that waited for them
	Prefixes, CutStarts                 int // partial writes that starts have found; starts that were cut short
	Damages, Refused, Shortened         int
}

// segmentsMax is roughly the maximum number of segments in the log of a run. The cost of a new segment is proportional to the
// number of segments, because the list of all segments is encoded and kept again.
const segmentsMax = 10_000

// drawSegments makes members keep their logs in segments in a third of the runs of some profiles. It uses its own stream, so
// that the other runs do not change.
func drawSegments(seed Seed, p *Profile) {
	s := sim.NewStream(seed.Number, sim.Profile<<32)
	on := s.IntN(3) == 0
	drawn := Segments{
		On: true, Bytes: 512 * s.LogUniform(3, 24), FirstBytes: 512 * s.LogUniform(2, 12), BatchBytes: s.LogUniform(100, 4000),
		MarkBytes: s.LogUniform(100, 2000), BufferBytes: s.LogUniform(64, 8192),
		Tend: s.LogTime(p.ElectionTimeout/50, 2*p.ElectionTimeout),
	}
	drawn.Bytes = max(drawn.Bytes, 512*(p.Load.mostBytes(p.Length)/segmentsMax/512))
	full, fails, some := drawRate(s), drawRate(s), s.IntN(4)
	switch p.Name {
	case "swarm", "alone", "bootstrap", "beyond", "images", "snapshots", "durable", "members", "history", "recoveries":
		if on {
			p.Segments = drawn
		}
	case "segments":
		p.Segments, some = drawn, 3
		full.Every, fails.Every = min(full.Every, p.Length/4), min(fails.Every, p.Length/8)
	}
	if !p.Segments.On || len(p.Faults) == 0 {
		return
	}
	full.Fault, fails.Fault = Full, FileFault
	for _, r := range [][]FaultRate{nil, {full}, {fails}, {full, fails}}[some] {
		if !slices.ContainsFunc(p.Faults, func(o FaultRate) bool { return o.Fault == r.Fault }) {
			p.Faults = append(p.Faults, r)
		}
	}
}

// shapeSegments makes logs grow, be truncated and begin anew. Meanwhile disks fail, fill up and lose unsynced data.
func shapeSegments(s *sim.Stream, p *Profile) {
	p.Voters, p.Learners, p.World, p.Limits = sim.Pick(s, 1, 3, 3, 3, 5), 0, World{}, generousLimits()
	p.Length, p.FaultsFrom = s.LogTime(sim.In(3*time.Second), sim.In(8*time.Second)), 0
	p.Network = sim.NetworkFaults{Delay: sim.Delay{Mean: s.LogTime(sim.In(time.Millisecond), sim.In(10*time.Millisecond))}}
	p.Load.Think, p.Load.Patience = s.LogTime(sim.In(2*time.Millisecond), sim.In(50*time.Millisecond)), p.ElectionTimeout
	p.Load.BytesMax, p.Load.Burst, p.Load.History = sim.Pick(s, 32, 32, 300, 3000), sim.Pick(s, 1, 4, 20), false
	p.Faults = nil
	for _, kind := range []FaultKind{Crash, PowerCut, Usurp, DiskFailure} {
		p.Faults = append(p.Faults, FaultRate{kind, s.LogTime(p.Length/20, p.Length/4), s.LogTime(sim.In(20*time.Millisecond), sim.In(500*time.Millisecond))})
	}
	if s.Coin() {
		drawSnapshots(s, p)
		p.Node.Durable = s.IntN(4) == 0
	}
}

// fill limits a disk for some time in one of three ways. The disk has no room for another segment, or it takes no write at
// all, or the process can open only few files.
func (s *segmented) fill(till sim.Time) {
	s.room()
	s.fullTill = till
	switch s.random.IntN(8) {
	case 0:
		s.full = true
		s.tree.Fill(true)
	case 1, 2:
		s.tree.FailOpens(s.random.IntN(4))
	default:
		s.tree.Quota(s.tree.Used())
	}
}

// heal ends all faults of the disk except existing damage.
func (d *disk) heal() {
	d.files.heal()
	d.segments.room()
	d.segments.fullTill, d.segments.failing = 0, false
}

// spoilLog makes the next write fail. If another disk may be lost, it may instead damage a segment.
func (m *nemesis) spoilLog(c *cluster, n *node, wait sim.Time) {
	s := &n.disk.segments
	if s.random.Coin() || !m.mayLose(c, n) || n.disk.segments.ahead {
		n.disk.fails = true
		return
	}
	remember := s.former == nil && s.random.Coin()
	if !remember {
		n.crash()
		n.restartIn(wait)
	}
	disk := s.tree.FS()
	list, err := disk.List(logPath)
	if err != nil || len(list) == 0 {
		return
	}
	path := filepath.Join(logPath, list[s.random.IntN(len(list))].Name)
	switch s.random.IntN(4) {
	case 0:
		path = cmp.Or(s.formerAt, path)
	case 1, 2:
		path = cmp.Or(s.lastPath(), path)
	}
	content, err := contentOf(disk, path)
	if err != nil || len(content) == 0 {
		return
	}
	if remember {
		s.former, s.formerAt = content, path
		return
	}
	last := path == s.lastPath() // what the damage destroys may pass for entries that were never written
	n.disk.files.spoiled, s.spoiled = true, true
	c.stats.Segments.Damages++
	what := s.random.IntN(8)
	switch other := list[s.random.IntN(len(list))].Name; {
	case what == 0:
		err = disk.Remove(path)
	case path == s.formerAt && !last && what < 4:
		err = replace(disk, path, s.former)
	case what == 2:
		err = swap(disk, path, filepath.Join(logPath, other))
	case what == 3:
		err = replace(disk, path, make([]byte, len(content)))
	case what == 4 && !last:
		at := s.random.IntN(len(content)) / 512 * 512
		clear(content[at:min(at+512, len(content))])
		err = replace(disk, path, content)
	default:
		content[s.random.IntN(len(bytes.TrimRight(content, "\x00"))+1)%len(content)] ^= 1 << s.random.IntN(8)
		err = replace(disk, path, content)
	}
	c.faulted("%s of %s is damaged (%v; %v)", path, n.id, err, time.Duration(wait))
}

// lastPath returns the path of the segment that is written to.
func (s *segmented) lastPath() string {
	n := len(s.catalog.Listed)
	if n == 0 {
		return ""
	}
	return filepath.Join(logPath, fmt.Sprintf("%016x.seg", s.catalog.Listed[n-1].Number))
}

// swap exchanges the contents of two files.
func swap(disk files.FS, a, b string) error {
	content, err := contentOf(disk, a)
	if err != nil {
		return err
	}
	other, err := contentOf(disk, b)
	if err != nil {
		return err
	}
	if err := replace(disk, a, other); err != nil {
		return err
	}
	return replace(disk, b, content)
}
