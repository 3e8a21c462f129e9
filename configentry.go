package raft

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Bootstrap is the content of entry 1, which creates a cluster.
type Bootstrap struct {
	Cluster       ClusterID
	Bootstrapper  Peer
	Probe         RPCID // the probe that preceded it; a repeated bootstrap has a higher one
	Configuration Configuration
}

// The versions of a bootstrap. Version 1 was msgpack. Releases without priorities know only version 2. So this release writes
// version 3 only if an initial member has a priority. The feature level is then featureLevelPriorities from the beginning.
const (
	bootstrapVersionOldest     = 2                          // the oldest that this release reads
	bootstrapVersionPriorities = 3                          // a member has a priority
	bootstrapVersion           = bootstrapVersionPriorities // the newest that this release reads
)

// bootstrapRecord is Bootstrap as it is stored, in JSON. Later releases may add fields, and this release ignores unknown
// fields. A release that adds a field which must not be ignored raises the version. Fields that may hold any bytes are
// []byte, because JSON would replace the bytes of a string that are not UTF-8.
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
	Next        uint8  `json:"next,omitempty"`
	Outgoing    bool   `json:"outgoing,omitempty"` // it votes in the outgoing half
	Priority    int8   `json:"priority,omitempty"` // -1: PriorityNever
	AppVersion  uint64 `json:"app_version,omitempty"`
}

func memberRecords(c Configuration) []memberRecord {
	records := make([]memberRecord, 0, len(c.Members))
	for _, m := range c.Members {
		records = append(records, memberRecord{
			ID: string(m.ID), Address: []byte(m.Address), Meta: []byte(m.Meta), Kind: uint8(m.Kind), Incarnation: uint64(m.Incarnation),
			Next: uint8(m.Next), Outgoing: c.VotesIn(m.Peer())&OutgoingHalf != 0, Priority: int8(m.Priority.stored()),
			AppVersion: m.AppVersion,
		})
	}
	return records
}

// configurationOf is the reverse of memberRecords. It checks nothing.
func configurationOf(records []memberRecord) Configuration {
	members := make([]Member, 0, len(records))
	var outgoing []Peer
	for _, r := range records {
		m := Member{
			ID: NodeID(r.ID), Address: string(r.Address), Meta: string(r.Meta), Kind: MemberKind(r.Kind), Incarnation: Incarnation(r.Incarnation),
			Next: NextRole(r.Next), Priority: Priority(r.Priority), AppVersion: r.AppVersion,
		}
		members = append(members, m)
		if r.Outgoing {
			outgoing = append(outgoing, m.Peer())
		}
	}
	c := NewConfiguration(members)
	slices.SortFunc(outgoing, Peer.compare)
	c.Outgoing = outgoing
	return c
}

// bootstrapBytesMax limits how many bytes a peer can make this member decode. It is more than the largest configuration
// needs.
const bootstrapBytesMax = 640 << 10

// Encode returns the bootstrap as the data of entry 1.
func (f Bootstrap) Encode() []byte {
	r := bootstrapRecord{
		Version: bootstrapVersionOldest, Cluster: f.Cluster[:], Bootstrapper: string(f.Bootstrapper.ID), Incarnation: uint64(f.Bootstrapper.Incarnation),
		StartCount: f.Probe.StartCount, Counter: f.Probe.Counter,
	}
	if r.Members = memberRecords(f.Configuration); f.Configuration.prioritized() {
		r.Version = bootstrapVersionPriorities
	}
	data, err := json.Marshal(r)
	assert(err == nil, "a bootstrap record encodes")
	return data
}

// DecodeBootstrap decodes and checks the data of entry 1. The error is a *LaterVersionError or *EarlierVersionError for
// another release's version.
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
	if f.Configuration = configurationOf(r.Members); r.Version >= bootstrapVersionPriorities {
		f.Configuration.Level = featureLevelPriorities
	}
	if prioritized := f.Configuration.prioritized(); prioritized != (r.Version >= bootstrapVersionPriorities) {
		return Bootstrap{}, fmt.Errorf("raft: bootstrap entry: version %d, and its members have priorities: %v", r.Version, prioritized)
	}
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

// checkBootstrapVersion reads nothing but the version, because another version may change everything else.
func checkBootstrapVersion(data []byte) error {
	const record = "the bootstrap of the cluster (entry 1)"
	if isMsgpackMap(data) {
		return &EarlierVersionError{Record: record, Found: 1, Oldest: bootstrapVersionOldest}
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
	case r.Version < bootstrapVersionOldest:
		return fmt.Errorf("raft: bootstrap entry: version %d in JSON, which begins with version %d", r.Version, bootstrapVersionOldest)
	}
	return nil
}

// isMsgpackMap reports whether the data begins like a bootstrap of version 1. JSON never begins like that.
func isMsgpackMap(data []byte) bool {
	const fixMap, fixMapLast, map16, map32 = 0x80, 0x8f, 0xde, 0xdf
	return len(data) > 0 && (data[0] >= fixMap && data[0] <= fixMapLast || data[0] == map16 || data[0] == map32)
}

