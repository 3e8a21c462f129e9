package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/examples/internal/apart"
	"github.com/coxswain/raft/internal/leaks"
)

// TestMain also runs the example in the new namespaces: that process is the same program.
func TestMain(m *testing.M) {
	if apart.Inside() {
		main()
		return
	}
	os.Exit(leaks.Main(m.Run))
}

func TestExample_PodsComeBackElsewhereUnderLoad(t *testing.T) {
	var printed bytes.Buffer
	err := apart.Run(&printed)
	var impossible *apart.ImpossibleError
	if errors.As(err, &impossible) {
		t.Skipf("%s%v", &printed, err)
	}
	require.NoError(t, err, &printed)
	t.Logf("\n%s", &printed)
	for _, s := range steps {
		assert.Contains(t, printed.String(), s.what)
	}
	assert.Contains(t, printed.String(), "every acknowledged write is there")
}

func TestArguments_AreThoseOfTheManifest(t *testing.T) {
	args := strings.Join(arguments("jobs-4", "/tmp/jobs-4"), " ")
	assert.Contains(t, args, "serve --id=jobs-4 --cluster=jobs --data=/tmp/jobs-4/store ")
	assert.Contains(t, args, " --founders=jobs-0,jobs-1,jobs-2 --seeds=dns:jobs:7000 --advertise=jobs-4.jobs:7000 ")
	assert.NotContains(t, args, "$")
}

func TestNames_AnswerAsTheDNSOfAClusterDoes(t *testing.T) {
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	n := serveNames(conn)
	defer func() { require.NoError(t, n.close()) }()
	n.publish("jobs-0", net.IPv4(10, 9, 0, 2))
	n.publish("jobs-1", net.IPv4(10, 9, 0, 3))
	r := resolverAt(conn.LocalAddr().String())
	for name, want := range map[string][]string{
		"jobs.default.svc.cluster.local.":        {"10.9.0.2", "10.9.0.3"},
		"jobs-1.jobs.default.svc.cluster.local.": {"10.9.0.3"},
	} {
		got, err := r.LookupHost(t.Context(), name)
		require.NoError(t, err)
		assert.ElementsMatch(t, want, got)
	}
	_, err = r.LookupHost(t.Context(), "jobs-2.jobs.default.svc.cluster.local.")
	var failed *net.DNSError
	require.ErrorAs(t, err, &failed)
	assert.True(t, failed.IsNotFound)
	for _, bad := range [][]byte{nil, make([]byte, headerBytes), append(make([]byte, headerBytes), 63, 'a'), append(make([]byte, headerBytes), 0, 0)} {
		assert.Nil(t, n.answer(bad))
	}
}

func resolverAt(address string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", address)
	}}
}
