package sessions

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

var exampleID = ID{Cluster: raft.ClusterID{0: 0xaa, 15: 0xbb}, Index: 300, Nonce: 0x0102030405060708}

// These bytes are in logs. If they change, the version must.
func TestRequest_Golden(t *testing.T) {
	const cluster = "aa0000000000000000000000000000bb"
	opening := exampleID
	opening.Index = 0
	for _, row := range []struct {
		want string
		r    Request
	}{
		{"0101" + cluster + "0807060504030201" + "02" + "8001" + "07" + "04", Request{Kind: Open, ID: opening, Limits: Limits{Sessions: 2, Bytes: 128, Idle: 7, Window: 4}}},
		{"0102" + cluster + "0807060504030201" + "ac02" + "05" + "03" + "6869", Request{Kind: Command, ID: exampleID, Number: 5, Floor: 2, Data: []byte("hi")}},
		{"0103" + cluster + "0807060504030201" + "ac02", Request{Kind: Close, ID: exampleID}},
	} {
		assert.Equal(t, row.want, hex.EncodeToString(row.r.Encode()), "%v", row.r.Kind)
		decoded, err := DecodeRequest(row.r.Encode())
		require.NoError(t, err)
		assert.Equal(t, row.r, decoded)
	}
	assert.Equal(t, "010203", hex.EncodeToString(Answer{Outcome: Applied, Data: []byte{2, 3}}.Encode()))
	assert.Equal(t, "060540", hex.EncodeToString(Answer{Outcome: Beyond, Floor: 5, Limit: 64}.Encode()))
}

func TestRequest_WhatNobodyEncodesIsRefused(t *testing.T) {
	command := Request{Kind: Command, ID: exampleID, Number: 5, Floor: 2}
	for rule, data := range map[string][]byte{
		"nothing":             nil,
		"cut":                 command.Encode()[:10],
		"a floor above":       Request{Kind: Command, ID: exampleID, Number: 5, Floor: 6}.Encode(),
		"a floor of 0":        Request{Kind: Command, ID: exampleID, Number: 5}.Encode(),
		"a number too high":   Request{Kind: Command, ID: exampleID, Number: math.MaxUint64, Floor: 1}.Encode(),
		"another kind":        Request{Kind: 4, ID: exampleID}.Encode(),
		"more than an end":    append(Request{Kind: Close, ID: exampleID}.Encode(), 0),
		"an opening, no room": Request{Kind: Open, Limits: Limits{Bytes: 1, Idle: 1, Window: 1}}.Encode(),
		"a large window":      Request{Kind: Open, Limits: Limits{Sessions: 1, Bytes: 1, Idle: 1, Window: WindowMax + 1}}.Encode(),
	} {
		_, err := DecodeRequest(data)
		assert.ErrorContains(t, err, "malformed", rule)
	}
	later := command.Encode()
	later[0] = 2
	_, err := DecodeRequest(later)
	assert.ErrorContains(t, err, "version 2")
}

func TestLimits_NameTheValueAndTheRemedy(t *testing.T) {
	require.NoError(t, Limits{}.WithDefaults().Validate())
	for field, l := range map[string]Limits{
		"Sessions": {Sessions: SessionsMax + 1}, "Bytes": {Bytes: -1}, "Idle": {Idle: -time.Second}, "Window": {Window: WindowMax + 1},
	} {
		var config *raft.ConfigError
		require.ErrorAs(t, l.WithDefaults().Validate(), &config, field)
		assert.Equal(t, "Limits."+field, config.Field)
		assert.Contains(t, config.Error(), "at most")
	}
}

func TestID_IsText(t *testing.T) {
	id, err := ParseID(exampleID.String())
	require.NoError(t, err)
	assert.Equal(t, exampleID, id)
	for _, bad := range []string{"", "x", exampleID.String() + "0", strings.ToUpper(exampleID.String()), exampleID.String()[2:]} {
		_, err := ParseID(bad)
		assert.ErrorContains(t, err, "is no id of a session", bad)
	}
}

func TestOutcome_EachHasAName(t *testing.T) {
	said := map[string]bool{}
	for o := Applied; o <= TooLarge; o++ {
		assert.False(t, said[o.String()], "%v", o)
		said[o.String()] = true
	}
	assert.Equal(t, "outcome 11", (TooLarge + 1).String())
}

func FuzzRequest(f *testing.F) {
	f.Add(Request{Kind: Command, ID: exampleID, Number: 5, Floor: 2, Data: []byte("hi")}.Encode())
	f.Add(Request{Kind: Open, Limits: Limits{}.WithDefaults()}.Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := DecodeRequest(data); err == nil {
			again, err := DecodeRequest(r.Encode())
			require.NoError(t, err)
			require.Equal(t, r, again)
		}
	})
}

func FuzzTable(f *testing.F) {
	f.Add(full(3).encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if table, err := decodeTable(data); err == nil {
			again, err := decodeTable(table.encode())
			require.NoError(t, err)
			require.True(t, table.Equal(again))
		}
	})
}
