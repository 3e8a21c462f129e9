package raft

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func aSnapshot(members int) Snapshot {
	f := aBootstrap(members)
	return Snapshot{
		Base: Base{
			ID: EntryID{7, 100}, Time: 12345, Cluster: f.Cluster, Bootstrapper: f.Bootstrapper, ConfigIndex: 1, Config: f.Configuration,
		},
		File: SnapshotID{9, 8, 7}, Size: 1 << 40, Sum: math.MaxUint32,
	}
}

func TestSnapshot_RoundTrip(t *testing.T) {
	for _, members := range []int{1, 3, MembersMax} {
		want := aSnapshot(members)
		base, err := DecodeBase(want.Base.Encode())
		require.NoError(t, err)
		require.Equal(t, want.Base, base)
		got, err := DecodeSnapshot(want.Encode())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, row := range []struct {
		rule   string
		change func(*Snapshot)
	}{
		{"a DurableFSM has no file", func(s *Snapshot) { s.File, s.Size, s.Sum = SnapshotID{}, 0, 0 }},
		{"the size of a frozen state is not known yet", func(s *Snapshot) { s.Held, s.Size, s.Sum = true, -1, 0 }},
		{"or announced", func(s *Snapshot) { s.Held, s.Size, s.Sum = true, 5, 0 }},
		{"a state may be empty", func(s *Snapshot) { s.Size, s.Sum = 0, 0 }},
		{"the configuration may be of the last entry", func(s *Snapshot) { s.ConfigIndex, s.Config = 100, conf("a:v b:v c:l -d@100") }},
		{"it may be joint", func(s *Snapshot) { s.ConfigIndex, s.Config = 7, conf("a:vo b:lo c:o c2:v d:l -e@3") }},
		{"a change may be waiting", func(s *Snapshot) { s.ConfigIndex, s.Config = 7, conf("a:v b:v>l c:v>- d:l>v") }},
		{"indexes end at 2^63-1", func(s *Snapshot) { s.ID = EntryID{1<<63 - 1, 1<<63 - 1} }},
	} {
		want := aSnapshot(3)
		row.change(&want)
		got, err := DecodeSnapshot(want.Encode())
		require.NoError(t, err, row.rule)
		require.Equal(t, want, got, row.rule)
	}
}

// If the members of a cluster have never been changed, the record has version 1, so that earlier releases can read it.
func TestBase_IsWrittenLikeThis(t *testing.T) {
	b := Base{
		ID: EntryID{7, 100}, Time: 5, Cluster: ClusterID{1}, Bootstrapper: peerOf("a"), ConfigIndex: 1, Config: plain("a:v b:l"),
	}
	common := `"index":100,"term":7,"time":5,"cluster":"AQAAAAAAAAAAAAAAAAAAAA==","bootstrapper":"a","incarnation":1,`
	require.Equal(t, `{"version":1,`+common+`"config_index":1,"members":[`+
		`{"id":"a","address":"YTox","incarnation":1},{"id":"b","address":"Yjox","kind":1,"incarnation":1}]}`, string(b.Encode()))
	b.ConfigIndex, b.Config = 9, conf("a:v b:l -c@9")
	require.Equal(t, `{"version":2,`+common+`"config_index":9,"configuration":`+string(b.Config.Encode())+`}`, string(b.Encode()))
}

func TestSnapshot_TheLargestOneIsWithinTheLimit(t *testing.T) {
	for _, c := range largest() {
		s := aSnapshot(3)
		s.ID = EntryID{1<<63 - 1, 1<<63 - 1}
		s.ConfigIndex, s.Config, s.Bootstrapper = s.ID.Index, c, c.Members[0].Peer()
		got, err := DecodeSnapshot(s.Encode())
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
	s := aSnapshot(MembersMax)
	for i := range s.Config.Members {
		m := &s.Config.Members[i]
		m.ID = NodeID(string(m.ID) + strings.Repeat("<", NodeIDBytesMax-len(m.ID)))
		m.Address = strings.Repeat("a", AddressBytesMax)
		m.Meta = strings.Repeat("m", MetaBytesMax)
		m.Incarnation = math.MaxUint64
	}
	s.Bootstrapper = s.Config.Members[0].Peer()
	got, err := DecodeSnapshot(s.Encode())
	require.NoError(t, err)
	require.Equal(t, s, got)
	_, err = DecodeSnapshot(make([]byte, SnapshotRecordBytesMax+1))
	require.ErrorContains(t, err, "the limit is")
}

func TestSnapshot_LaterFieldsAreToleratedAndLaterVersionsNamed(t *testing.T) {
	data := bytes.Replace(aSnapshot(1).Encode(), []byte(`{"version"`), []byte(`{"later":{"nested":[1,2]},"version"`), 1)
	got, err := DecodeSnapshot(data)
	require.NoError(t, err)
	require.Equal(t, aSnapshot(1), got)

	var later *LaterVersionError
	_, err = DecodeSnapshot([]byte(`{"version":3,"members":"elsewhere"}`))
	require.ErrorAs(t, err, &later)
	require.Equal(t, [2]uint64{3, 2}, [2]uint64{later.Found, later.Known})
	_, err = DecodeBase([]byte(`{"version":3,"members":"elsewhere"}`))
	require.ErrorAs(t, err, &later)
	_, err = DecodeBase([]byte(`{"version":2,"configuration":{"version":1,"level":7,"members":[{"id":7}]}}`))
	require.ErrorAs(t, err, &later)
	require.Equal(t, LaterVersionError{Record: "the feature level of the cluster", Found: 7, Known: 6}, *later)
	for _, data := range []string{
		"", "{}", "garbage", `{"version":1}`, `{"version":1,"cluster":"AQI="}`, `{"version":1,"index":"x"}`, `{"version":2}`,
		`{"version":2,"configuration":{"version":1,"level":0}}`,
	} {
		_, err = DecodeBase([]byte(data))
		require.ErrorContains(t, err, "raft: ", data)
		_, err = DecodeSnapshot([]byte(data))
		require.ErrorContains(t, err, "raft: ", data)
	}
}

func TestSnapshot_WhatNoMemberWroteIsRefused(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(*Snapshot)
	}{
		{"it covers an entry", func(s *Snapshot) { s.ID.Index, s.ConfigIndex = 0, 0 }},
		{"its index is below 2^63", func(s *Snapshot) { s.ID.Index = 1 << 63 }},
		{"its last entry has a term", func(s *Snapshot) { s.ID.Term = 0 }},
		{"its term is below 2^63", func(s *Snapshot) { s.ID.Term = 1 << 63 }},
		{"the zero cluster id means no cluster", func(s *Snapshot) { s.Cluster = ClusterID{} }},
		{"the bootstrapper has an incarnation", func(s *Snapshot) { s.Bootstrapper.Incarnation = 0 }},
		{"the bootstrapper has a name", func(s *Snapshot) { s.Bootstrapper.ID = "n 1" }},
		{"the configuration has an entry", func(s *Snapshot) { s.ConfigIndex = 0 }},
		{"the configuration is covered", func(s *Snapshot) { s.ConfigIndex = 101 }},
		{"somebody can lead", func(s *Snapshot) { s.Config = Configuration{} }},
		{"at feature level 0 there is only the first configuration", func(s *Snapshot) { s.ConfigIndex = 2 }},
		{"a configuration has its level", func(s *Snapshot) { s.Config = plain("a:vo b:o") }},
		{"its feature level is known", func(s *Snapshot) { s.ConfigIndex, s.Config.Level = 2, featureLevelMax+1 }},
		{"an entry that is not covered has removed nobody", func(s *Snapshot) { s.ConfigIndex, s.Config = 2, conf("a:v -b@3") }},
		{"every member has an incarnation", func(s *Snapshot) { s.Config.Members[1].Incarnation = 0 }},
		{"a size is not negative", func(s *Snapshot) { s.Size = -2 }},
		{"only the size of a frozen state is unknown", func(s *Snapshot) { s.Size, s.Sum = -1, 0 }},
		{"an unknown size has no checksum", func(s *Snapshot) { s.Size, s.Held = -1, true }},
		{"a snapshot with bytes has an id", func(s *Snapshot) { s.File = SnapshotID{} }},
		{"a held freeze has an id", func(s *Snapshot) { s.File, s.Size, s.Sum, s.Held = SnapshotID{}, 0, 0, true }},
	} {
		s := aSnapshot(3)
		row.change(&s)
		require.Error(t, s.Check(), row.rule)
		_, err := DecodeSnapshot(s.Encode())
		require.Error(t, err, row.rule)
	}
}

func FuzzSnapshot(f *testing.F) {
	f.Add(aSnapshot(3).Encode())
	f.Add(aSnapshot(3).Base.Encode())
	changed := aSnapshot(3)
	changed.ConfigIndex, changed.Config = 9, conf("a:vo b:lo c:o c2:v d:l -e@3")
	f.Add(changed.Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, err := DecodeBase(data); err == nil {
			again, err := DecodeBase(b.Encode())
			require.NoError(t, err)
			require.Equal(t, b, again)
		}
		if s, err := DecodeSnapshot(data); err == nil {
			again, err := DecodeSnapshot(s.Encode())
			require.NoError(t, err)
			require.Equal(t, s, again)
		}
	})
}
