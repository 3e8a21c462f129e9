// Package member runs one member of the demo store: node, storage, transport and HTTP server.
package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/joining"
	library "github.com/coxswain/raft/member"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
	"github.com/hashicorp/go-hclog"
)

// Options are the settings of a member, as the flags of "raftkv serve" give them.
type Options struct {
	ID       string
	Cluster  string   // name of the cluster
	Data     string   // data directory
	Log      string   // where a new store keeps its log: segments (also "") or bbolt
	RaftAddr string   // "host:port" to listen on for the other members
	HTTPAddr string   // "host:port" to listen on for clients
	Peers    []string // initial members, including this one, as "id=host:port=http://host:port"; see ParsePeer
	// Via lists addresses at which this member dials other members, instead of their own addresses. An element has the form
	// "id=host:port", or "host:port=host:port" for a member that has the first address.
	Via []string
	// Founders and Seeds are those of library.Config, in place of Peers. A seed is the "host:port" at which a member listens for
	// the others. Or there is one seed "dns:NAME:PORT", for all addresses of a name.
	Founders, Seeds []string
	// Join lists base URLs of servers of a running cluster, in place of Seeds: the seeds are the addresses of the members that
	// these servers name. It includes SetAside.
	Join []string
	// SetAside and Rejoin are those of library.Config.
	SetAside bool
	Rejoin   uint64
	// As is the role in which this member joins: voter (also "") or learner.
	As string
	// Advertise is the "host:port" for the other members, and URL is the base URL for clients. A member whose entry in the
	// configuration differs has it corrected. With Founders, Seeds or Join, RaftAddr and HTTPAddr are their defaults.
	Advertise, URL string
	// PageOrigins are further origins whose pages may read the events of this member: see admin.Options.
	PageOrigins []string
	// ElectionTimeout is that of node.Config.
	ElectionTimeout time.Duration
	// Without lists preferences that this member does without: news, successors, priorities. See node.Config.Preferences.
	Without []string
	// These are fields of node.Config. SnapshotRate is SnapshotBytesPerSecond.
	SnapshotEntries, SnapshotLogBytes, SnapshotTailBytes, SnapshotHoldBytes int
	SnapshotRate, SnapshotReserveBytes                                      int
	SnapshotStallMax                                                        time.Duration
	// TLSCert, TLSKey and TLSCA are the names of PEM files. Set all three or none. They secure the raft connections.
	TLSCert, TLSKey, TLSCA string
	// Network, if it is not nil, can cut the member off from the others. It has no TLS.
	Network *Network
	// Insecure allows raft connections without TLS beyond this machine.
	Insecure bool
	LogLevel string // trace, debug, info, warn, error, off
}

func (o *Options) checkLog() error {
	if kind := storage.Kind(o.Log); kind != "" && kind != storage.KindBolt && kind != storage.KindSegments {
		return fmt.Errorf("--log %q: use %s or %s", o.Log, storage.KindBolt, storage.KindSegments)
	}
	return nil
}

// ParseWithout returns the preferences without the named ones: news, successors, priorities.
func ParseWithout(names []string) (p raft.Preferences, err error) {
	for _, name := range names {
		switch name {
		case "news":
			p.NoNews = true
		case "successors":
			p.NoSuccessors = true
		case "priorities":
			p.NoPriorities = true
		default:
			return p, fmt.Errorf("--without %q: use news, successors, priorities, or several of them separated by commas", name)
		}
	}
	return p, nil
}

// ParsePeer parses "id=host:port=url": a member's id, its address for the other members, and its URL for clients.
func ParsePeer(text string) (raft.Member, error) {
	parts := strings.SplitN(text, "=", 3)
	if len(parts) != 3 {
		return raft.Member{}, fmt.Errorf("--peers %q: write id=host:port=url, as in n1=127.0.0.1:5001=http://127.0.0.1:4001", text)
	}
	id, address, client := parts[0], parts[1], parts[2]
	if err := cmp.Or(joining.CheckAddress(address), api.CheckURL(client)); err != nil {
		return raft.Member{}, fmt.Errorf("--peers %q: %w", text, err)
	}
	return raft.Member{ID: raft.NodeID(id), Address: address, Meta: client}, nil
}

