package raft

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Config is everything that can be tuned. It is copied by Start and never changed. Every zero value
// means the default that its field documents.
type Config struct {
	// ID names this member. Required, and never changed for the same data.
	ID NodeID
	// Cluster names the cluster, to keep members of different ones apart. Required; the same on
	// all members; 1 to NodeIDBytesMax bytes of printable ASCII without spaces.
	Cluster string
	// Initial is the founders of a new cluster, the same list on each of them. It is read only while
	// the store is blank; drop it once the cluster is founded, so that emptying all disks at once
	// cannot found a second one. A member without it waits to be added.
	Initial []Member

	// ElectionTimeout is the one knob of time: a follower that hears no leader campaigns after a
	// random wait of once to twice this. Heartbeats are sent every third of it. Default 150 ms; at
	// least 10 ms.
	ElectionTimeout time.Duration

	// DiskStallMax is how long a leader waits for a write to its disk. After that it takes no proposals,
	// and hands leadership over if the others' disks have gone on without it. Default 1 s; at least
	// 10 ms. Keep it well above what the slowest healthy sync takes.
	DiskStallMax time.Duration

	// CommandBytesMax bounds one command. Default 1 MiB, at most EntryDataBytesMax.
	CommandBytesMax int
	// ProposalsMax bounds the proposals and reads, each, that wait for an answer. Default 16,384.
	ProposalsMax int
	// ProposalBytesMax bounds the bytes of the proposals that wait for an answer. Default 64 MiB.
	ProposalBytesMax int
	// UnappliedMax bounds the entries in the log that are not applied yet. Default 65,536.
	UnappliedMax int
	// AppendBytesMax bounds the entries of one append message, which carries at least one entry
	// whatever its size. Default 1 MiB.
	AppendBytesMax int
	// InflightMax bounds the append messages to one follower that are not answered yet. Default 256.
	InflightMax int
	// InflightBytesMax bounds their bytes. Default 8 MiB.
	InflightBytesMax int
	// ReceivedMax bounds the messages of peers that wait for the loop; more are dropped and counted.
	// Default 4,096.
	ReceivedMax int
	// ReceivedBytesMax bounds the bytes of their entries, and of the entries that wait for the disk.
	// Default 64 MiB.
	ReceivedBytesMax int
	// SendQueueMax bounds the messages that wait for one peer's connection, on each lane; more are
	// dropped and counted. Default 1,024.
	SendQueueMax int
	// TailBytesMax bounds the recent entries that are kept in memory for followers and the FSM,
	// besides the ones that are not on the disk yet. Default 32 MiB.
	TailBytesMax int

	// Seed seeds the random election timeouts; 0 draws one.
	Seed uint64
	// Logger gets a handful of lines: role changes, connections, refusals. Nil: silent. The node's loop
	// calls it: it must not block for long, nor call a method of the node.
	Logger hclog.Logger
}

// withDefaults returns the configuration with every zero value replaced by its default.
func (c Config) withDefaults() Config {
	if c.ElectionTimeout == 0 {
		c.ElectionTimeout = 150 * time.Millisecond
	}
	if c.DiskStallMax == 0 {
		c.DiskStallMax = time.Second
	}
	for _, f := range []struct {
		field    *int
		standard int
	}{
		{&c.CommandBytesMax, 1 << 20},
		{&c.ProposalsMax, 16 << 10},
		{&c.ProposalBytesMax, 64 << 20},
		{&c.UnappliedMax, 64 << 10},
		{&c.AppendBytesMax, 1 << 20},
		{&c.InflightMax, 256},
		{&c.InflightBytesMax, 8 << 20},
		{&c.ReceivedMax, 4096},
		{&c.ReceivedBytesMax, 64 << 20},
		{&c.SendQueueMax, 1024},
		{&c.TailBytesMax, 32 << 20},
	} {
		if *f.field == 0 {
			*f.field = f.standard
		}
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// bytesMax bounds every limit of bytes in memory: where an int is small, half of what it holds, so that
// no sum of two overflows.
const bytesMax = min(1<<40, math.MaxInt/2)

// Validate returns everything that is wrong with the configuration, a *ConfigError each, joined, or nil.
// Start calls it.
func (c Config) Validate() error {
	var errs []error
	add := func(field, format string, args ...any) {
		errs = append(errs, &ConfigError{field, fmt.Errorf(format, args...)})
	}
	if err := validateNodeID(c.ID); err != nil {
		add("ID", "%w", err)
	}
	if err := validateName("cluster name", c.Cluster); err != nil {
		add("Cluster", "%w", err)
	}
	if len(c.Initial) > 0 {
		initial := NewConfiguration(c.Initial)
		if err := initial.Validate(); err != nil {
			add("Initial", "%w", err)
		}
		if _, ok := initial.Member(c.ID); !ok {
			add("Initial", "does not name this member, %q: name it too, or leave the list out and have it added", c.ID)
		}
		for _, m := range c.Initial {
			if m.Incarnation != 0 {
				add("Initial", "member %q has an incarnation; founding draws them", m.ID)
			}
		}
	}
	c = c.withDefaults()
	if c.ElectionTimeout < 10*time.Millisecond || c.ElectionTimeout > time.Hour {
		add("ElectionTimeout", "%v; it takes 10 ms to 1 h", c.ElectionTimeout)
	}
	if c.DiskStallMax < 10*time.Millisecond || c.DiskStallMax > time.Hour {
		add("DiskStallMax", "%v; it takes 10 ms to 1 h", c.DiskStallMax)
	}
	for _, f := range []struct {
		name            string
		value, min, max int
	}{
		{"CommandBytesMax", c.CommandBytesMax, 1, EntryDataBytesMax},
		{"ProposalsMax", c.ProposalsMax, 1, 1 << 24},
		{"ProposalBytesMax", c.ProposalBytesMax, c.CommandBytesMax, bytesMax},
		{"UnappliedMax", c.UnappliedMax, 1, 1 << 24},
		{"AppendBytesMax", c.AppendBytesMax, 1, 64 << 20},
		{"InflightMax", c.InflightMax, 1, 1 << 16},
		{"InflightBytesMax", c.InflightBytesMax, 1, bytesMax},
		{"ReceivedMax", c.ReceivedMax, 1, 1 << 20},
		{"ReceivedBytesMax", c.ReceivedBytesMax, c.AppendBytesMax, bytesMax},
		{"SendQueueMax", c.SendQueueMax, 1, 1 << 20},
		{"TailBytesMax", c.TailBytesMax, 1, bytesMax},
	} {
		if f.value < f.min || f.value > f.max {
			add(f.name, "%d; it takes %d to %d", f.value, f.min, f.max)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("raft: invalid configuration: %w", errors.Join(errs...))
}