// configurationVersion is the version of a configuration's record. This release writes this version, and reads no newer one.
const configurationVersion = 1

// configurationRecord is a Configuration as the data of an EntryConfiguration, in JSON. Unlike in bootstrapRecord, an unknown
// field is an error. The reason is that members decode the record and encode it again in the base of a compacted log. The
// unknown field would be missing there. So a later release that adds a field raises the feature level or the version.
type configurationRecord struct {
	Version  uint64          `json:"version"`
	Level    uint64          `json:"level"`
	Members  []memberRecord  `json:"members"`
	Removed  []removalRecord `json:"removed,omitempty"`
	Patience int64           `json:"patience,omitempty"` // nanoseconds

	AppVersionMin uint64 `json:"app_version_min,omitempty"`
	Sessions      bool   `json:"sessions,omitempty"`
	LeaseDuration int64  `json:"lease_duration,omitempty"` // nanoseconds
}

type removalRecord struct {
	ID          string `json:"id"`
	Incarnation uint64 `json:"incarnation"`
	Index       uint64 `json:"index"`
}

// Encode returns the configuration as the data of an EntryConfiguration.
func (c Configuration) Encode() []byte {
	r := configurationRecord{
		Version: configurationVersion, Level: c.Level, Members: memberRecords(c), Patience: int64(c.Patience), AppVersionMin: c.AppVersionMin,
		Sessions:      c.Sessions,
		LeaseDuration: int64(c.LeaseDuration),
	}
	for _, removed := range c.Removed {
		r.Removed = append(r.Removed, removalRecord{
			string(removed.Peer.ID), uint64(removed.Peer.Incarnation), uint64(removed.Index),
		})
	}
	data, err := json.Marshal(r)
	assert(err == nil, "the record of a configuration encodes")
	return data
}

// DecodeConfiguration decodes and checks the data of an EntryConfiguration. It accepts only bytes that Encode returns. For a
// version or a feature level of a later release it returns a *LaterVersionError.
func DecodeConfiguration(data []byte) (Configuration, error) {
	if len(data) > bootstrapBytesMax {
		return Configuration{}, fmt.Errorf("raft: the configuration entry has %d bytes; the limit is %d", len(data), bootstrapBytesMax)
	}
	if err := checkConfigurationVersion(data); err != nil {
		return Configuration{}, err
	}
	var r configurationRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return Configuration{}, fmt.Errorf("raft: configuration entry: %w", err)
	}
	if len(r.Members) > MembersMax || len(r.Removed) > RemovedMax {
		return Configuration{}, fmt.Errorf("raft: configuration entry: it has %d members and %d removals; the limits are %d and %d",
			len(r.Members), len(r.Removed), MembersMax, RemovedMax)
	}
	c := r.configuration()
	if err := c.Validate(); err != nil {
		return Configuration{}, fmt.Errorf("raft: configuration entry: %w", err)
	}
	if !slices.Equal(c.Encode(), data) {
		return Configuration{}, errors.New("raft: configuration entry: it is not encoded as this release would encode it")
	}
	return c, nil
}

// configuration returns what the record holds. It checks nothing.
func (r configurationRecord) configuration() Configuration {
	c := configurationOf(r.Members)
	c.Level, c.Patience, c.AppVersionMin, c.Sessions = r.Level, time.Duration(r.Patience), r.AppVersionMin, r.Sessions
	c.LeaseDuration = time.Duration(r.LeaseDuration)
	for _, removed := range r.Removed {
		c.Removed = append(c.Removed, Removal{
			Peer{NodeID(removed.ID), Incarnation(removed.Incarnation)}, Index(removed.Index),
		})
	}
	return c
}

// checkConfigurationVersion reads nothing but the version and the feature level, because another version or a higher level
// may change everything else.
func checkConfigurationVersion(data []byte) error {
	var r struct {
		Version uint64 `json:"version"`
		Level   uint64 `json:"level"`
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("raft: configuration entry: %w", err)
	}
	switch {
	case r.Version > configurationVersion:
		return &LaterVersionError{Record: "the configuration of the cluster", Found: r.Version, Known: configurationVersion}
	case r.Level > featureLevelMax:
		return laterLevel(r.Level)
	case r.Version == 0 || r.Level == 0:
		return fmt.Errorf("raft: configuration entry: it has version %d and feature level %d, which begin with 1", r.Version, r.Level)
	}
	return nil
}

// laterLevel returns the error for a feature level that this release does not know.
func laterLevel(level uint64) *LaterVersionError {
	return &LaterVersionError{Record: "the feature level of the cluster", Found: level, Known: featureLevelMax}
}

// ofLaterVersion reports whether decoding failed because a later release wrote the data.
func ofLaterVersion(err error) bool {
	if err == nil {
		return false
	}
	var later *LaterVersionError
	return errors.As(err, &later)
}
