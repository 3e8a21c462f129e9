package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
)

// Seeds are where a member asks who is there. They only supply addresses: who belongs to the cluster is decided by ids. The seeds
// may be the same on all members, and may name the member itself. Seeds should lead to members that were added later, too:
// founders whose disks were all emptied find their cluster through them. Addresses, DNS and LookUp make them.
type Seeds struct {
	addresses []string // each is asked
	name      string   // of a host; "": none
	lookUp    func(context.Context) ([]string, error)
}

// Addresses returns seeds at these addresses, each a "host:port". A host name is looked up for each question.
func Addresses(hostports ...string) Seeds { return Seeds{addresses: hostports} }

// DNS returns seeds at all addresses of one host name, with the port: "jobs:7000" for the headless service jobs. The name is
// looked up anew for each round of questions, so that members which came later are found.
func DNS(hostport string) Seeds { return Seeds{name: hostport} }

// LookUp returns seeds at the addresses that the function returns, each a "host:port", such as those in a registry of services.
// It is called for each round of questions, about once a second until this member has its place and a leader, with a context
// that ends after 2 s. It may return addresses and an error: those are asked, and Status.Missing shows the error.
func LookUp(addresses func(context.Context) ([]string, error)) Seeds { return Seeds{lookUp: addresses} }

// Ordinals returns the ids name-0, name-1 and so on: those of the first n pods of a StatefulSet, as founders.
func Ordinals(name string, n int) (ids []raft.NodeID) {
	for i := range max(n, 0) {
		ids = append(ids, raft.NodeID(fmt.Sprintf("%s-%d", name, i)))
	}
	return ids
}

func (s Seeds) empty() bool { return s.name == "" && s.lookUp == nil && len(s.addresses) == 0 }

// problems returns what is wrong with the seeds, without looking anything up.
func (s Seeds) problems() (p []error) {
	if len(s.addresses) > joining.SeedsMax {
		return []error{fmt.Errorf("%d addresses; the limit is %d", len(s.addresses), joining.SeedsMax)}
	}
	for _, address := range s.list() {
		if err := joining.CheckAddress(address); address == "" {
			p = append(p, errors.New("one is empty: leave it out"))
		} else if err != nil {
			p = append(p, fmt.Errorf("seed %w", err))
		}
	}
	return p
}

// list returns the addresses as they were given.
func (s Seeds) list() []string {
	if s.name != "" {
		return append(slices.Clone(s.addresses), s.name)
	}
	return s.addresses
}

// resolveTimeout bounds one look-up.
const resolveTimeout = 2 * time.Second

// resolve returns the addresses to ask now.
func (s Seeds) resolve(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	switch {
	case s.lookUp != nil:
		return s.lookUp(ctx)
	case s.name == "":
		return s.addresses, nil
	}
	host, port, err := net.SplitHostPort(s.name)
	var hosts []string
	if err == nil {
		hosts, err = net.DefaultResolver.LookupHost(ctx, host)
	}
	if err != nil {
		err = &SeedError{Seed: s.name, Err: err}
	}
	addresses := slices.Clone(s.addresses)
	for _, h := range hosts {
		addresses = append(addresses, net.JoinHostPort(h, port))
	}
	return addresses, err
}

// SeedError says that the name of a seed has no addresses at present. The member tries again. If it lasts, correct the name, or
// what answers for it.
type SeedError struct {
	Seed string
	Err  error
}

func (e *SeedError) Error() string {
	return fmt.Sprintf("%q has no address: %v: correct the name, or its entry in DNS", e.Seed, e.Err)
}

func (e *SeedError) Unwrap() error { return e.Err }

// founding reports whether this member looks for its cluster by itself.
func (c Config) founding() bool { return len(c.Founders) > 0 || !c.Seeds.empty() }

// ownAddresses reports whether the program gives addresses their meaning.
func (c Config) ownAddresses() bool { return c.Transport != nil || c.Net.Resolve != nil }

// corrects reports whether this member corrects its entry in the configuration.
func (c Config) corrects() bool { return c.founding() || c.Advertise != "" || c.Meta != "" }

// joining returns what the seeker needs to know. The incarnation is that of the store.
func (c Config) joining(of raft.Incarnation) joining.Config {
	return joining.Config{
		Self: raft.Peer{ID: c.ID, Incarnation: of}, ClusterName: c.Cluster, Founders: slices.Clone(c.Founders),
		Address: c.advertised(), Meta: c.Meta, Learner: c.Learner, EntryOnly: !c.founding(),
	}
}

// advertised returns the address at which the others reach this member: where it listens, unless Advertise says another one.
func (c Config) advertised() string {
	if c.Advertise == "" && c.founding() && joining.CheckAddress(c.Listen) == nil {
		return c.Listen
	}
	return c.Advertise
}

// foundingProblems returns the problems of the fields from Founders to Rejoin.
func (c Config) foundingProblems() (p []error) {
	problem := func(wrong bool, field, remedy string) {
		if wrong {
			p = append(p, &raft.ConfigError{Field: field, Err: errors.New(remedy)})
		}
	}
	if !c.founding() {
		const without = "needs Seeds or Founders"
		problem(c.Learner, "Learner", without)
		problem(c.SetAside, "SetAside", without)
		problem(c.Rejoin != 0, "Rejoin", without)
		if err := joining.CheckAddress(c.Advertise); c.Advertise != "" && err != nil && !c.ownAddresses() {
			problem(true, "Advertise", err.Error())
		}
		return p
	}
	var of interface{ Unwrap() []error }
	if errors.As(c.joining(1).Validate(), &of) {
		p = of.Unwrap()
	}
	for _, err := range c.Seeds.problems() {
		p = append(p, &raft.ConfigError{Field: "Seeds", Err: err})
	}
	alone := len(c.Founders) == 1 && c.Founders[0] == c.ID
	seeds := c.Seeds.list()
	problem(c.Seeds.empty() && !alone, "Seeds", "missing: name addresses of the other members, or one DNS name for all")
	problem(len(seeds) > 0 && !alone && c.Seeds.name == "" && !slices.ContainsFunc(seeds, func(s string) bool { return s != c.advertised() }),
		"Seeds", fmt.Sprintf("they are only %q, which is this member itself: name the addresses of others", c.advertised()))
	problem(len(c.Initial) > 0, "Initial", "must be empty with Founders or Seeds, which take its place")
	problem(c.Seeds.empty() && c.SetAside, "SetAside", "needs Seeds, through which it asks the leader")
	problem(c.Storage != nil && (c.SetAside || c.Rejoin != 0), "Storage", "must be empty with SetAside or Rejoin, which set a store in Dir aside")
	if _, asks := c.Transport.(raft.WhoCarrier); c.Transport != nil && !asks {
		problem(true, "Transport", "cannot ask who is there (raft.WhoCarrier), which Founders and Seeds need")
	}
	return p
}
