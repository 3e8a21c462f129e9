package fuzzy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coxswain/raft/internal/sessions"
	"github.com/coxswain/raft/internal/sim"
)

// setting is a named value of a profile. A case lists the settings that are not plain. Shrinking makes settings plain one by
// one.
type setting struct {
	name     string
	at       func(p *Profile) any // points to an int, a bool, a sim.Time, a sim.Delay or a string
	min, max int64                // limits of an int, or of a sim.Time in nanoseconds
}

const (
	timeMax  = int64(time.Hour)
	bytesMax = 1 << 20
)

var settings = []setting{
	{"profile", func(p *Profile) any { return &p.Name }, 0, 0},
	{"voters", func(p *Profile) any { return &p.Voters }, 1, 9},
	{"learners", func(p *Profile) any { return &p.Learners }, 0, 4},
	{"election-timeout", func(p *Profile) any { return &p.ElectionTimeout }, int64(10 * time.Millisecond), timeMax},
	{"length", func(p *Profile) any { return &p.Length }, 1, int64(24 * time.Hour)},
	{"faults-from", func(p *Profile) any { return &p.FaultsFrom }, 0, timeMax},
	{"beyond-budget", func(p *Profile) any { return &p.Beyond }, 0, 0},

	{"network-loss", func(p *Profile) any { return &p.Network.Loss }, 0, sim.Million},
	{"network-burst-begin", func(p *Profile) any { return &p.Network.BurstBegin }, 0, sim.Million},
	{"network-burst-end", func(p *Profile) any { return &p.Network.BurstEnd }, 0, sim.Million},
	{"network-duplicate", func(p *Profile) any { return &p.Network.Duplicate }, 0, sim.Million},
	{"network-replay", func(p *Profile) any { return &p.Network.Replay }, 0, sim.Million},
	{"network-replay-max", func(p *Profile) any { return &p.Network.ReplayMax }, 0, timeMax},
	{"network-misdeliver", func(p *Profile) any { return &p.Network.Misdeliver }, 0, sim.Million},
	{"network-corrupt", func(p *Profile) any { return &p.Network.Corrupt }, 0, sim.Million},
	{"network-bandwidth", func(p *Profile) any { return &p.Network.Bandwidth }, 0, 1 << 30},
	{"network-capacity", func(p *Profile) any { return &p.Network.Capacity }, 0, 1 << 20},
	{"network-fifo", func(p *Profile) any { return &p.Network.FIFO }, 0, 0},
	{"network-delay", func(p *Profile) any { return &p.Network.Delay }, 0, 0},

	{"node-codec", func(p *Profile) any { return &p.Node.Codec }, 0, sim.Million},
	{"node-step-delay", func(p *Profile) any { return &p.Node.StepDelay }, 0, 0},
	{"node-disk-delay", func(p *Profile) any { return &p.Node.DiskDelay }, 0, 0},
	{"node-disk-stall-max", func(p *Profile) any { return &p.Node.DiskStallMax }, 0, timeMax},
	{"node-apply-stall-max", func(p *Profile) any { return &p.Node.ApplyStallMax }, 0, timeMax},
	{"node-unequal", func(p *Profile) any { return &p.Node.Unequal }, 0, 64},
	{"node-unlike", func(p *Profile) any { return &p.Node.Unlike }, 0, 0},
	{"node-preferences", func(p *Profile) any { return &p.Node.Preferences }, 0, ownPreferences},
	{"node-merge-max", func(p *Profile) any { return &p.Node.MergeMax }, 1, 1 << 20},
	{"node-cache-bytes", func(p *Profile) any { return &p.Node.CacheBytesMax }, 1, 1 << 30},
	{"node-atomic", func(p *Profile) any { return &p.Node.Atomic }, 0, 0},
	{"node-late-persisted", func(p *Profile) any { return &p.Node.LatePersisted }, 0, sim.Million},
	{"node-late-send", func(p *Profile) any { return &p.Node.LateSend }, 0, sim.Million},
	{"node-send-wait", func(p *Profile) any { return &p.Node.SendWait }, 0, timeMax},
	{"node-drop-span", func(p *Profile) any { return &p.Node.DropSpan }, 0, sim.Million},
	{"node-spurious", func(p *Profile) any { return &p.Node.Spurious }, 0, sim.Million},
	{"node-punctual", func(p *Profile) any { return &p.Node.Punctual }, 0, 0},
	{"node-connections", func(p *Profile) any { return &p.Node.Connections }, 0, 0},
	{"node-notice", func(p *Profile) any { return &p.Node.Notice }, 0, timeMax},
	{"node-one-seed", func(p *Profile) any { return &p.Node.OneSeed }, 0, 0},
	{"node-handshakes", func(p *Profile) any { return &p.Node.Handshakes }, 0, 0},
	{"node-starts", func(p *Profile) any { return &p.Node.Starts }, 0, 100},
	{"node-other-lists", func(p *Profile) any { return &p.Node.OtherLists }, 0, sim.Million},
	{"node-late-lists", func(p *Profile) any { return &p.Node.LateLists }, 0, sim.Million},
	{"node-told", func(p *Profile) any { return &p.Node.Told }, 0, sim.Million},
	{"node-told-after", func(p *Profile) any { return &p.Node.ToldAfter }, 0, timeMax},
	{"node-seekers", func(p *Profile) any { return &p.Node.Seekers }, 0, sim.Million},
	{"node-open-lists", func(p *Profile) any { return &p.Node.OpenLists }, 0, sim.Million},
	{"node-durable", func(p *Profile) any { return &p.Node.Durable }, 0, 0},
	{"node-versions", func(p *Profile) any { return &p.Node.Versions }, 0, sim.Million},
	{"node-compact", func(p *Profile) any { return &p.Node.Compact }, 0, sim.Million},
	{"node-differ", func(p *Profile) any { return &p.Node.Differ }, 0, sim.Million},
	{"node-late-write", func(p *Profile) any { return &p.Node.LateWrite }, 0, sim.Million},
	{"node-late-wait", func(p *Profile) any { return &p.Node.LateWait }, 0, timeMax},
	{"node-stuck", func(p *Profile) any { return &p.Node.Stuck }, 0, sim.Million},
	{"node-pause-max", func(p *Profile) any { return &p.Node.PauseMax }, 0, timeMax},
	{"node-dozes", func(p *Profile) any { return &p.Node.Dozes }, 0, 1000},
	{"node-carries", func(p *Profile) any { return &p.Node.Carries }, 0, bytesMax},
	{"node-works", func(p *Profile) any { return &p.Node.Works }, 0, sim.Million},
	{"node-work-stop-max", func(p *Profile) any { return &p.Node.WorkStopMax }, 0, timeMax},
	{"node-work-stop", func(p *Profile) any { return &p.Node.WorkStop }, 0, timeMax},
	{"node-emptied-at", func(p *Profile) any { return &p.Node.EmptiedAt }, 0, 9},
	{"node-drift-max", func(p *Profile) any { return &p.Node.DriftMax }, 0, sim.Million / 2},

	{"limit-command-bytes", func(p *Profile) any { return &p.Limits.CommandBytesMax }, 1, 1 << 20},
	{"limit-proposals", func(p *Profile) any { return &p.Limits.ProposalsMax }, 1, 1 << 20},
	{"limit-uncommitted-bytes", func(p *Profile) any { return &p.Limits.ProposalBytesMax }, 1, 1 << 30},
	{"limit-unapplied", func(p *Profile) any { return &p.Limits.UnappliedMax }, 1, 1 << 20},
	{"limit-append-bytes", func(p *Profile) any { return &p.Limits.AppendBytesMax }, 1, 1 << 24},
	{"limit-inflight", func(p *Profile) any { return &p.Limits.InflightMax }, 1, 1 << 16},
	{"limit-inflight-bytes", func(p *Profile) any { return &p.Limits.InflightBytesMax }, 1, 1 << 30},
	{"limit-snapshot-entries", func(p *Profile) any { return &p.Limits.SnapshotEntries }, 0, 1 << 30},
	{"limit-snapshot-log-bytes", func(p *Profile) any { return &p.Limits.SnapshotLogBytes }, 0, 1 << 30},
	{"limit-snapshot-tail-bytes", func(p *Profile) any { return &p.Limits.SnapshotTailBytes }, 0, 1 << 30},
	{"limit-snapshot-hold-bytes", func(p *Profile) any { return &p.Limits.SnapshotHoldBytes }, 0, 1 << 30},

	{"snapshots", func(p *Profile) any { return &p.Snapshots.On }, 0, 0},
	{"snapshot-bytes", func(p *Profile) any { return &p.Snapshots.BytesMax }, 0, bytesMax},
	{"snapshot-failures", func(p *Profile) any { return &p.Snapshots.Failures }, 0, sim.Million},
	{"snapshot-chunk-bytes", func(p *Profile) any { return &p.Snapshots.ChunkBytes }, 0, bytesMax},
	{"snapshot-window-chunks", func(p *Profile) any { return &p.Snapshots.WindowChunks }, 0, 1 << 20},
	{"snapshot-bytes-per-second", func(p *Profile) any { return &p.Snapshots.BytesPerSecond }, 0, 1 << 30},

	{"snapshot-reserve-bytes", func(p *Profile) any { return &p.Snapshots.ReserveBytes }, 0, bytesMax},
	{"snapshot-block-bytes", func(p *Profile) any { return &p.Snapshots.BlockBytes }, 0, bytesMax},
	{"snapshot-old-members", func(p *Profile) any { return &p.Snapshots.Old }, 0, 13},

	{"segments", func(p *Profile) any { return &p.Segments.On }, 0, 0},
	{"segment-bytes", func(p *Profile) any { return &p.Segments.Bytes }, 0, bytesMax},
	{"segment-bytes-first", func(p *Profile) any { return &p.Segments.FirstBytes }, 0, bytesMax},
	{"segment-batch-bytes", func(p *Profile) any { return &p.Segments.BatchBytes }, 0, bytesMax},
	{"segment-mark-bytes", func(p *Profile) any { return &p.Segments.MarkBytes }, 0, bytesMax},
	{"segment-buffer-bytes", func(p *Profile) any { return &p.Segments.BufferBytes }, 0, bytesMax},
	{"segment-tend", func(p *Profile) any { return &p.Segments.Tend }, 0, timeMax},

	{"members-spares", func(p *Profile) any { return &p.Members.Spares }, 0, 9},
	{"members-twins", func(p *Profile) any { return &p.Members.Twins }, 0, 9},
	{"members-admins", func(p *Profile) any { return &p.Members.Admins }, 0, 9},
	{"members-think", func(p *Profile) any { return &p.Members.Think }, 0, timeMax},
	{"members-patience", func(p *Profile) any { return &p.Members.Patience }, 0, timeMax},
	{"members-bound", func(p *Profile) any { return &p.Members.Bound }, 0, timeMax},
	{"members-gentle", func(p *Profile) any { return &p.Members.Gentle }, 0, 0},
	{"members-gone", func(p *Profile) any { return &p.Members.Gone }, 0, 64},
	{"members-emptied", func(p *Profile) any { return &p.Members.Emptied }, 0, timeMax},
	{"members-priorities", func(p *Profile) any { return &p.Members.Priorities }, 0, sim.Million},
	{"members-earlier", func(p *Profile) any { return &p.Members.Earlier }, 0, 9},
	{"members-pace", func(p *Profile) any { return &p.Members.Pace }, 0, 100},
	{"recoveries-most", func(p *Profile) any { return &p.Recoveries.Most }, 0, 9},

	{"lease-duration", func(p *Profile) any { return &p.Leases.Duration }, 0, timeMax},
	{"lease-reads", func(p *Profile) any { return &p.Leases.Reads }, 0, sim.Million},
	{"lease-turns", func(p *Profile) any { return &p.Leases.Turns }, 0, sim.Million},

	{"sessions", func(p *Profile) any { return &p.Sessions.Chance }, 0, sim.Million},
	{"sessions-most", func(p *Profile) any { return &p.Sessions.Most }, 0, sessions.SessionsMax},
	{"session-bytes", func(p *Profile) any { return &p.Sessions.Bytes }, 0, bytesMax},
	{"session-idle", func(p *Profile) any { return &p.Sessions.Idle }, 0, timeMax},
	{"session-window", func(p *Profile) any { return &p.Sessions.Window }, 0, sessions.WindowMax},
	{"session-copies", func(p *Profile) any { return &p.Sessions.Copies }, 0, sim.Million},
	{"session-forged", func(p *Profile) any { return &p.Sessions.Forged }, 0, sim.Million},

	{"world-disk", func(p *Profile) any { return &p.World.Disk }, 0, timeMax},
	{"world-trip", func(p *Profile) any { return &p.World.Trip }, 0, timeMax},
	{"world-step", func(p *Profile) any { return &p.World.Step }, 0, timeMax},
	{"world-pause", func(p *Profile) any { return &p.World.Pause }, 0, timeMax},
	{"world-loss", func(p *Profile) any { return &p.World.Loss }, 0, sim.Million},
	{"world-clients", func(p *Profile) any { return &p.World.Clients }, 0, 0},

	{"clients", func(p *Profile) any { return &p.Load.Clients }, 1, 1000},
	{"client-think", func(p *Profile) any { return &p.Load.Think }, 1, timeMax},
	{"client-patience", func(p *Profile) any { return &p.Load.Patience }, 1, timeMax},
	{"client-reads", func(p *Profile) any { return &p.Load.Reads }, 0, sim.Million},
	{"client-transfers", func(p *Profile) any { return &p.Load.Transfers }, 0, sim.Million},
	{"client-hedged", func(p *Profile) any { return &p.Load.Hedged }, 0, sim.Million},
	{"client-burst", func(p *Profile) any { return &p.Load.Burst }, 1, 1000},
	{"client-keys", func(p *Profile) any { return &p.Load.Keys }, 1, 100},
	{"client-bytes-max", func(p *Profile) any { return &p.Load.BytesMax }, 1, bytesMax},
	{"lulls", func(p *Profile) any { return &p.Lulls.Most }, 0, 1000},
	{"lull-chance", func(p *Profile) any { return &p.Lulls.Chance }, 0, sim.Million},
	{"lull-rests", func(p *Profile) any { return &p.Lulls.Rests }, 0, sim.Million},
	{"lull-for", func(p *Profile) any { return &p.Lulls.For }, 0, timeMax},

	{"client-forwards", func(p *Profile) any { return &p.Load.Forwards }, 0, sim.Million},
	{"client-forwards-changes", func(p *Profile) any { return &p.Load.ForwardsChanges }, 0, sim.Million},
	{"client-history", func(p *Profile) any { return &p.Load.History }, 0, 0},
	{"client-holds", func(p *Profile) any { return &p.Load.Holds }, 0, 0},
}

