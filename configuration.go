package raft

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Limits of a configuration.
const (
	NodeIDBytesMax  = 64   // bytes of a NodeID
	AddressBytesMax = 256  // bytes of a Member's Address
	MetaBytesMax    = 1024 // bytes of a Member's Meta
	MembersMax      = 255  // members of a cluster, voters and learners together
)

// MemberKind says what a member may do.
type MemberKind uint8

// The kinds of members. The numbers are part of the log's format.
const (
	Voter   MemberKind = 0 // votes, may lead, counts towards every quorum
	Learner MemberKind = 1 // receives the log; never votes or leads, and counts towards no quorum
)

func (k MemberKind) String() string {
	if k == Learner {
		return "learner"
	}
	return "voter"
}

// Member is one member of a cluster as its configuration names it.
type Member struct {
	ID NodeID
	// Address is the "host:port" that other members dial. A host name is resolved again on every dial.
	Address string
	// Meta is text of the application, at most MetaBytesMax bytes. It is replicated with the configuration and
	// returned in *NotLeaderError; a client URL belongs here.
	Meta string
	Kind MemberKind
	// Incarnation is set by the bootstrap; it is 0 in node.Config.Initial.
	Incarnation Incarnation
}

// Peer names one incarnation of one member. Votes and acknowledgements count by Peer, never by id alone.
type Peer struct {
	ID          NodeID
	Incarnation Incarnation
}

// Peer returns the member's id and incarnation.
func (m Member) Peer() Peer { return Peer{m.ID, m.Incarnation} }

// Configuration names the members of a cluster, sorted by id. Configurations are immutable: share them, never change
// them.
type Configuration struct {
	Members []Member
}

// NewConfiguration returns a configuration of the members, sorted by id. It does not check them: see Validate.
func NewConfiguration(members []Member) Configuration {
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, func(a, b Member) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return Configuration{Members: sorted}
}

// Member returns the member with this id.
func (c Configuration) Member(id NodeID) (Member, bool) {
	i := sort.Search(len(c.Members), func(i int) bool { return c.Members[i].ID >= id })
	if i == len(c.Members) || c.Members[i].ID != id {
		return Member{}, false
	}
	return c.Members[i], true
}

// Voters returns the voters, sorted by id.
func (c Configuration) Voters() []Member {
	voters := make([]Member, 0, len(c.Members))
	for _, m := range c.Members {
		if m.Kind == Voter {
			voters = append(voters, m)
		}
	}
	return voters
}

// SameList reports whether both name the same members, whatever their incarnations. The bootstrap compares the
// members' node.Config.Initial with it.
func (c Configuration) SameList(other Configuration) bool {
	return slices.EqualFunc(c.Members, other.Members, func(a, b Member) bool {
		a.Incarnation, b.Incarnation = 0, 0
		return a == b
	})
}

// Validate returns all problems of the configuration, joined; nil if there are none.
func (c Configuration) Validate() error {
	var errs []error
	if len(c.Members) > MembersMax {
		errs = append(errs, fmt.Errorf("it has %d members; the limit is %d", len(c.Members), MembersMax))
	}
	voters := 0
	for i, m := range c.Members {
		if err := validateNodeID(m.ID); err != nil {
			errs = append(errs, err)
		}
		if i > 0 && c.Members[i-1].ID == m.ID {
			errs = append(errs, fmt.Errorf("member %q is listed twice", m.ID))
		}
		if m.Address == "" || len(m.Address) > AddressBytesMax {
			errs = append(errs, fmt.Errorf("member %q: the address has %d bytes; it must have 1 to %d", m.ID, len(m.Address), AddressBytesMax))
		}
		if len(m.Meta) > MetaBytesMax {
			errs = append(errs, fmt.Errorf("member %q: Meta has %d bytes; the limit is %d", m.ID, len(m.Meta), MetaBytesMax))
		}
		if m.Kind > Learner {
			errs = append(errs, fmt.Errorf("member %q: unknown kind %d", m.ID, m.Kind))
		}
		if m.Kind == Voter {
			voters++
		}
	}
	if voters == 0 {
		errs = append(errs, errors.New("it has no voter, so no member could lead"))
	}
	return errors.Join(errs...)
}

func validateNodeID(id NodeID) error { return ValidateName("member id", string(id)) }

// ValidateName checks that a name has 1 to NodeIDBytesMax bytes of printable ASCII without spaces. kind is "member
// id" or "cluster name". The error names the kind, the name and what is wrong with it.
func ValidateName(kind, name string) error {
	if len(name) == 0 || len(name) > NodeIDBytesMax {
		return fmt.Errorf("%s %q has %d bytes; it takes 1 to %d", kind, name, len(name), NodeIDBytesMax)
	}
	for _, b := range []byte(name) {
		if b <= ' ' || b > '~' {
			return fmt.Errorf("%s %q: byte 0x%02x; only printable ASCII without spaces is allowed", kind, name, b)
		}
	}
	return nil
}

// Bootstrap is the content of entry 1, which creates a cluster.
type Bootstrap struct {
	Cluster       ClusterID
	Bootstrapper  Peer
	Probe         RPCID // the probe after which it was written; a repeated bootstrap has a higher one
	Configuration Configuration
}

// bootstrapVersion is the version of a bootstrap that this release writes, and the only one that it reads.
// Version 1 was msgpack.
const bootstrapVersion = 2

