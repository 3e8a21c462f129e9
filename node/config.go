package node

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
)

// Config holds all settings of a node. Start copies it. If a field is zero, its documented default applies.
type Config struct {
	// ID names this member. It is required, and must never change for the same data.
	ID raft.NodeID
	// Cluster names the cluster, so that members of different clusters do not mix. It is required, and must be the same on
	// all members: 1 to NodeIDBytesMax bytes of printable ASCII without spaces.
	Cluster string
	// Initial lists the initial members of a new cluster: the same list on each of them. Only the voter with the lowest id, which
	// bootstraps the cluster, needs the addresses of all. The lists of the others may leave Address and Meta of any member
	// empty, which then match all. Such a member is dialed once it has called. The node reads Initial only while the store is
	// uninitialized. Remove Initial once the cluster is bootstrapped. Otherwise, if all disks are emptied at once, the members
	// bootstrap a second cluster. A member without Initial waits until it is added, or until Bootstrap gives it the list.
	Initial []raft.Member
	// Advertise is the "host:port" at which the other members reach this member from this start on. They remember it durably,
	// and dial it before they dial the address in their configuration. So a member may move, and all members may move at
	// once. Default: the address in the configuration, or in Initial while there is no configuration.
	Advertise string
	// Founders are the ids of the members that begin the cluster. The node only tells them to those that ask who is here (raft.Who):
	// package member decides by them. Each id once.
	Founders []raft.NodeID
	// Meta is what this member says about itself to those that ask who is here, and is for nothing else: in the configuration, a
	// member has the Meta with which it was added. At most raft.MetaBytesMax bytes of UTF-8.
	Meta string

	// ElectionTimeout is the only duration that most clusters need to set. If a follower hears from no leader, it campaigns
	// after a random wait of one to two election timeouts. The leader sends heartbeats every third of an election timeout.
	// Default 150 ms; at least 10 ms.
	//
	// Choose the same value on all members: at least ten times the slowest usual round trip between members, and at least ten
	// times the usual time of a synced write. If the value is too short, short delays depose the leader. If it is too long, a
	// dead leader is replaced late: writes stop for one to three election timeouts. The default suits one data center with
	// SSDs; use 1 s or more between regions. If the value is too short, Status.SlowElection says so and suggests a value.
	ElectionTimeout time.Duration

	// DiskStallMax is how long a leader waits for one write to its disk. If three times its slowest recent write is longer,
	// the leader waits that long instead. After that the disk has stalled, and the leader refuses proposals. If a quorum of
	// the others may have persisted more than this disk, the leader also transfers its leadership. For this purpose, it
	// assumes that members that it does not hear have persisted more. A disk that is slow but finishes its writes has not
	// stalled. Default 1 s; at least 10 ms.
	DiskStallMax time.Duration

	// ApplyStallMax is how long a leader waits for one call of FSM.Apply. If three times its slowest recent call is longer,
	// the leader waits that long instead. After that the FSM hangs: the leader refuses proposals with *FSMHangsError, and
	// pending proposals end with ErrOutcomeUnknown. The leader also transfers its leadership to a voter that has applied the
	// same entries, if there is such a voter. If a member's FSM hangs, the member does not campaign, unless no other member
	// can win. Restore, Snapshot, Sync and functions of Read do not count. Default 10 s; at least 10 ms.
	ApplyStallMax time.Duration

	// RunAsLeaderStopMax is how long a transfer of leadership waits for the functions of RunAsLeader to return once their
	// contexts are cancelled. Meanwhile proposals wait, as in every planned transfer. After that, the target is told to
	// campaign, and a function that still runs overlaps with that of the next leader. Default 1 s; 1 ms to 1 min.
	RunAsLeaderStopMax time.Duration

	// Forward lets every member take requests: Propose, the changes of members and TransferLeadership send a request to the
	// leader if this member does not lead, over the connections between the members. Without it, they fail with
	// *NotLeaderError on such a member, and a leader refuses the requests of other members. Set it on all members, and give the
	// transport a lane for requests (raft.ForwardCarrier), as those of package transport have.
	Forward bool
	// NoRemoteChanges makes a leader with Forward refuse changes of members and transfers that other members forward, with
	// *RemoteChangesError. It takes their proposals. It also refuses the petitions of those that ask to become members (raft.Who).
	NoRemoteChanges bool

	// AppVersion is the version of the application's commands, of its FSM and of its snapshots: raise it by one in each release of
	// your program that adds a command which the release before cannot apply. Propose such a command only once AppVersionMin has
	// reached that version, which it does once all members run it. From then on no earlier program starts on this data. 0, the
	// default: the program has no versions.
	AppVersion uint64

	// Preferences switches off rules about who campaigns, and when. It never endangers what was acknowledged. Without them, a
	// cluster is longer without a leader. Default: none is switched off.
	Preferences raft.Preferences

	raft.Limits // of the start; SetLimits changes them while the node runs
	// ReceivedMax bounds the number of messages from peers that wait for the loop. The node drops and counts any more.
	// Default 4,096.
	ReceivedMax int
	// ReceivedBytesMax bounds the bytes of entries: those in messages that wait for the loop and those that wait for the
	// disk, together. Default 64 MiB.
	ReceivedBytesMax int
	// SendQueueMax bounds, for each lane, the number of messages that wait for one peer's connection. The node drops and
	// counts any more. Default 1,024.
	SendQueueMax int
	// ForwardsMax bounds the requests that are forwarded at the same time: those of this member's callers, and on the leader
	// those of each other member. More fail with *ForwardLimitError. Default 4,096.
	ForwardsMax int
	// ForwardBytesMax bounds the bytes of these requests, in the same way; the last one may exceed it. Default 16 MiB.
	ForwardBytesMax int
	// LogCacheBytesMax bounds the memory of the log cache, which keeps recent entries for followers and the FSM. The node
	// reads older entries from the disk. The cache always keeps entries that are not on the disk yet. It drops an entry once
	// the FSM has applied the entry. On a leader, all members that were heard within about an election timeout must also have
	// acknowledged the entry. If nothing is written for ten seconds, the cache drops the entry at the latest then. An entry
	// takes 17/16 of its record, and 88 bytes. Default 8 MiB, which is also the default of InflightBytesMax.
	LogCacheBytesMax int

	// If the storage is a SnapshotStorage, the node takes snapshots and compacts the log. Limits says how often.
	//
	// SnapshotBytesPerSecond bounds the bytes of a snapshot that are written in a second, and the bytes that are sent in a
	// second. This leaves the disk, the network and the processors time for the log. Default 32 MiB; at least 64 KiB.
	SnapshotBytesPerSecond int
	// SnapshotReserveBytes stays free on the disk. If a snapshot would need these bytes, the node does not begin it. If a
	// running snapshot begins to use them, the node gives it up. Default: the size of the log, but at least 1 MiB and at most
	// 64 MiB. If the storage is a RoomStorage, whose log reserves its room in advance, the default is 1 MiB.
	SnapshotReserveBytes int
	// SnapshotStallMax is how long FSMSnapshot.WriteTo may write nothing before the snapshot is given up. Default 1 min;
	// at least 1 s.
	SnapshotStallMax time.Duration

	// Seed seeds the random election timeouts; 0 draws one.
	Seed uint64
	// Logger receives a few lines: role changes, connections, rejections. If it is nil, the node logs nothing. The node's
	// loop calls Logger, so Logger must not block for long nor call a method of the node. If Logger panics, the node does not
	// call it again.
	Logger hclog.Logger
}

