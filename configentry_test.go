package raft

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func aBootstrap(members int) Bootstrap {
	var all []Member
	for i := range members {
		all = append(all, Member{
			ID: NodeID(fmt.Sprintf("n%03d", i)), Address: "host:1", Meta: "http://host", Incarnation: Incarnation(i + 1),
		})
	}
	return Bootstrap{
		Cluster: ClusterID{1, 2, 3}, Bootstrapper: all[0].Peer(), Probe: RPCID{StartCount: 1, Counter: math.MaxUint64},
		Configuration: NewConfiguration(all),
	}
}

func TestBootstrap_RoundTrip(t *testing.T) {
	for _, members := range []int{1, 3, MembersMax} {
		want := aBootstrap(members)
		got, err := DecodeBootstrap(want.Encode())
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, want.Encode(), got.Encode(), "encoding it again gives the same entry 1")
	}
}

func TestBootstrap_AddressAndMetaMayBeAnyBytes(t *testing.T) {
	f := aBootstrap(1)
	f.Configuration.Members[0].Address = "\xff\x00\ufffd\""
	f.Configuration.Members[0].Meta = "<\xc3\x28>\u2028\n"
	got, err := DecodeBootstrap(f.Encode())
	require.NoError(t, err)
	require.Equal(t, f, got)
}

// The bootstrap of another release counts neither as damage nor as a bootstrap. The error names the release to start.
func TestBootstrap_OfAnotherReleaseIsNotDamage(t *testing.T) {
	var later *LaterVersionError
	_, err := DecodeBootstrap([]byte(`{"version":4,"members":"elsewhere"}`))
	require.ErrorAs(t, err, &later)
	require.Equal(t, [2]uint64{4, 3}, [2]uint64{later.Found, later.Known})

	for _, begins := range []byte{0x81, 0x87, 0xde, 0xdf} { // the maps of msgpack, of 1, 7, and many fields
		var earlier *EarlierVersionError
		_, err := DecodeBootstrap([]byte{begins, 0xa7, 'v', 'e', 'r', 's', 'i', 'o', 'n', 1})
		require.ErrorAs(t, err, &earlier)
		require.Equal(t, [2]uint64{1, 2}, [2]uint64{earlier.Found, earlier.Oldest})
		require.ErrorContains(t, err, "start the earlier release")
	}
}

func TestBootstrap_TheLargestOneIsWithinTheLimit(t *testing.T) {
	f := aBootstrap(MembersMax)
	for i := range f.Configuration.Members {
		m := &f.Configuration.Members[i]
		m.ID = NodeID(string(m.ID) + strings.Repeat("<", NodeIDBytesMax-len(m.ID)))
		m.Address = strings.Repeat("a", AddressBytesMax)
		m.Meta = strings.Repeat("m", MetaBytesMax)
		m.Incarnation, m.Priority, m.Kind = math.MaxUint64, PriorityMax, Voter
	}
	f.Configuration.Level = featureLevelPriorities
	f.Bootstrapper = f.Configuration.Members[0].Peer()
	got, err := DecodeBootstrap(f.Encode())
	require.NoError(t, err)
	require.Equal(t, f, got)
}

func TestBootstrap_FieldsOfALaterVersionAreTolerated(t *testing.T) {
	data := bytes.Replace(aBootstrap(1).Encode(), []byte(`{"version"`), []byte(`{"later":{"nested":[1,2]},"version"`), 1)
	got, err := DecodeBootstrap(data)
	require.NoError(t, err)
	require.Equal(t, aBootstrap(1), got)
}

