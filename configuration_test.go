package raft

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/stretchr/testify/require"
)

func aFounding(members int) Founding {
	var all []Member
	for i := range members {
		all = append(all, Member{
			ID: NodeID(fmt.Sprintf("n%03d", i)), Address: "host:1", Meta: "http://host", Incarnation: Incarnation(i + 1),
		})
	}
	return Founding{
		Cluster: ClusterID{1, 2, 3}, Founder: all[0].Peer(), Roll: RequestID{Boot: 1, Counter: math.MaxUint64},
		Configuration: NewConfiguration(all),
	}
}

func TestFounding_RoundTrip(t *testing.T) {
	for _, members := range []int{1, 3, MembersMax} {
		want := aFounding(members)
		got, err := DecodeFounding(want.Encode())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestFounding_TheLargestOneIsWithinTheLimit(t *testing.T) {
	f := aFounding(MembersMax)
	for i := range f.Configuration.Members {
		m := &f.Configuration.Members[i]
		m.ID = NodeID(string(m.ID) + strings.Repeat("x", NodeIDBytesMax-len(m.ID)))
		m.Address = strings.Repeat("a", AddressBytesMax)
		m.Meta = strings.Repeat("m", MetaBytesMax)
		m.Incarnation = math.MaxUint64
	}
	f.Founder = f.Configuration.Members[0].Peer()
	got, err := DecodeFounding(f.Encode())
	require.NoError(t, err)
	require.Equal(t, f, got)
}

func TestFounding_FieldsOfALaterVersionAreTolerated(t *testing.T) {
	var fields map[string]any
	require.NoError(t, codec.NewDecoderBytes(aFounding(1).Encode(), recordHandle()).Decode(&fields))
	fields["later"] = map[string]any{"nested": []int{1, 2}}
	var data []byte
	require.NoError(t, codec.NewEncoderBytes(&data, recordHandle()).Encode(fields))
	got, err := DecodeFounding(data)
	require.NoError(t, err)
	require.Equal(t, aFounding(1), got)
}

func TestFounding_WhatNoFounderWroteIsRefused(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(f *Founding)
	}{
		{"the zero cluster id means no cluster", func(f *Founding) { f.Cluster = ClusterID{} }},
		{"the founder is a member", func(f *Founding) { f.Founder.ID = "n9" }},
		{"the founder is this life of the member", func(f *Founding) { f.Founder.Incarnation = 9 }},
		{"every member has an incarnation", func(f *Founding) { f.Configuration.Members[2].Incarnation = 0 }},
		{"somebody can lead", func(f *Founding) {
			for i := range f.Configuration.Members {
				f.Configuration.Members[i].Kind = Learner
			}
		}},
		{"no member is listed twice", func(f *Founding) { f.Configuration.Members[1].ID = "n000" }},
		{"kinds are known", func(f *Founding) { f.Configuration.Members[1].Kind = 9 }},
		{"ids are printable", func(f *Founding) { f.Configuration.Members[1].ID = "n 1" }},
		{"ids are short", func(f *Founding) { f.Configuration.Members[1].ID = NodeID(strings.Repeat("n", NodeIDBytesMax+1)) }},
		{"addresses are given", func(f *Founding) { f.Configuration.Members[1].Address = "" }},
		{"the text of a member is bounded", func(f *Founding) { f.Configuration.Members[1].Meta = strings.Repeat("m", MetaBytesMax+1) }},
	} {
		t.Run(row.rule, func(t *testing.T) {
			f := aFounding(3)
			row.change(&f)
			_, err := DecodeFounding(f.Encode())
			require.Error(t, err)
		})
	}
}

// hostileFoundings are short texts that promise much.
func hostileFoundings() map[string][]byte {
	manyMembers := append([]byte{0x81, 0xa7}, "members"...)
	return map[string][]byte{
		"empty":             {},
		"nil":               {0xc0},
		"a number":          {0x07},
		"an endless array":  append(bytes.Clone(manyMembers), 0xdd, 0xff, 0xff, 0xff, 0xff),
		"an endless map":    {0xdf, 0xff, 0xff, 0xff, 0xff},
		"an endless string": append(bytes.Clone(manyMembers), 0x91, 0x81, 0xa2, 'i', 'd', 0xdb, 0xff, 0xff, 0xff, 0xff),
		"nested too deep":   append([]byte{0x81, 0xa1, 'x'}, bytes.Repeat([]byte{0x91}, 100_000)...),
		"members of nothing": append(append(bytes.Clone(manyMembers), 0xdd, 0x00, 0x05, 0x00, 0x00),
			bytes.Repeat([]byte{0xc0}, 0x50000)...),
		"over the limit": bytes.Repeat([]byte{0xc0}, foundingBytesMax+1),
	}
}

func TestFounding_HostileBytesCostLittle(t *testing.T) {
	for name, data := range hostileFoundings() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeFounding(data)
		runtime.ReadMemStats(&after)
		require.Error(t, err, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<20), name)
	}
}

func FuzzDecodeFounding(f *testing.F) {
	f.Add(aFounding(1).Encode())
	f.Add(aFounding(3).Encode())
	for _, data := range hostileFoundings() {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		founding, err := DecodeFounding(data)
		if err != nil {
			return
		}
		require.NoError(t, founding.Configuration.Validate())
		again, err := DecodeFounding(founding.Encode())
		require.NoError(t, err)
		require.Equal(t, founding, again)
	})
}