// plainName is the profile name of a case. A case has another name only if some rule depends on the name.
const plainName = "case"

// plain returns the profile of a cluster without faults. It has the values of all settings that a case does not name.
func plain() Profile {
	millisecond := sim.In(time.Millisecond)
	return Profile{
		Name: plainName, Voters: 3, ElectionTimeout: 150 * millisecond, Length: 1000 * millisecond,
		Network: sim.NetworkFaults{Delay: sim.Delay{Mean: millisecond}, FIFO: true},
		Node:    NodeProfile{DiskDelay: sim.Delay{Mean: 2 * millisecond}, MergeMax: 1, CacheBytesMax: 1 << 20, Atomic: true},
		Limits:  generousLimits(),
		Load: Load{
			Clients: 1, Think: 50 * millisecond, Patience: 1000 * millisecond, Burst: 1, Keys: 1, BytesMax: 32,
		},
	}
}

// always lists the settings that a case names even if they are plain, because they give its size.
var always = []string{"voters", "length", "clients"}

// settingNamed finds a setting.
func settingNamed(name string) (setting, bool) {
	i := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
	if i < 0 {
		return setting{}, false
	}
	return settings[i], true
}

func (s *setting) text(p *Profile) string {
	switch v := s.at(p).(type) {
	case *string:
		return *v
	case *int:
		return strconv.Itoa(*v)
	case *bool:
		return map[bool]string{true: "on", false: "off"}[*v]
	case *sim.Time:
		return v.String()
	default:
		d := v.(*sim.Delay)
		return fmt.Sprintf("%s %v %v %v", delayShapes[d.Shape], d.Min, d.Mean, d.Max)
	}
}

