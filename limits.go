package raft

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Limits bound what a member keeps and sends. Config and CoreConfig share them. Every zero value means
// the default that its field documents.
type Limits struct {
	// CommandBytesMax bounds one command. Default 1 MiB, at most EntryDataBytesMax.
	CommandBytesMax int
	// ProposalsMax bounds the proposals and reads, each, that wait for an answer. Default 16,384.
	ProposalsMax int
	// ProposalBytesMax bounds the bytes of the proposals that wait for an answer: none is let in once
	// they have come to it. The last one may go over, so that a large command has the same chance as
	// the small ones beside it. Default 64 MiB.
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
}

// Defaults and bounds of times.
const (
	electionTimeoutDefault = 150 * time.Millisecond
	diskStallMaxDefault    = time.Second
	timeoutMin             = 10 * time.Millisecond
	timeoutMax             = time.Hour
)

// LimitBytesMax bounds every limit of bytes in memory: where an int is small, half of what it holds, so
// that no sum of two overflows.
const LimitBytesMax = min(1<<40, math.MaxInt/2)

func (l Limits) withDefaults() Limits {
	setDefault(&l.CommandBytesMax, 1<<20)
	setDefault(&l.ProposalsMax, 16<<10)
	setDefault(&l.ProposalBytesMax, 64<<20)
	setDefault(&l.UnappliedMax, 64<<10)
	setDefault(&l.AppendBytesMax, 1<<20)
	setDefault(&l.InflightMax, 256)
	setDefault(&l.InflightBytesMax, 8<<20)
	return l
}

func setDefault[T int | time.Duration](field *T, standard T) {
	if *field == 0 {
		*field = standard
	}
}

// configProblems gathers what is wrong with a configuration.
type configProblems []error

func (p *configProblems) add(field, format string, args ...any) {
	*p = append(*p, &ConfigError{Field: field, Err: fmt.Errorf(format, args...)})
}

func (p *configProblems) within(field string, value, least, most int) {
	if value < least || value > most {
		p.add(field, "%d; it takes %d to %d", value, least, most)
	}
}

func (p *configProblems) timeWithin(field string, value time.Duration) {
	if value < timeoutMin || value > timeoutMax {
		p.add(field, "%v; it takes 10 ms to 1 h", value)
	}
}

// limits checks limits whose defaults are set.
func (p *configProblems) limits(l Limits) {
	p.within("CommandBytesMax", l.CommandBytesMax, 1, EntryDataBytesMax)
	p.within("ProposalsMax", l.ProposalsMax, 1, 1<<24)
	p.within("ProposalBytesMax", l.ProposalBytesMax, 1, LimitBytesMax)
	p.within("UnappliedMax", l.UnappliedMax, 1, 1<<24)
	p.within("AppendBytesMax", l.AppendBytesMax, 1, 64<<20)
	p.within("InflightMax", l.InflightMax, 1, 1<<16)
	p.within("InflightBytesMax", l.InflightBytesMax, 1, LimitBytesMax)
}

// member checks the id of this member and the list of founders.
func (p *configProblems) member(id NodeID, list []Member) {
	if err := validateNodeID(id); err != nil {
		p.add("ID", "%w", err)
	}
	if len(list) == 0 {
		return
	}
	initial := NewConfiguration(list)
	if err := initial.Validate(); err != nil {
		p.add("Initial", "%w", err)
	}
	if _, ok := initial.Member(id); !ok {
		p.add("Initial", "does not name this member, %q: name it too, or leave the list out: then it waits to be added", id)
	}
	for _, m := range list {
		if m.Incarnation != 0 {
			p.add("Initial", "member %q has an incarnation; founding draws them", m.ID)
		}
	}
}

func (p configProblems) joined() error {
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("raft: invalid configuration: %w", errors.Join(p...))
}
