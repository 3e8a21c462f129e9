package main

import (
	"fmt"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

// inspectionJSON is an Inspection for scripts: enumerations are names, and ids and durations are text. The keys are a contract:
// new ones may be added, but none is renamed or removed.
type inspectionJSON struct {
	Dir           string         `json:"dir"`
	Kind          storage.Kind   `json:"kind"`
	ClusterName   string         `json:"cluster_name"` // empty: no owner yet
	ID            raft.NodeID    `json:"id"`
	Incarnation   string         `json:"incarnation"`
	Cluster       string         `json:"cluster"` // empty until there is one
	StartCount    uint64         `json:"start_count"`
	Starts        []startJSON    `json:"starts"`
	Seen          []sightingJSON `json:"seen"`
	Confirmed     []sightingJSON `json:"confirmed"`
	Mark          *markJSON      `json:"mark"`
	Term          raft.Term      `json:"term"`
	Vote          *peerJSON      `json:"vote"`
	Leading       bool           `json:"leading"`
	Losses        uint8          `json:"losses"`
	Lease         string         `json:"lease"` // "0s": no promise
	Commit        raft.Index     `json:"commit"`
	Base          string         `json:"base"` // "index@term"
	First         raft.Index     `json:"first"`
	Last          string         `json:"last"` // "index@term"
	Terms         []termJSON     `json:"terms"`
	ConfigIndex   raft.Index     `json:"config_index"`
	Level         uint64         `json:"level"`
	Members       []memberJSON   `json:"members"`
	Outgoing      []peerJSON     `json:"outgoing"`
	Removed       []removedJSON  `json:"removed"`
	AppVersionMin uint64         `json:"app_version_min"`
	Sessions      bool           `json:"sessions"`
	LeaseDuration string         `json:"lease_duration"`
	Records       []recordJSON   `json:"records"`
	Segments      []segmentJSON  `json:"segments"`
	Spares        []string       `json:"spares"`
	Snapshots     []snapshotJSON `json:"snapshots"`
	LeftOver      []string       `json:"left_over"`
	Others        []string       `json:"others"`
	Err           string         `json:"error"` // why not everything could be read
}

type peerJSON struct {
	ID          raft.NodeID `json:"id"`
	Incarnation string      `json:"incarnation"`
}

type startJSON struct {
	Count uint64 `json:"count"`
	Nonce string `json:"nonce"`
}

type sightingJSON struct {
	peerJSON
	Start   startJSON `json:"start"`
	Term    raft.Term `json:"term"`
	Address string    `json:"address"`
}

type markJSON struct {
	Kind   string    `json:"kind"`
	By     peerJSON  `json:"by"`
	Term   raft.Term `json:"term"`
	Ours   string    `json:"ours"`
	Theirs string    `json:"theirs"`
	Detail string    `json:"detail"`
}

type termJSON struct {
	Term  raft.Term  `json:"term"`
	First raft.Index `json:"first"`
}

type memberJSON struct {
	peerJSON
	Kind       string `json:"kind"`
	Address    string `json:"address"`
	Meta       string `json:"meta"`
	Priority   string `json:"priority"`
	Next       string `json:"next"`
	AppVersion uint64 `json:"app_version"`
}

type removedJSON struct {
	peerJSON
	Index raft.Index `json:"index"`
}

type recordJSON struct {
	Record string `json:"record"`
	Found  uint64 `json:"found"`
	Newest uint64 `json:"newest"`
}

type segmentJSON struct {
	File  string     `json:"file"`
	Bytes int64      `json:"bytes"`
	Used  int64      `json:"used"`
	First raft.Index `json:"first"`
	Last  raft.Index `json:"last"`
}

type snapshotJSON struct {
	File        string       `json:"file"`
	FileBytes   int64        `json:"file_bytes"`
	Recorded    bool         `json:"recorded"`
	Whole       bool         `json:"whole"`
	ID          string       `json:"id"` // "index@term"
	Bytes       int64        `json:"bytes"`
	ConfigIndex raft.Index   `json:"config_index"`
	Level       uint64       `json:"level"`
	Members     []memberJSON `json:"members"`
	Err         string       `json:"error"`
}

func inspectionOf(dir string, i storage.Inspection, err error) inspectionJSON {
	s := i.Stored
	j := inspectionJSON{
		Dir: dir, Kind: i.Kind, ClusterName: i.ClusterName, ID: i.ID, Incarnation: s.Incarnation.String(),
		StartCount: s.StartCount, Starts: each(s.Lineage, startOf), Seen: each(s.Memory.Seen, sightingOf), Confirmed: each(s.Memory.Confirmed, sightingOf),
		Term: s.Hard.Term, Leading: s.Hard.Leading, Losses: s.Hard.Losses, Lease: time.Duration(s.Hard.Lease).String(),
		Commit: s.Commit, Base: s.Log.Base.ID.String(), First: s.Log.Base.ID.Index + 1, Last: s.Log.Last.String(),
		Terms: each(s.Log.Runs, func(r raft.TermRun) termJSON { return termJSON{r.Term, r.First} }), ConfigIndex: i.ConfigIndex,
		Level: i.Config.Level, Members: each(i.Config.Members, memberOf), Outgoing: each(i.Config.Outgoing, peerOf),
		Removed:       each(i.Config.Removed, func(r raft.Removal) removedJSON { return removedJSON{peerOf(r.Peer), r.Index} }),
		AppVersionMin: i.Config.AppVersionMin, Sessions: i.Config.Sessions, LeaseDuration: i.Config.LeaseDuration.String(),
		Records:  each(i.Records, func(r storage.RecordVersion) recordJSON { return recordJSON(r) }),
		Segments: each(i.Segments, func(f storage.SegmentFile) segmentJSON { return segmentJSON(f) }), Spares: each(i.Spares, same),
		Snapshots: each(i.Snapshots, snapshotOf), LeftOver: each(s.LeftOver, same), Others: each(i.Others, same), Err: errorText(err),
	}
	if i.Cluster != (raft.ClusterID{}) {
		j.Cluster = i.Cluster.String()
	}
	if s.Hard.Vote != (raft.Peer{}) {
		vote := peerOf(s.Hard.Vote)
		j.Vote = &vote
	}
	j.Mark = markOf(s.Mark)
	return j
}

// each returns a list that is empty, and not null, if there is nothing.
func each[From, To any](all []From, of func(From) To) []To {
	list := make([]To, 0, len(all))
	for _, one := range all {
		list = append(list, of(one))
	}
	return list
}

func same(text string) string { return text }

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func peerOf(p raft.Peer) peerJSON { return peerJSON{p.ID, p.Incarnation.String()} }

func startOf(s raft.StartID) startJSON { return startJSON{s.Count, fmt.Sprintf("%016x", s.Nonce)} }

func sightingOf(s raft.Sighting) sightingJSON {
	return sightingJSON{peerOf(s.Peer), startOf(s.Start), s.Term, s.Address}
}

func memberOf(m raft.Member) memberJSON {
	return memberJSON{peerOf(m.Peer()), m.Kind.String(), m.Address, m.Meta, m.Priority.String(), m.Next.String(), m.AppVersion}
}

func markOf(m *raft.Mark) *markJSON {
	if m == nil {
		return nil
	}
	return &markJSON{m.Kind.String(), peerOf(m.By), m.Term, m.Ours.String(), m.Theirs.String(), m.Detail}
}

func snapshotOf(f storage.SnapshotFile) snapshotJSON {
	return snapshotJSON{
		File: f.File, FileBytes: f.Bytes, Recorded: f.Recorded, Whole: f.Whole, ID: f.Snapshot.ID.String(), Bytes: f.Snapshot.Size,
		ConfigIndex: f.Snapshot.ConfigIndex, Level: f.Snapshot.Config.Level, Members: each(f.Snapshot.Config.Members, memberOf), Err: errorText(f.Err),
	}
}