// FormatPeer is the inverse of ParsePeer.
func FormatPeer(m raft.Member) string { return fmt.Sprintf("%s=%s=%s", m.ID, m.Address, m.Meta) }

// via returns the addresses in Via at which to dial members, by id or by address.
func (o Options) via() (map[string]string, error) {
	addresses := map[string]string{}
	for _, text := range o.Via {
		name, address, found := strings.Cut(text, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("--via %q: write id=host:port, as in n2=127.0.0.1:7002", text)
		}
		if err := joining.CheckAddress(address); err != nil {
			return nil, fmt.Errorf("--via %q: %w", text, err)
		}
		addresses[name] = address
	}
	return addresses, nil
}

// resolve returns the function with which the transport finds the addresses of members; nil for the default.
func (o Options) resolve() (func(context.Context, raft.Member) (string, error), error) {
	via, err := o.via()
	if err != nil || len(via) == 0 {
		return nil, err
	}
	return func(_ context.Context, m raft.Member) (string, error) {
		return cmp.Or(via[string(m.ID)], via[m.Address], m.Address), nil
	}, nil
}

// checkListener returns an error if the text is not a "host:port" to listen on. The host may be empty. With port 0, the
// system chooses a port. For addresses to dial, see joining.CheckAddress.
func checkListener(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is no host:port; write it as in 127.0.0.1:5001 or [::1]:5001", address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%q: %q is no port; it takes a number up to 65535", address, port)
	}
	return nil
}

// Validate returns all errors in the options as one joined error. It returns nil if there are none. Run makes the same
// checks.
func (o Options) Validate() error {
	_, err := o.config()
	return err
}

// config returns the configuration of the member, or all errors in the options.
func (o Options) config() (library.Config, error) {
	var errs []error
	cfg := library.Config{
		ID: raft.NodeID(o.ID), Cluster: o.Cluster, Dir: o.Data, Listen: o.RaftAddr, Store: storage.Options{New: storage.Kind(o.Log)},
		Net: transport.Options{Insecure: o.Insecure}, Advertise: o.Advertise, SetAside: o.SetAside, Rejoin: raft.Index(o.Rejoin),
		Node: node.Config{
			ElectionTimeout: o.ElectionTimeout, Limits: raft.Limits{
				CommandBytesMax: kv.CommandBytesMax, SnapshotEntries: o.SnapshotEntries, SnapshotLogBytes: o.SnapshotLogBytes,
				SnapshotTailBytes: o.SnapshotTailBytes, SnapshotHoldBytes: o.SnapshotHoldBytes,
			},
			SnapshotBytesPerSecond: o.SnapshotRate, SnapshotReserveBytes: o.SnapshotReserveBytes, SnapshotStallMax: o.SnapshotStallMax,
		},
	}
	required := func(flag, value string) {
		if value == "" {
			errs = append(errs, fmt.Errorf("%s is missing", flag))
		}
	}
	required("--id", o.ID)
	if strings.ContainsAny(o.ID, "=,") {
		errs = append(errs, fmt.Errorf("--id %q: --peers could not name it; choose one without = and ,", o.ID))
	}
	required("--cluster", o.Cluster)
	required("--data", o.Data)
	for _, a := range []struct{ flag, address string }{{"--raft-addr", o.RaftAddr}, {"--http-addr", o.HTTPAddr}} {
		if required(a.flag, a.address); a.address != "" {
			if err := checkListener(a.address); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", a.flag, err))
			}
		}
	}
	errs = append(errs, o.setPlace(&cfg))
	// If they are missing, the library's checks would only repeat these errors.
	readable := o.ID != "" && o.Cluster != "" && o.Data != "" && o.RaftAddr != ""
	for _, text := range o.Peers {
		peer, err := ParsePeer(text)
		readable = readable && err == nil
		for _, other := range cfg.Initial {
			if err == nil && other.Address == peer.Address && other.ID != peer.ID {
				err = fmt.Errorf("--peers %q: %s has the same address; give each member its own", text, other.ID)
			}
		}
		errs = append(errs, err)
		cfg.Initial = append(cfg.Initial, peer)
	}
	var unresolved, unknown error
	cfg.Net.Resolve, unresolved = o.resolve()
	cfg.Node.Preferences, unknown = ParseWithout(o.Without)
	errs = append(errs, unresolved, o.checkLog(), unknown)
	if hclog.LevelFromString(o.LogLevel) == hclog.NoLevel {
		errs = append(errs, fmt.Errorf("--log-level %q: use trace, debug, info, warn, error or off", o.LogLevel))
	}
	for _, origin := range o.PageOrigins {
		if u, err := url.Parse(origin); err != nil || !api.IsURL(origin) || u.Scheme+"://"+u.Host != origin {
			errs = append(errs, fmt.Errorf("--page-origin %q: write https://host or https://host:port, as the browser shows it", origin))
		}
	}
	if given := countSet(o.TLSCert, o.TLSKey, o.TLSCA); given != 0 && given != 3 {
		errs = append(errs, errors.New("--tls-cert, --tls-key and --tls-ca go together: give all three or none"))
	} else {
		cfg.TLS = library.TLSFiles(o.TLSCA, o.TLSCert, o.TLSKey)
	}
	if readable {
		errs = append(errs, inFlags(cfg.Validate()))
	}
	return cfg, errors.Join(errs...)
}

