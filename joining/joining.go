// Package joining decides how a member becomes one of its cluster: who bootstraps, who joins, who waits, and when a store may be
// set aside. Package member and the simulator use it; the core in package raft does not. See docs/decisions/0045.
//
// A [Seeker] is the side of a member that looks for its cluster. It says which addresses to ask who is there (raft.Who), and what
// follows from the answers. A [Grant] is the side of the leader. It decides about the petitions of others. [MayDiscard] says
// whether a store that its member cannot use may be set aside. All are values without I/O: time is an argument.
//
// Safety does not rest on this package. Entry 1 is written by the core's rules alone, and a join is a change of the members.
package joining

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coxswain/raft"
)

// SeedsMax bounds the addresses of seeds that a seeker asks, in number. It asks about as many that it finds.
const SeedsMax = raft.MembersMax

// Config is what a member was started with.
type Config struct {
	Self        raft.Peer
	ClusterName string
	// Founders are the ids of the initial members of the cluster. A member that is not one of them only joins.
	Founders []raft.NodeID
	// Address is the "host:port" at which the others reach this member. Meta is the application's text for its entry; "" leaves
	// the one in the configuration.
	Address, Meta string
	Learner       bool // it joins as a learner, and stays one
	EntryOnly     bool // it looks for no cluster, and only corrects its entry; Address may be "", which leaves the one there
}

// Validate returns all problems, joined, each as a *raft.ConfigError, or nil.
func (c Config) Validate() error {
	var p []error
	problem := func(field string, err error) {
		if err != nil {
			p = append(p, &raft.ConfigError{Field: field, Err: err})
		}
	}
	if len(c.Founders) > raft.MembersMax {
		problem("Founders", fmt.Errorf("%d ids; the limit is %d", len(c.Founders), raft.MembersMax))
	}
	for i, id := range c.Founders {
		problem("Founders", raft.ValidateName("member id", string(id)))
		if slices.Contains(c.Founders[:i], id) {
			problem("Founders", fmt.Errorf("%q is listed twice: name each founder once", id))
		}
	}
	problem("Advertise", CheckAddress(c.Address))
	if len(c.Meta) > raft.MetaBytesMax {
		problem("Meta", fmt.Errorf("%d bytes; the limit is %d", len(c.Meta), raft.MetaBytesMax))
	} else if !utf8.ValidString(c.Meta) {
		problem("Meta", fmt.Errorf("%q is no UTF-8: it is a text", c.Meta))
	}
	if c.Learner && slices.Contains(c.Founders, c.Self.ID) {
		problem("Learner", fmt.Errorf("%s is a founder, and founders vote: leave Learner out, or take %s out of the founders of all members", c.Self.ID, c.Self.ID))
	}
	return errors.Join(p...)
}

// CheckAddress returns an error unless others can dial the address: it must be a "host:port" with a host that is no wildcard, in
// printable ASCII without spaces, and a port that is not 0.
func CheckAddress(address string) error {
	host, port := split(address)
	ip, _ := netip.ParseAddr(host)
	number, err := strconv.ParseUint(port, 10, 16)
	switch {
	case address == "":
		return errors.New(`missing: name the "host:port" at which the others reach this member`)
	case len(address) > raft.AddressBytesMax:
		return fmt.Errorf("%d bytes; it takes at most %d", len(address), raft.AddressBytesMax)
	case err != nil || number == 0:
		return fmt.Errorf(`%q is no "host:port" with a port from 1 to 65535`, address)
	case strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%q has other characters than printable ASCII without spaces", address)
	case host == "" || ip.WithZone("").Unmap().IsUnspecified():
		return fmt.Errorf("%q names no machine, so the others cannot dial it: name the host at which they reach this member", address)
	}
	return nil
}

// split returns the host and the port of an address. The port is "" if there is none.
func split(address string) (host, port string) {
	i := strings.LastIndexByte(address, ':')
	if i < 0 {
		return address, ""
	}
	host = address[:i]
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		return host[1 : len(host)-1], address[i+1:]
	}
	if strings.Contains(host, ":") { // an IPv6 address without brackets
		return address, ""
	}
	return host, address[i+1:]
}

// loopback reports whether the address leads to the machine that dials it.
func loopback(address string) bool {
	host, _ := split(address)
	ip, _ := netip.ParseAddr(host)
	return host == "localhost" || ip.Unmap().IsLoopback()
}

// seconds rounds a duration for a text.
func seconds(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
