package raft

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Recovery is the content of an EntryRecovery. An operator has decided that a majority of the former cluster is lost for good,
// and has made one survivor's log that of a new cluster. Every entry before this one counts as committed.
type Recovery struct {
	Cluster       ClusterID // of the new cluster: from this entry on, it takes the place of the one in entry 1
	Former        ClusterID
	Configuration Configuration // the survivor alone, as a voter
}

const recoveryVersion = 1 // the newest that this release reads; it writes this one

// recoveryRecord is Recovery as it is stored, in JSON. Unknown fields are ignored. A release that adds a field which must not be
// ignored raises the version.
type recoveryRecord struct {
	Version       uint64          `json:"version"`
	Cluster       []byte          `json:"cluster"`
	Former        []byte          `json:"former"`
	Configuration json.RawMessage `json:"configuration"` // a configurationRecord
}

// Encode returns the recovery as the data of an EntryRecovery.
func (r Recovery) Encode() []byte {
	return encodeRecord(recoveryRecord{recoveryVersion, r.Cluster[:], r.Former[:], r.Configuration.Encode()})
}

// DecodeRecovery decodes and checks the data of an EntryRecovery. For a version or a feature level of a later release it
// returns a *LaterVersionError.
func DecodeRecovery(data []byte) (Recovery, error) {
	var stored recoveryRecord
	if len(data) > bootstrapBytesMax {
		return Recovery{}, fmt.Errorf("raft: the recovery entry has %d bytes; the limit is %d", len(data), bootstrapBytesMax)
	}
	if err := json.Unmarshal(data, &stored); err != nil {
		return Recovery{}, fmt.Errorf("raft: recovery entry: %w", err)
	}
	if stored.Version > recoveryVersion {
		return Recovery{}, &LaterVersionError{Record: "the recovery of the cluster", Found: stored.Version, Known: recoveryVersion}
	}
	config, err := DecodeConfiguration(stored.Configuration)
	if err != nil {
		return Recovery{}, fmt.Errorf("raft: recovery entry: %w", err)
	}
	r := Recovery{Configuration: config}
	switch cluster, former := slices.Equal(stored.Cluster, make([]byte, len(r.Cluster))), len(stored.Former); {
	case stored.Version == 0 || len(stored.Cluster) != len(r.Cluster) || former != len(r.Former) || cluster:
		return Recovery{}, errors.New("raft: recovery entry: it does not name the two clusters")
	case config.Level < featureLevelRecovery || len(config.Members) != 1 || config.Members[0].Kind != Voter || config.Members[0].Incarnation == 0:
		return Recovery{}, errors.New("raft: recovery entry: its configuration is not that of one voter")
	}
	copy(r.Cluster[:], stored.Cluster)
	copy(r.Former[:], stored.Former)
	return r, nil
}

// recoveryTermJump is by how much a recovery raises the term. So no term that the lost members may have reached returns, and
// fencing tokens do not fall.
const recoveryTermJump = 1 << 32

// Recovered is what a recovery changes in a store, all in one step.
type Recovered struct {
	Incarnation Incarnation
	Hard        HardState
	Base        Base     // of the log, with the new cluster; zero: it begins at entry 1
	Snapshot    Snapshot // the recorded one, with the new cluster; zero: there is none
	Entry       Entry    // follows the last one of the log
}

// Recover returns what makes the store of member id the only member of a new cluster, with every entry that it holds. The store
// has to make all of it durable in one step. The cluster id and the incarnation must be random and new: no other member of the
// former cluster then ever talks to the new one, and the new one to none of them. now is the wall clock in ns since 1970.
//
// It is only safe if the former cluster can never again have a majority, because entries may be committed there that this log
// does not hold. It fails with a *NotRecoverableError if the log's newest configuration does not name the member, or if the
// member has a quorum by itself, for instance because it was recovered already. It fails with Mark.Err if the store is marked and
// despite is false.
func (s *Stored) Recover(id NodeID, cluster ClusterID, fresh Incarnation, now int64, despite bool) (Recovered, error) {
	config, self := s.Log.Configuration(), Peer{id, s.Incarnation}
	survivor, named := config.Peer(self)
	switch {
	case s.Cluster() == ClusterID{}:
		return Recovered{}, &NotRecoverableError{id, "it belongs to no cluster and holds no entry: nothing is to be recovered"}
	case !named:
		return Recovered{}, &NotRecoverableError{id, "the newest configuration in its log does not name it: recover another survivor"}
	case s.Mark != nil && !despite:
		return Recovered{}, s.Mark.Err()
	case s.Mark == nil && config.hasQuorum(func(p Peer) bool { return p == self }):
		return Recovered{}, &NotRecoverableError{id, "it has a majority by itself, so nothing is lost: start it"}
	}
	return s.RecoverAs(survivor, cluster, fresh, now)
}