// core returns the settings that the core needs.
func (c Config) core() raft.CoreConfig {
	return raft.CoreConfig{
		ID: c.ID, Initial: raft.NewConfiguration(c.Initial), ElectionTimeout: c.ElectionTimeout,
		DiskStallMax: c.DiskStallMax, ApplyStallMax: c.ApplyStallMax, Seed: c.Seed, Preferences: c.Preferences,
		Limits: c.Limits, AppVersion: c.AppVersion,
	}
}

// withDefaults returns the configuration with every zero value replaced by its default.
func (c Config) withDefaults() Config {
	core := c.core().WithDefaults()
	c.ElectionTimeout, c.DiskStallMax, c.ApplyStallMax, c.Limits = core.ElectionTimeout, core.DiskStallMax, core.ApplyStallMax, core.Limits
	c.Founders = slices.Clone(c.Founders)
	c.ReceivedMax = cmp.Or(c.ReceivedMax, 4096)
	c.ReceivedBytesMax = cmp.Or(c.ReceivedBytesMax, 64<<20)
	c.SendQueueMax = cmp.Or(c.SendQueueMax, 1024)
	c.ForwardsMax = cmp.Or(c.ForwardsMax, 4096)
	c.ForwardBytesMax = cmp.Or(c.ForwardBytesMax, 16<<20)
	c.LogCacheBytesMax = cmp.Or(c.LogCacheBytesMax, 8<<20)
	c.SnapshotBytesPerSecond = cmp.Or(c.SnapshotBytesPerSecond, 32<<20)
	c.SnapshotStallMax = cmp.Or(c.SnapshotStallMax, time.Minute)
	c.RunAsLeaderStopMax = cmp.Or(c.RunAsLeaderStopMax, time.Second)
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// Validate returns all problems of the configuration, joined, each as a *ConfigError. It returns nil if there is no problem.
// Start calls Validate.
func (c Config) Validate() error {
	core := c.core()
	core.NewCluster[0] = 1 // Start draws it
	p := problemsOf(core.Validate())
	if err := raft.ValidateName("cluster name", c.Cluster); err != nil {
		p = append(p, &raft.ConfigError{Field: "Cluster", Err: err})
	}
	if len(c.Advertise) > raft.AddressBytesMax {
		p = append(p, &raft.ConfigError{Field: "Advertise", Err: fmt.Errorf("%d bytes; it takes at most %d", len(c.Advertise), raft.AddressBytesMax)})
	}
	if len(c.Meta) > raft.MetaBytesMax {
		p = append(p, &raft.ConfigError{Field: "Meta", Err: fmt.Errorf("%d bytes; it takes at most %d", len(c.Meta), raft.MetaBytesMax)})
	} else if !utf8.ValidString(c.Meta) {
		p = append(p, &raft.ConfigError{Field: "Meta", Err: fmt.Errorf("%q is no UTF-8: it is a text", c.Meta)})
	}
	p = append(p, c.founderProblems()...)
	c = c.withDefaults()
	within := func(field string, value, least, most int) {
		if value < least || value > most {
			p = append(p, &raft.ConfigError{Field: field, Err: fmt.Errorf("%d; it takes %d to %d", value, least, most)})
		}
	}
	within("ReceivedMax", c.ReceivedMax, 1, 1<<20)
	within("ReceivedBytesMax", c.ReceivedBytesMax, c.AppendBytesMax, raft.LimitBytesMax)
	within("SendQueueMax", c.SendQueueMax, 1, 1<<20)
	within("ForwardsMax", c.ForwardsMax, 1, 1<<20)
	within("ForwardBytesMax", c.ForwardBytesMax, 1, raft.LimitBytesMax)
	within("LogCacheBytesMax", c.LogCacheBytesMax, 1, raft.LimitBytesMax)
	within("SnapshotBytesPerSecond", c.SnapshotBytesPerSecond, 64<<10, raft.LimitBytesMax)
	within("SnapshotReserveBytes", c.SnapshotReserveBytes, 0, raft.LimitBytesMax)
	if c.SnapshotStallMax < time.Second || c.SnapshotStallMax > time.Hour {
		p = append(p, &raft.ConfigError{Field: "SnapshotStallMax", Err: fmt.Errorf("%v; it takes 1 s to 1 h", c.SnapshotStallMax)})
	}
	if c.RunAsLeaderStopMax < time.Millisecond || c.RunAsLeaderStopMax > time.Minute {
		p = append(p, &raft.ConfigError{Field: "RunAsLeaderStopMax", Err: fmt.Errorf("%v; it takes 1 ms to 1 min", c.RunAsLeaderStopMax)})
	}
	return invalid(p)
}

func (c Config) founderProblems() (p []error) {
	if len(c.Founders) > raft.MembersMax {
		p = append(p, &raft.ConfigError{Field: "Founders", Err: fmt.Errorf("%d ids; it takes at most %d", len(c.Founders), raft.MembersMax)})
	}
	for i, id := range c.Founders {
		err := raft.ValidateName("member id", string(id))
		if slices.Contains(c.Founders[:i], id) {
			err = fmt.Errorf("%q is there twice: give each id once", id)
		}
		if err != nil {
			p = append(p, &raft.ConfigError{Field: "Founders", Err: err})
		}
	}
	return p
}

// problemsOf returns the errors that err joins.
func problemsOf(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return nil
}

func invalid(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("raft: invalid configuration: %w", errors.Join(problems...))
}

// fitting returns an error that names the limits which are too large for a transport. most is the maximum number of bytes of
// records in one append of the transport, or 0 if there is no maximum. The leader would send a larger append again and again,
// and the append would never arrive.
func (c Config) fitting(most int) error {
	if most == 0 {
		return nil
	}
	var p []error
	need := func(field string, value, bytes int) {
		if bytes > most {
			p = append(p, &raft.ConfigError{Field: field, Err: fmt.Errorf("%d; with it an append may carry %d bytes, and the transport carries %d: "+
				"lower it, or raise the transport's limit (transport.Options.FrameBytesMax)", value, bytes, most)})
		}
	}
	need("AppendBytesMax", c.AppendBytesMax, c.AppendBytesMax)
	need("CommandBytesMax", c.CommandBytesMax, c.CommandBytesMax+raft.RecordOverheadBytes)
	return invalid(p)
}