func TestBootstrap_WhatNoBootstrapperWroteIsRefused(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(f *Bootstrap)
	}{
		{"the zero cluster id means no cluster", func(f *Bootstrap) { f.Cluster = ClusterID{} }},
		{"the bootstrapper is a member", func(f *Bootstrap) { f.Bootstrapper.ID = "n9" }},
		{"the bootstrapper is this incarnation of the member", func(f *Bootstrap) { f.Bootstrapper.Incarnation = 9 }},
		{"every member has an incarnation", func(f *Bootstrap) { f.Configuration.Members[2].Incarnation = 0 }},
		{"somebody can lead", func(f *Bootstrap) {
			for i := range f.Configuration.Members {
				f.Configuration.Members[i].Kind = Learner
			}
		}},
		{"no member is listed twice", func(f *Bootstrap) { f.Configuration.Members[1].ID = "n000" }},
		{"no id has two incarnations", func(f *Bootstrap) {
			f.Configuration.Members[2].ID, f.Configuration.Members[2].Kind = "n001", Learner
		}},
		{"nobody is leaving", func(f *Bootstrap) { f.Configuration.Members[1].Kind = Leaving }},
		{"nobody has a next role", func(f *Bootstrap) {
			f.Configuration.Members[1].Kind, f.Configuration.Members[1].Next = Learner, NextVoter
		}},
		{"it is not joint", func(f *Bootstrap) { f.Configuration.Outgoing = []Peer{f.Configuration.Members[1].Peer()} }},
		{"kinds are known", func(f *Bootstrap) { f.Configuration.Members[1].Kind = 9 }},
		{"ids are printable", func(f *Bootstrap) { f.Configuration.Members[1].ID = "n 1" }},
		{"ids are short", func(f *Bootstrap) { f.Configuration.Members[1].ID = NodeID(strings.Repeat("n", NodeIDBytesMax+1)) }},
		{"addresses are given", func(f *Bootstrap) { f.Configuration.Members[1].Address = "" }},
		{"the text of a member is bounded", func(f *Bootstrap) { f.Configuration.Members[1].Meta = strings.Repeat("m", MetaBytesMax+1) }},
	} {
		t.Run(row.rule, func(t *testing.T) {
			f := aBootstrap(3)
			row.change(&f)
			_, err := DecodeBootstrap(f.Encode())
			require.Error(t, err)
		})
	}
}

// hostileBootstraps returns texts that claim large sizes, or that are almost bootstraps.
func hostileBootstraps() map[string][]byte {
	const within = bootstrapBytesMax - 100
	long := func(begin, repeated string) []byte {
		return append([]byte(begin), bytes.Repeat([]byte(repeated), within/len(repeated))...)
	}
	return map[string][]byte{
		"empty":              {},
		"null":               []byte("null"),
		"a number":           []byte("7"),
		"nothing but a map":  []byte("{}"),
		"version 1 in JSON":  []byte(`{"version":1}`),
		"an endless array":   long(`{"version":2,"members":[`, `{},`),
		"members of nothing": append(long(`{"version":2,"members":[{}`, `,{}`), `]}`...),
		"an endless string":  long(`{"version":2,"bootstrapper":"`, `x`),
		"nested too deep":    long(`{"version":2,"later":`, `[`),
		"another behind it":  append(aBootstrap(1).Encode(), "{}"...),
		"bytes behind it":    append(aBootstrap(1).Encode(), 0),
		"cut short":          bytes.TrimSuffix(aBootstrap(1).Encode(), []byte("}")),
		"over the limit":     bytes.Repeat([]byte(" "), bootstrapBytesMax+1),
	}
}

func TestBootstrap_HostileBytesCostLittle(t *testing.T) {
	costsLittle(t, hostileBootstraps(), DecodeBootstrap)
}

// costsLittle checks that none of the data can be decoded, and that the attempts allocate little memory.
func costsLittle[T any](t *testing.T, hostile map[string][]byte, decode func([]byte) (T, error)) {
	t.Helper()
	for name, data := range hostile {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decode(data)
		runtime.ReadMemStats(&after)
		require.Error(t, err, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<20), name)
	}
}

func FuzzDecodeBootstrap(f *testing.F) {
	f.Add(aBootstrap(1).Encode())
	f.Add(aBootstrap(3).Encode())
	for _, data := range hostileBootstraps() {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		bootstrap, err := DecodeBootstrap(data)
		if err != nil {
			return
		}
		require.NoError(t, bootstrap.Configuration.Validate())
		again, err := DecodeBootstrap(bootstrap.Encode())
		require.NoError(t, err)
		require.Equal(t, bootstrap, again)
	})
}