// RecoverAs is Recover for a store into which a backup was written: the log need not name the member. m has the identity and the
// address of the only member of the new cluster.
func (s *Stored) RecoverAs(m Member, cluster ClusterID, fresh Incarnation, now int64) (Recovered, error) {
	former, config := s.Cluster(), s.Log.Configuration()
	if term := max(s.Hard.Term, s.Log.Last.Term); term >= 1<<63-2*recoveryTermJump {
		return Recovered{}, &NotRecoverableError{m.ID, fmt.Sprintf("its term %d is impossibly high", term)}
	}
	m.Incarnation, m.Kind, m.Next = fresh, Voter, NextSame
	m.Priority = max(m.Priority, 0)                        // nobody else can lead
	m.AppVersion = max(m.AppVersion, config.AppVersionMin) // a backup does not tell it; an older program does not start
	next := NewConfiguration([]Member{m})
	next.AppVersionMin, next.Sessions, next.LeaseDuration = config.AppVersionMin, config.Sessions, config.LeaseDuration
	next.Level = max(config.Level, featureLevelRecovery)
	r := Recovered{
		Incarnation: fresh,
		Hard:        HardState{Term: max(s.Hard.Term, s.Log.Last.Term) + recoveryTermJump, Cluster: cluster},
		Base:        s.Log.Base,
		Snapshot:    s.Snapshot,
	}
	if r.Base.ID.Index > 0 {
		r.Base.Cluster = cluster
	}
	if r.Snapshot.ID.Index > 0 {
		r.Snapshot.Cluster = cluster
	}
	data := Recovery{Cluster: cluster, Former: former, Configuration: next}.Encode()
	r.Entry = Entry{Index: s.Log.Last.Index + 1, Term: r.Hard.Term, Kind: EntryRecovery, Time: max(now, s.Log.LastTime), Data: data}
	if _, err := DecodeRecovery(data); err != nil {
		return Recovered{}, err
	}
	r.Entry.Seal()
	return r, nil
}

// BestSurvivor returns which of the stores, all of one cluster, to recover; -1: none. Of those that hold every entry that one of them
// knows to be committed, it is the one whose last entry has the highest term, and among those the highest index. The term alone does
// not suffice: the last entry of a stale leader may be of a later term than a committed one (§5.4.2, Figure 8). A marked store does
// not count while there is another one, and one that belongs to no cluster never does.
func BestSurvivor(stores []*Stored) int {
	best, known := -1, EntryID{}
	despite := !slices.ContainsFunc(stores, func(s *Stored) bool { return s.survives(false) })
	for _, s := range stores {
		if id := s.committed(); s.survives(despite) && id.Index > known.Index {
			known = id
		}
	}
	for i, s := range stores {
		l := newLog(s.Log)
		if s.survives(despite) && l.has(known) && (best < 0 || !upToDate(stores[best].Log.Last, l.Last)) {
			best = i
		}
	}
	return best
}

func (s *Stored) survives(despite bool) bool {
	return s.Cluster() != ClusterID{} && s.Log.Last.Index > 0 && (despite || s.Mark == nil)
}

// committed returns the last entry that the store knows to be committed.
func (s *Stored) committed() EntryID {
	l := newLog(s.Log)
	return l.id(min(max(s.Commit, l.Base.ID.Index), l.Last.Index))
}

// NotRecoverableError refuses to make a store that of a new cluster. Nothing has changed.
type NotRecoverableError struct {
	ID  NodeID // whose store it is
	Why string // with the remedy
}

func (e *NotRecoverableError) Error() string {
	return fmt.Sprintf("raft: the store of %q cannot be recovered: %s", e.ID, e.Why)
}

// Cluster returns the id of the cluster that the stored member belongs to; zero: none yet.
func (s *Stored) Cluster() ClusterID {
	c := Core{hard: s.Hard, log: newLog(s.Log)}
	return c.cluster()
}
