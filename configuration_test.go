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
		require.Equal(t, want.Encode(), got.Encode(), "whoever encodes it again gets the same entry 1")
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

// Another release's bootstrap is neither damage nor a bootstrap: whoever reads it is told which release to start.
func TestBootstrap_OfAnotherReleaseIsNotDamage(t *testing.T) {
	var later *LaterVersionError
	_, err := DecodeBootstrap([]byte(`{"version":3,"members":"elsewhere"}`))
	require.ErrorAs(t, err, &later)
	require.Equal(t, [2]uint64{3, 2}, [2]uint64{later.Found, later.Known})

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
		m.Incarnation = math.MaxUint64
	}
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
		{"the bootstrapper is this life of the member", func(f *Bootstrap) { f.Bootstrapper.Incarnation = 9 }},
		{"every member has an incarnation", func(f *Bootstrap) { f.Configuration.Members[2].Incarnation = 0 }},
		{"somebody can lead", func(f *Bootstrap) {
			for i := range f.Configuration.Members {
				f.Configuration.Members[i].Kind = Learner
			}
		}},
		{"no member is listed twice", func(f *Bootstrap) { f.Configuration.Members[1].ID = "n000" }},
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

// hostileBootstraps are texts that promise much, or that are nearly bootstraps.
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
	for name, data := range hostileBootstraps() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeBootstrap(data)
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
