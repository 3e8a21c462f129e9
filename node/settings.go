package node

import (
	"cmp"
	"fmt"
	"time"

	"github.com/coxswain/raft"
)

// SettingDifference is a setting that should be the same on all members, but differs between another member and this member.
type SettingDifference struct {
	Setting string // name, as "election timeout"
	Here    string // value of this member
	There   string // value of the other member
	Effect  string // effect of the difference, and what to do
}

// String returns the difference as a sentence.
func (d SettingDifference) String() string {
	return fmt.Sprintf("its %s is %s, and this member's %s: %s", d.Setting, d.There, d.Here, d.Effect)
}

// settings are the settings that a member announces on each new connection: other members need them, or they should be
// the same on all members.
type settings struct {
	electionTimeout time.Duration
	appendBytesMax  int // bytes of records that it takes in one append; 0: any Config fits
	commandBytesMax int // 0: its release does not announce it
	noSnapshots     bool
	protocol        uint16 // version that the connection speaks; 0: the transport does not report it
	appVersion      uint64 // not compared: it differs during each upgrade
}

const protocolSetting = "protocol"

// compared lists the settings that should be the same on all members. A value is "" if it is not known.
var compared = []struct {
	setting string
	value   func(settings) string
	effect  string
}{
	{"election timeout", func(s settings) string { return known(s.electionTimeout) },
		"the member with the shorter one may campaign although the leader works: set the same on all members"},
	{"limit of a command", func(s settings) string { return known(s.commandBytesMax) },
		"whether a command is too large depends on who leads: set the same Config.CommandBytesMax on all members"},
	{"limit of an append", func(s settings) string {
		if s.commandBytesMax == 0 {
			return "" // an earlier release, which does not announce it
		}
		return cmp.Or(known(s.appendBytesMax), "none")
	},
		"a command that is too large for one member is refused, and a member for which an entry is too large is sent a snapshot: " +
			"set the same transport.Options.FrameBytesMax on all members"},
	{"snapshot support", func(s settings) string { return map[bool]string{true: "no", false: "yes"}[s.noSnapshots] },
		"a member that is far behind needs a snapshot, and a member whose store keeps none can neither send nor receive it: use a store that keeps snapshots"},
	{protocolSetting, func(s settings) string { return known(s.protocol) },
		"features that the older protocol lacks wait until that member is upgraded"},
}

// known returns a value as text, "" if it is zero.
func known[T comparable](v T) string {
	if v == *new(T) {
		return ""
	}
	return fmt.Sprint(v)
}

// differences returns the settings in which another member differs from this one.
func (here settings) differences(there settings) (all []SettingDifference) {
	for _, c := range compared {
		if own, other := c.value(here), c.value(there); own != other && own != "" && other != "" {
			all = append(all, SettingDifference{c.setting, own, other, c.effect})
		}
	}
	return all
}

// limits returns the limits in force.
func (n *Node) limits() *raft.Limits { return n.requests.limits.Load() }

// SetLimits puts other limits in force in place of Config.Limits while the node runs. raft.Limits says from when on each new
// value counts. A limit of zero means its default, as in Config: pass all limits, also those that do not change. The limits
// are not stored: the next start begins with those of its Config.
//
// Out of range, or too large for Config.ReceivedBytesMax or for the transport, the limits are refused as Start refuses them,
// with all problems joined, each a *raft.ConfigError, and those in force stay. SetLimits waits for nothing. It fails with
// ErrClosed, *raft.RemovedError, *raft.StaleImageError or *raft.ContradictedError once the node ends.
func (n *Node) SetLimits(limits raft.Limits) error {
	cfg := n.cfg
	cfg.Limits = limits
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	if err := cfg.fitting(n.appendBytesMax); err != nil {
		return err
	}
	return n.requests.setLimits(cfg.Limits)
}

// settings returns this member's own settings.
func (n *Node) settings() settings {
	return settings{n.cfg.ElectionTimeout, n.appendBytesMax, n.limits().CommandBytesMax, n.files == nil, raft.ProtocolNewest, n.cfg.AppVersion}
}

// settingsIn returns the settings that a peer has announced.
func settingsIn(h raft.Hello) settings {
	return settings{h.ElectionTimeout, h.AppendBytesMax, h.CommandBytesMax, h.NoSnapshots, h.Protocol, h.AppVersion}
}

// appendAnyMax is the size of the largest append that any Config allows. If a transport carries this size, it needs no limit.
const appendAnyMax = raft.EntryDataBytesMax + raft.RecordOverheadBytes

// appendLimitOf returns how many bytes of records a transport carries in one append. It returns 0 if any Config fits.
func appendLimitOf(t raft.Transport) int {
	if most := t.AppendBytesMax(); most < appendAnyMax {
		return most
	}
	return 0
}

// appendLimitTo returns how many bytes of records one append to a peer may carry: the smaller of two limits, that of the peer
// and that of this member's transport. It returns 0 if any Config fits.
func (n *Node) appendLimitTo(peer settings) int {
	if least := min(n.appendBytesMax, peer.appendBytesMax); least > 0 {
		return least
	}
	return max(n.appendBytesMax, peer.appendBytesMax) // one of them has no limit
}

// announcement is the release and the settings that a peer announced on its last connection.
type announcement struct {
	release       string
	settings      settings
	uninitialized bool
}

// noteAnnounced remembers a peer's announcement. i.mu is held.
func (i *identity) noteAnnounced(h raft.Hello) {
	if _, known := i.announced[h.From]; known || len(i.announced) < strangersMax {
		i.announced[h.From] = announcement{h.Release, settingsIn(h), h.Uninitialized()}
	}
}

// announcedBy returns the last announcement of a peer, and whether there was one.
func (i *identity) announcedBy(p raft.Peer) (announcement, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	s, known := i.announced[p]
	return s, known
}

// startOf returns the number of the start of a peer that is connected. It returns 0 if the peer is not connected.
func (i *identity) startOf(p raft.Peer) uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.live[p].Count
}

// differing returns the number of members of which this member knows that a setting differs from its own.
func (i *identity) differing() (members int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	own := i.node.settings()
	for _, m := range i.known().Members {
		if s, known := i.announced[m.Peer()]; known && len(own.differences(s.settings)) > 0 {
			members++
		}
	}
	return members
}

// addAnnounced adds a member's last announcement to its status.
func (n *Node) addAnnounced(m *MemberStatus) {
	said, known := n.identity.announcedBy(m.Peer())
	if !known {
		return
	}
	m.settings, m.appendLimit = said.settings, n.appendLimitTo(said.settings)
	m.Protocol, m.Release, m.Announced = said.settings.protocol, said.release, said.settings.appVersion
	m.Differs = n.settings().differences(said.settings)
}

// oversized names the entry that is too large for an append to the member, and the limit that it exceeds. It returns "" if no
// entry is too large.
func (m *MemberStatus) oversized() string {
	if m.progress == nil || m.progress.Oversized.Index == 0 {
		return ""
	}
	whose := "its"
	if m.appendLimit != m.settings.appendBytesMax {
		whose = "this member's"
	}
	return fmt.Sprintf("entry %v takes %d bytes, and an append to it carries %d (%s transport.Options.FrameBytesMax)",
		m.progress.Oversized, m.progress.OversizedBytes, m.appendLimit, whose)
}
