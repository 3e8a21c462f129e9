package member

import (
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// Config holds the settings of a member. Start copies it. ID, Cluster, Dir and Listen are required; the others are optional.
type Config struct {
	// ID, Cluster and Initial are as in node.Config. ID names this member, and Cluster its cluster. Initial lists the
	// initial members of a new cluster: the same list on each of them. A member without Initial waits until it is added.
	// Advertise is the "host:port" at which the other members reach this member, and Meta the application's text about it, such
	// as a client URL, of at most raft.MetaBytesMax bytes of UTF-8. A member whose entry in the configuration has another Advertise or
	// Meta corrects it, once after a start, through the leader. An empty one leaves the entry as it is.
	ID        raft.NodeID
	Cluster   string
	Initial   []raft.Member
	Advertise string
	Meta      string

	// Founders and Seeds are one configuration for every state of a member, in place of Initial. Founders are the ids of the
	// members that begin the cluster, the same on each, and never changed afterwards: see Ordinals. Seeds are where this member asks
	// who is there. An empty founder that finds no cluster takes part in the bootstrap, which begins once all founders have
	// answered; Status.Missing names who has not. Any other member with an empty store, and a founder whose disk was lost, asks the
	// leader to join. Advertise is required, unless Listen names a host and a port. See docs/membership.md.
	Founders []raft.NodeID
	Seeds    Seeds
	// Learner lets this member join as a learner, and stay one. A founder cannot be one.
	Learner bool
	// SetAside lets a member that cannot use its store, because the store is damaged or an older image of the disk, start with an
	// empty one and join again. It moves the store into another directory within Dir, and deletes nothing. Start waits until a leader that
	// a quorum has just confirmed names this id in its configuration; until then, the store stays. No other error sets a store
	// aside. If the store cannot tell its cluster, Start fails: then set it aside yourself (storage.SetAside).
	SetAside bool
	// Rejoin lets a member that was removed from the cluster by the entry at this index (raft.RemovedError.Index) start with an empty
	// store, and join again. It counts for that removal alone. 0: a removed member stays out.
	Rejoin raft.Index

	// Dir is the directory of the store. Start creates it. No other member may use it.
	Dir string
	// Listen is the "host:port" on which this member accepts the connections of the other members. The host may be empty. With
	// port 0, the system chooses a port; Member.TCP has it.
	Listen string
	// TLS makes the members prove to each other who they are: see TLSFiles. Without TLS, only addresses of this machine can be
	// used, unless Net.Insecure is set.
	TLS CertificateFiles
	// NoForward switches forwarding off: Propose, ChangeMembers and TransferLeadership then work on the leader alone. Without it,
	// they work on any member: see node.Config.Forward. Set it on all members alike.
	NoForward bool

	// Node holds the other settings of the node. Leave ID, Cluster, Initial, Advertise and Forward in it empty.
	Node node.Config
	// Net holds the other settings of the transport. Leave TLS and TLSSource in it nil if there are certificate files.
	Net transport.Options
	// Store holds the settings of the store.
	Store storage.Options

	// Storage, if it is not nil, is used in place of a store in Dir. Then Dir may be empty. If it is not, it must exist, and
	// receives the trace of a member that ends by itself.
	Storage raft.Storage
	// Transport, if it is not nil, is used in place of TCP. Then Listen, TLS and Net must be empty.
	Transport raft.Transport

	// Logger receives a few lines, of the node and of the transport, too. Nil: no logging. See node.Config.Logger for what it
	// must not do.
	Logger hclog.Logger
}

// Validate returns all problems of the configuration, joined, each as a *raft.ConfigError. It returns nil if there is none. It
// reads no file. Start calls Validate.
func (c Config) Validate() error {
	var p []error
	problem := func(wrong bool, field, remedy string) {
		if wrong {
			p = append(p, &raft.ConfigError{Field: field, Err: errors.New(remedy)})
		}
	}
	problem(c.Dir == "" && c.Storage == nil, "Dir", "missing: name the directory of this member's data")
	problem(c.Listen == "" && c.Transport == nil, "Listen", "missing: name the host:port for the other members")
	const others = "must be empty with a Transport of your own, which has its own settings"
	problem(c.Listen != "" && c.Transport != nil, "Listen", others)
	problem(c.TLS != (CertificateFiles{}) && c.Transport != nil, "TLS", others)
	problem(c.TLS != (CertificateFiles{}) && !c.TLS.complete(), "TLS", "needs three files: authorities, certificate and key")
	problem(c.TLS != (CertificateFiles{}) && (c.Net.TLS != nil || c.Net.TLSSource != nil), "TLS", "Net has TLS, too: leave one of them empty")
	const above = "must be empty: the field of the same name beside Node sets it"
	problem(c.Node.ID != "", "Node.ID", above)
	problem(c.Node.Cluster != "", "Node.Cluster", above)
	problem(c.Node.Initial != nil, "Node.Initial", above)
	problem(c.Node.Advertise != "", "Node.Advertise", above)
	problem(c.Node.Forward, "Node.Forward", "must be empty: NoForward beside Node decides")
	problem(c.Node.Founders != nil, "Node.Founders", above)
	problem(c.Node.Meta != "", "Node.Meta", above)
	for _, m := range c.Initial {
		if err := joining.CheckAddress(m.Address); err != nil && m.Address != "" && !c.ownAddresses() {
			p = append(p, &raft.ConfigError{Field: "Initial", Err: fmt.Errorf("member %s: %w", m.ID, err)})
		}
	}
	p = append(p, c.foundingProblems()...)
	var ofNode interface{ Unwrap() []error }
	n := c.node()
	if c.founding() { // foundingProblems has them
		n.Founders, n.Meta, n.Advertise = nil, "", ""
	}
	if errors.As(n.Validate(), &ofNode) {
		p = append(p, ofNode.Unwrap()...)
	}
	if err := errors.Join(p...); err != nil {
		return fmt.Errorf("member: invalid configuration: %w", err)
	}
	return nil
}

// node returns the configuration of the node.
func (c Config) node() node.Config {
	n := c.Node
	n.ID, n.Cluster, n.Initial, n.Advertise = c.ID, c.Cluster, c.Initial, c.advertised()
	n.Founders, n.Meta = c.Founders, c.Meta
	n.Forward = !c.NoForward
	if n.Logger == nil {
		n.Logger = c.Logger
	}
	return n
}