func TestConfiguration_RoundTrip(t *testing.T) {
	for _, text := range []string{
		"a:v", "a:v b:v c:l", "a:v b:v>l c:v>- d:l>v e:l>-", "a:vo b:lo c:o c2:v d:l", "a:v c:v c2:l -b@3 -c3@3 -b2@9",
	} {
		want := conf(text)
		want.Members[0].Address, want.Members[0].Meta = "\xff\x00\ufffd\"", "<\xc3\x28>\u2028\n"
		got, err := DecodeConfiguration(want.Encode())
		require.NoError(t, err, text)
		require.Equal(t, want, got)
		require.True(t, want.Equal(got))
	}
}

// The record is part of the log's format: it changes only with its version.
func TestConfiguration_IsWrittenLikeThis(t *testing.T) {
	c := conf("a:vo b:o c2:v -d@7")
	c.Members[2].Meta = "m"
	require.Equal(t, `{"version":1,"level":1,"members":[`+
		`{"id":"a","address":"YTox","incarnation":1,"outgoing":true},`+
		`{"id":"b","address":"Yjox","kind":2,"incarnation":1,"outgoing":true},`+
		`{"id":"c","address":"YzI6MQ==","meta":"bQ==","incarnation":2}],`+
		`"removed":[{"id":"d","incarnation":1,"index":7}]}`, string(c.Encode()))
	require.Equal(t, `{"version":1,"level":1,"members":[`+
		`{"id":"a","address":"YTox","incarnation":1,"next":3},{"id":"b","address":"Yjox","kind":1,"incarnation":1,"next":1}],`+
		`"patience":60000000000}`, string(conf("a:v>- b:l>v").Encode()))
}

// largest returns configurations with the longest possible records.
func largest() []Configuration {
	var all []Configuration
	for _, joint := range []bool{true, false} {
		c := Configuration{Level: featureLevelMax, AppVersionMin: math.MaxUint64}
		long := func(i, width int) NodeID {
			id := fmt.Sprintf("%0*d", width, i)
			return NodeID(id + strings.Repeat("<", NodeIDBytesMax-len(id)))
		}
		for i := range MembersMax {
			m := Member{
				ID: long(i, 3), Address: strings.Repeat("a", AddressBytesMax), Meta: strings.Repeat("m", MetaBytesMax),
				Kind: Leaving, Priority: PriorityMax, Incarnation: math.MaxUint64, AppVersion: math.MaxUint64,
			}
			switch {
			case i == 0:
				m.Kind = Voter
			case !joint:
				m.Kind, m.Priority, m.Next, c.Patience = Learner, PriorityMax, NextVoter, patienceMax
			}
			c.Members = append(c.Members, m)
			if joint {
				c.Outgoing = append(c.Outgoing, m.Peer())
			}
		}
		for i := range RemovedMax {
			c.Removed = append(c.Removed, Removal{Peer{long(i, 2), math.MaxUint64}, 1<<63 - 1})
		}
		all = append(all, c)
	}
	return all
}

