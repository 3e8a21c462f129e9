package member_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/member"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPeer_IsReadAsItIsWritten(t *testing.T) {
	want := raft.Member{ID: "n1", Address: "[::1]:5001", Meta: "https://example.com:4001/?a=b"}
	got, err := member.ParsePeer(member.FormatPeer(want))
	require.NoError(t, err)
	assert.Equal(t, want, got)
	for _, bad := range []string{
		"", "n1", "n1=h:1", "n1=h=http://h", "n1=:1=http://h", "n1=h:0=http://h", "n1=h:x=http://h",
		"n1=h:1=h:2", "n1=h:1=", "n1=h:1=ftp://h", "n1=h:1=http://",
	} {
		_, err := member.ParsePeer(bad)
		assert.ErrorContains(t, err, "--peers", bad)
	}
}

// Members may listen on all interfaces. But no other member and no client can dial such an address. This holds for every flag
// that may contain the address.
func TestOptions_NobodyIsToldTheAddressOfAllInterfaces(t *testing.T) {
	for _, any := range []string{"0.0.0.0:1", "[::]:1", ":1"} {
		dial, ask := `"`+any+`" names no machine`, `"http://`+any+`" is not a URL at which others can reach a server`
		of := func(edit func(*member.Options)) error {
			o := member.Options{ID: "n1", Cluster: "test", Data: "d", RaftAddr: any, HTTPAddr: any, LogLevel: "info"}
			edit(&o)
			return o.Validate()
		}
		assert.NoError(t, of(func(o *member.Options) { o.Peers = []string{"n1=h:1=http://h"} }), "the member may listen there")
		for text, edit := range map[string]func(*member.Options){
			`--peers "n1=` + any + `=http://h": ` + dial:  func(o *member.Options) { o.Peers = []string{"n1=" + any + "=http://h"} },
			`--peers "n1=h:1=http://` + any + `": ` + ask: func(o *member.Options) { o.Peers = []string{"n1=h:1=http://" + any} },
			`--via "n2=` + any + `": ` + dial:             func(o *member.Options) { o.Via = []string{"n2=" + any} },
			"--advertise: " + dial:                        func(o *member.Options) { o.Advertise = any },
			"--url: " + ask:                               func(o *member.Options) { o.URL = "http://" + any },
			"--advertise: missing":                        func(o *member.Options) { o.Join = []string{"http://h"} },
			"--url: " + ask + "; write http://host:port":  func(o *member.Options) { o.Join, o.Advertise = []string{"http://h"}, "h:1" },
		} {
			assert.ErrorContains(t, of(edit), text)
		}
	}
}

func TestOptions_PreferencesAreSwitchedOffByName(t *testing.T) {
	p, err := member.ParseWithout([]string{"news", "priorities"})
	require.NoError(t, err)
	assert.Equal(t, raft.Preferences{NoNews: true, NoPriorities: true}, p)
	p, err = member.ParseWithout([]string{"successors"})
	require.NoError(t, err)
	assert.Equal(t, raft.Preferences{NoSuccessors: true}, p)
	o := member.Options{Without: []string{"votes"}}
	assert.ErrorContains(t, o.Validate(), `--without "votes": use news, successors, priorities`)
}