// urls returns further URLs at which clients may reach this member, beside the URL in the configuration.
func (o Options) urls() []string {
	urls := append([]string{o.URL, "http://" + o.HTTPAddr}, o.Join...) // --join may contain one name for all members
	if name, err := os.Hostname(); err == nil {
		urls = append(urls, "http://"+name)
	}
	for _, seed := range o.Seeds { // which may be one name for all members, too
		urls = append(urls, "http://"+strings.TrimPrefix(seed, "dns:"))
	}
	for _, text := range o.Peers {
		if m, err := ParsePeer(text); err == nil {
			urls = append(urls, m.Meta)
		}
	}
	return urls
}

// flagOf names the flag that sets a field of library.Config, or of its Node.
var flagOf = map[string]string{
	"Founders": "--founders", "Seeds": "--seeds", "Meta": "--url", "Learner": "--as learner", "SetAside": "--set-aside", "Rejoin": "--rejoin",
	"ID": "--id", "Cluster": "--cluster", "Dir": "--data", "Initial": "--peers", "ElectionTimeout": "--election-timeout", "Advertise": "--advertise",
	"SnapshotEntries": "--snapshot-entries", "SnapshotLogBytes": "--snapshot-log-bytes",
	"SnapshotTailBytes": "--snapshot-tail-bytes", "SnapshotHoldBytes": "--snapshot-hold-bytes",
	"SnapshotBytesPerSecond": "--snapshot-rate", "SnapshotReserveBytes": "--snapshot-reserve-bytes",
	"SnapshotStallMax": "--snapshot-stall-max",
}

// inFlags replaces the field names in the errors of library.Config.Validate with the names of the flags.
func inFlags(err error) error {
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) {
		return err
	}
	var said []error
	for _, one := range all.Unwrap() {
		said = append(said, inFlag(one))
	}
	return errors.Join(said...)
}

// remediesInFlags replaces what the errors of library.Config say of other fields.
var remediesInFlags = strings.NewReplacer("needs Seeds or Founders", "needs --seeds", "needs Seeds,", "needs --seeds,",
	"with Founders or Seeds, which take its place", "with --founders, --seeds and --join, which take its place", "leave Learner out", "leave it out")

// inFlag does the same for one error.
func inFlag(err error) error {
	var field *raft.ConfigError
	if errors.As(err, &field) && flagOf[field.Field] != "" {
		if text := field.Err.Error(); remediesInFlags.Replace(text) != text {
			return fmt.Errorf("%s: %s", flagOf[field.Field], remediesInFlags.Replace(text))
		}
		return fmt.Errorf("%s: %w", flagOf[field.Field], field.Err)
	}
	return err
}

func countSet(values ...string) (n int) {
	for _, v := range values {
		if v != "" {
			n++
		}
	}
	return n
}