// A base and a snapshot contain a configuration and some numbers.
func TestConfiguration_TheLargestOneIsWithinTheLimit(t *testing.T) {
	for _, want := range largest() {
		require.NoError(t, want.Validate())
		data := want.Encode()
		require.Less(t, len(data), bootstrapBytesMax-2<<10)
		got, err := DecodeConfiguration(data)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// A follower continues to follow a leader of a later release. A start on a store of a later release is refused, but not
// because of damage.
func TestConfiguration_OfALaterReleaseIsNotDamage(t *testing.T) {
	for _, row := range []struct {
		data         string
		found, known uint64
	}{
		{`{"version":2,"members":"elsewhere"}`, 2, 1},
		{`{"version":1,"level":7,"members":[{"id":7}]}`, 7, 6},
	} {
		var later *LaterVersionError
		_, err := DecodeConfiguration([]byte(row.data))
		require.ErrorAs(t, err, &later)
		require.Equal(t, [2]uint64{row.found, row.known}, [2]uint64{later.Found, later.Known})
	}
}

func TestConfiguration_OnlyWhatEncodeReturnsIsDecoded(t *testing.T) {
	good := string(conf("a:vo b:o -d@7").Encode())
	for _, row := range []struct{ rule, from, to string }{
		{"an unknown field would be lost in a base", `"level"`, `"later":1,"level"`},
		{"an unknown field of a member would be lost, too", `"id":"a"`, `"id":"a","later":1`},
		{"no spaces", `,"level"`, `, "level"`},
		{"fields are in order", `"version":1,"level":1`, `"level":1,"version":1`},
		{"no field comes twice", `"version":1`, `"version":1,"version":1`},
		{"field names have one spelling", `"level"`, `"Level"`},
		{"ids have one spelling", `"id":"a"`, `"id":"\u0061"`},
		{"empty fields are left out", `"level":1`, `"level":1,"patience":0`},
		{"members are sorted", `"id":"a"`, `"id":"c"`},
		{"members have an incarnation", `"incarnation":1`, `"incarnation":0`},
		{"removals are valid", `"index":7`, `"index":0`},
		{"level 0 has no such entry", `"level":1`, `"level":0`},
		{"versions begin with 1", `"version":1`, `"version":0`},
		{"nothing follows it", `"index":7}]}`, `"index":7}]} `},
	} {
		_, err := DecodeConfiguration([]byte(good))
		require.NoError(t, err)
		require.Contains(t, good, row.from)
		_, err = DecodeConfiguration([]byte(strings.Replace(good, row.from, row.to, 1)))
		require.Error(t, err, row.rule)
	}
}

// hostileConfigurations returns texts that claim large sizes, or that are almost configurations.
func hostileConfigurations() map[string][]byte {
	all := map[string][]byte{
		"a bootstrap":       aBootstrap(1).Encode(),
		"many removals":     []byte(`{"version":1,"level":1,"members":[{}],"removed":[{}` + strings.Repeat(",{}", bootstrapBytesMax/4) + `]}`),
		"many members":      []byte(`{"version":1,"level":1,"members":[{}` + strings.Repeat(",{}", bootstrapBytesMax/4) + `]}`),
		"an endless number": []byte(`{"version":1,"level":1,"patience":` + strings.Repeat("9", bootstrapBytesMax/2) + `}`),
		"another behind it": append(conf("a:v").Encode(), "{}"...),
		"cut short":         bytes.TrimSuffix(conf("a:v").Encode(), []byte("}")),
	}
	for name, data := range hostileBootstraps() {
		all["bootstrap: "+name] = bytes.Replace(data, []byte(`{"version":2`), []byte(`{"version":1,"level":1`), 1)
	}
	return all
}

func TestConfiguration_HostileBytesCostLittle(t *testing.T) {
	costsLittle(t, hostileConfigurations(), DecodeConfiguration)
}

func FuzzDecodeConfiguration(f *testing.F) {
	for _, text := range []string{"a:v", "a:v b:v>l c:v>- d:l>v e:l>-", "a:vo b:lo c:o c2:v d:l -x@3 -y@9"} {
		f.Add(conf(text).Encode())
	}
	for _, data := range hostileConfigurations() {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := DecodeConfiguration(data)
		if err != nil {
			return
		}
		require.NoError(t, c.Validate())
		require.Equal(t, string(data), string(c.Encode()))
		switch {
		case c.Joint():
			require.NoError(t, c.leave(1<<62).follows(c, 1<<62))
		case c.Changing():
			require.NoError(t, c.giveUp().Validate())
			require.NoError(t, c.giveUp().follows(c, 1<<62))
			require.NoError(t, c.enter(1<<62).follows(c, 1<<62))
		}
	})
}