// same reports whether two profiles have the same value of the setting.
func (s *setting) same(a, b *Profile) bool { return s.text(a) == s.text(b) }

func (s *setting) copy(to, from *Profile) {
	switch v := s.at(to).(type) {
	case *string:
		*v = *s.at(from).(*string)
	case *int:
		*v = *s.at(from).(*int)
	case *bool:
		*v = *s.at(from).(*bool)
	case *sim.Time:
		*v = *s.at(from).(*sim.Time)
	case *sim.Delay:
		*v = *s.at(from).(*sim.Delay)
	}
}

var delayShapes = []string{"uniform", "exponential", "pareto", "bimodal"}

// set reads a value. Its error lists the valid values.
func (s *setting) set(p *Profile, text string) (err error) {
	switch v := s.at(p).(type) {
	case *string:
		names := []string{plainName}
		for _, choice := range profiles {
			names = append(names, choice.name)
		}
		if *v = text; !slices.Contains(names, text) {
			return fmt.Errorf("%s %q: there are %s", s.name, text, strings.Join(names, ", "))
		}
	case *int:
		if *v, err = strconv.Atoi(text); err != nil || int64(*v) < s.min || int64(*v) > s.max {
			return fmt.Errorf("%s %q: it takes a whole number from %d to %d", s.name, text, s.min, s.max)
		}
	case *bool:
		if *v = text == "on"; !*v && text != "off" {
			return fmt.Errorf("%s %q: it is on or off", s.name, text)
		}
	case *sim.Time:
		if *v, err = parseTime(text); err != nil || *v < sim.Time(s.min) || *v > sim.Time(s.max) {
			return fmt.Errorf("%s %q: it takes a time from %v to %v", s.name, text, sim.Time(s.min), sim.Time(s.max))
		}
	case *sim.Delay:
		return s.setDelay(v, text)
	}
	return nil
}

func (s *setting) setDelay(d *sim.Delay, text string) error {
	words := strings.Fields(text)
	bad := fmt.Errorf("%s %q: it takes %s and three times, the least, the mean and the longest, each up to an hour",
		s.name, text, strings.Join(delayShapes, ", "))
	if len(words) != 4 || !slices.Contains(delayShapes, words[0]) {
		return bad
	}
	d.Shape = sim.DelayShape(slices.Index(delayShapes, words[0]))
	for i, at := range []*sim.Time{&d.Min, &d.Mean, &d.Max} {
		t, err := parseTime(words[1+i])
		if err != nil || t < 0 || t > sim.Time(timeMax) {
			return bad
		}
		*at = t
	}
	return nil
}

func parseTime(text string) (sim.Time, error) {
	d, err := time.ParseDuration(text)
	return sim.In(d), err
}