// bootstrapRecord is Bootstrap as it is stored, in JSON. Later releases may add fields, and unknown fields are ignored;
// a field that must not be ignored raises the version. Fields that may hold any bytes are []byte, because JSON would
// replace the bytes of a string that are not UTF-8.
type bootstrapRecord struct {
	Version      uint64         `json:"version"`
	Cluster      []byte         `json:"cluster"`
	Bootstrapper string         `json:"bootstrapper"`
	Incarnation  uint64         `json:"incarnation"`
	StartCount   uint64         `json:"start_count"`
	Counter      uint64         `json:"counter"`
	Members      []memberRecord `json:"members"`
}

type memberRecord struct {
	ID          string `json:"id"`
	Address     []byte `json:"address"`
	Meta        []byte `json:"meta,omitempty"`
	Kind        uint8  `json:"kind,omitempty"`
	Incarnation uint64 `json:"incarnation"`
}

func memberRecords(c Configuration) []memberRecord {
	records := make([]memberRecord, 0, len(c.Members))
	for _, m := range c.Members {
		records = append(records, memberRecord{
			ID: string(m.ID), Address: []byte(m.Address), Meta: []byte(m.Meta), Kind: uint8(m.Kind), Incarnation: uint64(m.Incarnation),
		})
	}
	return records
}

// configurationOf is the reverse of memberRecords. It checks nothing.
func configurationOf(records []memberRecord) Configuration {
	members := make([]Member, 0, len(records))
	for _, r := range records {
		members = append(members, Member{
			ID: NodeID(r.ID), Address: string(r.Address), Meta: string(r.Meta), Kind: MemberKind(r.Kind), Incarnation: Incarnation(r.Incarnation),
		})
	}
	return NewConfiguration(members)
}

// bootstrapBytesMax is more than the largest configuration needs, and bounds what a peer can make this member decode.
const bootstrapBytesMax = 640 << 10

// Encode returns the bootstrap as the data of entry 1.
func (f Bootstrap) Encode() []byte {
	r := bootstrapRecord{
		Version: bootstrapVersion, Cluster: f.Cluster[:], Bootstrapper: string(f.Bootstrapper.ID), Incarnation: uint64(f.Bootstrapper.Incarnation),
		StartCount: f.Probe.StartCount, Counter: f.Probe.Counter,
	}
	r.Members = memberRecords(f.Configuration)
	data, err := json.Marshal(r)
	assert(err == nil, "a bootstrap record encodes")
	return data
}

// DecodeBootstrap decodes the data of entry 1 and checks it. If another release wrote it in a version that this one
// cannot read, the error is a *LaterVersionError or an *EarlierVersionError.
func DecodeBootstrap(data []byte) (Bootstrap, error) {
	if len(data) > bootstrapBytesMax {
		return Bootstrap{}, fmt.Errorf("raft: the bootstrap entry has %d bytes; the limit is %d", len(data), bootstrapBytesMax)
	}
	if err := checkBootstrapVersion(data); err != nil {
		return Bootstrap{}, err
	}
	var r bootstrapRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return Bootstrap{}, fmt.Errorf("raft: bootstrap entry: %w", err)
	}
	f := Bootstrap{
		Bootstrapper: Peer{NodeID(r.Bootstrapper), Incarnation(r.Incarnation)},
		Probe:        RPCID{r.StartCount, r.Counter},
	}
	if len(r.Cluster) != len(f.Cluster) {
		return Bootstrap{}, fmt.Errorf("raft: bootstrap entry: the cluster id has %d bytes; it must have %d", len(r.Cluster), len(f.Cluster))
	}
	copy(f.Cluster[:], r.Cluster)
	if (f.Cluster == ClusterID{}) {
		return Bootstrap{}, errors.New("raft: bootstrap entry: the cluster id is zero")
	}
	f.Configuration = configurationOf(r.Members)
	if err := f.Configuration.Validate(); err != nil {
		return Bootstrap{}, fmt.Errorf("raft: bootstrap entry: %w", err)
	}
	for _, m := range f.Configuration.Members {
		if m.Incarnation == 0 {
			return Bootstrap{}, fmt.Errorf("raft: bootstrap entry: member %q has no incarnation", m.ID)
		}
	}
	if m, ok := f.Configuration.Member(f.Bootstrapper.ID); !ok || m.Peer() != f.Bootstrapper {
		return Bootstrap{}, fmt.Errorf("raft: bootstrap entry: bootstrapper %q is not one of its members", f.Bootstrapper.ID)
	}
	return f, nil
}

// checkBootstrapVersion only reads the version, because another version may change everything else.
func checkBootstrapVersion(data []byte) error {
	const record = "the bootstrap of the cluster (entry 1)"
	if isMsgpackMap(data) {
		return &EarlierVersionError{Record: record, Found: 1, Oldest: bootstrapVersion}
	}
	var r struct {
		Version uint64 `json:"version"`
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("raft: bootstrap entry: %w", err)
	}
	switch {
	case r.Version > bootstrapVersion:
		return &LaterVersionError{Record: record, Found: r.Version, Known: bootstrapVersion}
	case r.Version < bootstrapVersion:
		return fmt.Errorf("raft: bootstrap entry: version %d in JSON, which begins with version %d", r.Version, bootstrapVersion)
	}
	return nil
}

// isMsgpackMap reports whether the data begins like a bootstrap of version 1. JSON never begins like that.
func isMsgpackMap(data []byte) bool {
	const fixMap, fixMapLast, map16, map32 = 0x80, 0x8f, 0xde, 0xdf
	return len(data) > 0 && (data[0] >= fixMap && data[0] <= fixMapLast || data[0] == map16 || data[0] == map32)
}
