// Package failover measures how long a cluster of real raftkv processes acknowledges no write after its leader is disturbed.
// The command raftlab failover runs it.
//
// Every kind of disturbance has two clusters, which differ only in their preferences (see raft.Preferences). The trials
// alternate between them, so that a machine that becomes slower or faster affects both. Before each trial, all members of
// the cluster follow one leader, are connected and have applied the same log.
package failover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coxswain/raft/internal/built"
	"github.com/coxswain/raft/internal/demo/member"
	"github.com/coxswain/raft/internal/distribution"
)

// Kind is a kind of disturbance.
type Kind string

// The kinds.
const (
	Kill     Kind = "kill"
	Freeze   Kind = "freeze"
	Silence  Kind = "silence"
	OneWay   Kind = "oneway"
	Transfer Kind = "transfer"
	Rolling  Kind = "rolling"
)

// habits describes the kinds.
var habits = []struct {
	kind   Kind
	says   string
	packet bool // it drops packets, and needs a network of its own
	trial  func(*cluster, context.Context) (time.Duration, error)
}{
	{Kill, "SIGKILL of the leader", false, (*cluster).kill},
	{Freeze, "SIGSTOP of the leader", false, (*cluster).freeze},
	{Silence, "all packets to and from the leader are dropped", true, (*cluster).silence},
	{OneWay, "all packets from the leader to the others are dropped", true, (*cluster).oneWay},
	{Transfer, "the leadership is transferred on request, while 64 clients write", false, (*cluster).transfer},
	{Rolling, "one member after another is restarted, while 64 clients write", false, (*cluster).roll},
}

// Kinds describes all kinds, a line each.
func Kinds() (lines []string) {
	for _, h := range habits {
		lines = append(lines, fmt.Sprintf("%-9s %s", h.kind, h.says))
	}
	return lines
}

// The limits of Options.
const (
	MembersMin = 3
	MembersMax = 9
	trialsMax  = 10_000
)

// Options are the settings of a run.
type Options struct {
	Members int
	Trials  int      // of each kind, on each of its two clusters
	Kinds   []string // default: all
	Without []string // the preferences that one of the two clusters does without
	Bound   time.Duration
	Binary  string       // path of the raftkv to run; "": build it
	Say     func(string) // receives a line for each kind; nil: nobody does
}

// Validate returns an error if the options cannot be used.
func (o *Options) Validate() error {
	if o.Members < MembersMin || o.Members > MembersMax {
		return fmt.Errorf("--members %d: it takes %d to %d", o.Members, MembersMin, MembersMax)
	}
	if o.Trials < 1 || o.Trials > trialsMax {
		return fmt.Errorf("--trials %d: it takes 1 to %d", o.Trials, trialsMax)
	}
	for _, name := range o.Kinds {
		if !slices.Contains(o.kinds(nil), Kind(name)) {
			return fmt.Errorf("unknown kind %q; there are\n  %s", name, strings.Join(Kinds(), "\n  "))
		}
	}
	_, err := member.ParseWithout(o.Without)
	return err
}

// kinds returns the chosen kinds, in the order of habits; without names, all.
func (o *Options) kinds(names []string) (kinds []Kind) {
	for _, h := range habits {
		if len(names) == 0 || slices.Contains(names, string(h.kind)) {
			kinds = append(kinds, h.kind)
		}
	}
	return kinds
}

// DropsPackets reports whether some chosen kind needs a network of its own.
func (o *Options) DropsPackets() bool {
	return slices.ContainsFunc(o.kinds(o.Kinds), func(k Kind) bool { return k == Silence || k == OneWay })
}

// Run runs the trials. The report holds the kinds that have ended, even if a later one failed. No process outlives the call.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	r := Report{Members: o.Members, Without: o.Without, BoundMS: distribution.Milliseconds(o.Bound)}
	program, err := o.program()
	if err != nil {
		return r, err
	}
	links, reason := openLinks()
	defer links.close()
	for _, h := range habits {
		if !slices.Contains(o.kinds(o.Kinds), h.kind) {
			continue
		}
		result := Result{Kind: string(h.kind), Says: h.says}
		if h.packet && reason != "" {
			result.LeftOut = reason
		} else {
			p := pair{Options: o, program: program, trial: h.trial}
			if h.packet {
				p.links = links
			}
			if err := p.run(ctx, &result); err != nil {
				return r, fmt.Errorf("%s: %w", h.kind, err)
			}
		}
		r.Results = append(r.Results, result)
		if o.Say != nil {
			o.Say(strings.TrimSpace(result.lines(r.BoundMS)))
		}
	}
	return r, nil
}

// program returns the path of the raftkv to run.
func (o *Options) program() (string, error) {
	if o.Binary != "" {
		return filepath.Abs(o.Binary)
	}
	return built.Raftkv()
}

// pair is the two clusters of one kind.
type pair struct {
	Options
	program string
	links   *links // nil: the members use the loopback device
	trial   func(*cluster, context.Context) (time.Duration, error)
}

// run runs the trials of one kind, in turn on both clusters.
func (p *pair) run(ctx context.Context, result *Result) (err error) {
	dir, err := os.MkdirTemp("", "raftlab-failover-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var sides [2]*cluster
	for i, without := range [][]string{nil, p.Without} {
		if sides[i], err = p.open(filepath.Join(dir, fmt.Sprint(i)), without); err != nil {
			return err
		}
		defer sides[i].close()
	}
	var syncs samples
	for i := range p.Trials {
		for j := range sides {
			c := sides[(i+j)%len(sides)] // each comes first in every other trial
			if err := c.settle(ctx); err != nil {
				return err
			}
			if err := syncs.timeSyncs(dir); err != nil {
				return err
			}
			took, err := p.trial(c, ctx)
			if err != nil {
				return fmt.Errorf("trial %d: %w", i+1, err)
			}
			c.took = append(c.took, took)
			p.links.heal()
		}
	}
	result.SyncedMS = syncs.medianMS()
	result.On, result.Off = sides[0].side(p.Bound), sides[1].side(p.Bound)
	return nil
}
