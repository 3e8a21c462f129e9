package member

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/internal/testca"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// counter counts the commands.
type counter struct {
	total uint64
	apply func() // called by Apply; nil: nothing
}

func (c *counter) Apply(batch []raft.Entry, results [][]byte) error {
	if c.apply != nil {
		c.apply()
	}
	for i := range batch {
		c.total++
		results[i] = binary.BigEndian.AppendUint64(nil, c.total)
	}
	return nil
}

func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return frozen(c.total), nil }

func (c *counter) Restore(_ context.Context, _ raft.EntryID, r io.Reader) error {
	return binary.Read(r, binary.BigEndian, &c.total)
}

type frozen uint64

func (f frozen) WriteTo(ctx context.Context, w io.Writer) error {
	return errors.Join(ctx.Err(), binary.Write(w, binary.BigEndian, uint64(f)))
}
func (f frozen) Close() error { return nil }

// alone returns the settings of a cluster of one member.
func alone(t *testing.T) Config {
	t.Helper()
	leaks.Check(t)
	return Config{
		ID: "n1", Cluster: "test", Dir: t.TempDir(), Listen: "127.0.0.1:0", Initial: []raft.Member{{ID: "n1", Address: "127.0.0.1:1"}},
	}
}

func TestStart_RunsAMember(t *testing.T) {
	cfg := alone(t)
	var log bytes.Buffer
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
	m, err := Start(t.Context(), cfg, &counter{})
	require.NoError(t, err)
	require.NoError(t, m.Ready(t.Context()))
	result, err := m.Propose(t.Context(), []byte("+"))
	require.NoError(t, err)
	assert.Equal(t, uint64(1), binary.BigEndian.Uint64(result.Data))
	require.NoError(t, m.WaitApplied(t.Context(), result.Index))
	_, err = m.ReadIndex(t.Context())
	require.NoError(t, err)
	assert.Nil(t, m.Status().Certificate, "it has no certificate")
	assert.NoError(t, m.Err())
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	assert.ErrorIs(t, m.Err(), raft.ErrClosed)
	assert.NoFileExists(t, filepath.Join(cfg.Dir, TraceFile), "it did not end by itself")

	again := &counter{}
	m, err = Start(t.Context(), cfg, again)
	require.NoError(t, err)
	require.NoError(t, m.Ready(t.Context()))
	assert.Equal(t, uint64(1), again.total)
	require.NoError(t, m.Shutdown(t.Context()))
}

func TestConfig_EachFaultNamesItsField(t *testing.T) {
	valid := Config{ID: "n1", Cluster: "test", Dir: "d", Listen: ":7000"}
	require.NoError(t, valid.Validate())
	own := transport.NewNetwork().Join("n1")
	for field, edit := range map[string]func(*Config){
		"Dir":                  func(c *Config) { c.Dir = "" },
		"Listen":               func(c *Config) { c.Listen = "" },
		"TLS":                  func(c *Config) { c.TLS = TLSFiles("ca.pem", "", "n1.key") },
		"ID":                   func(c *Config) { c.ID = "" },
		"Cluster":              func(c *Config) { c.Cluster = "no spaces" },
		"Node.ID":              func(c *Config) { c.Node.ID = "n2" },
		"Node.Cluster":         func(c *Config) { c.Node.Cluster = "other" },
		"Node.Initial":         func(c *Config) { c.Node.Initial = []raft.Member{{ID: "n1", Address: "h:1"}} },
		"Node.Advertise":       func(c *Config) { c.Node.Advertise = "h:1" },
		"Node.ElectionTimeout": nil,
	} {
		c := valid
		if edit == nil { // a setting of the node has its own name
			field, edit = "ElectionTimeout", func(c *Config) { c.Node.ElectionTimeout = -1 }
		}
		edit(&c)
		var wrong *raft.ConfigError
		require.ErrorAs(t, c.Validate(), &wrong, field)
		assert.Equal(t, field, wrong.Field)
	}
	both := valid
	both.Transport, both.TLS, both.Net.TLSSource = own, TLSFiles("a", "b", "c"), nil
	err := both.Validate()
	assert.ErrorContains(t, err, "Listen: must be empty with a Transport of your own")
	assert.ErrorContains(t, err, "TLS: must be empty with a Transport of your own")
	both = Config{}
	err = both.Validate()
	for _, each := range []string{"Dir: missing", "Listen: missing", "ID: ", "Cluster: "} {
		assert.ErrorContains(t, err, each, "all faults at once")
	}
}

func TestStart_SaysWhichSettingIsWrong(t *testing.T) {
	cfg := alone(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for rule, row := range map[string]struct {
		edit  func(*Config)
		field string
	}{
		"the port is taken":              {func(c *Config) { c.Listen = taken.Addr().String() }, "Listen"},
		"no TLS beyond this machine":     {func(c *Config) { c.Listen = ":0" }, "Listen"},
		"a limit that cannot be":         {func(c *Config) { c.Net.FrameBytesMax = 1 }, "Net"},
		"a file in place of a directory": {func(c *Config) { c.Dir = file }, "Dir"},
	} {
		c := cfg
		row.edit(&c)
		_, err := Start(t.Context(), c, &counter{})
		var wrong *raft.ConfigError
		require.ErrorAs(t, err, &wrong, rule)
		assert.Equal(t, row.field, wrong.Field, rule)
	}
	m, err := Start(t.Context(), cfg, &counter{})
	require.NoError(t, err)
	cfg.Store.LockWait = time.Millisecond
	_, err = Start(t.Context(), cfg, &counter{})
	require.ErrorIs(t, err, raft.ErrLocked)
	require.NoError(t, m.Close())
	cfg.ID, cfg.Initial = "n2", nil
	_, err = Start(t.Context(), cfg, &counter{})
	var other *raft.IdentityError
	require.ErrorAs(t, err, &other)
	assert.Equal(t, "n1", other.Stored)
}

// A start that fails closes what it has opened, and leaves the rest to the caller.
func TestStart_OwnPartsStayWithTheCallerAfterAFailure(t *testing.T) {
	cfg := alone(t)
	store, wire := storage.NewMemory(), transport.NewNetwork().Join("n1")
	cfg.Storage, cfg.Transport, cfg.Listen = store, wire, ""
	_, err := Start(t.Context(), cfg, nil)
	require.ErrorContains(t, err, "one of them is nil")
	m, err := Start(t.Context(), cfg, &counter{})
	require.NoError(t, err)
	require.NoError(t, m.Ready(t.Context()))
	assert.Nil(t, m.TCP())
	require.NoError(t, m.Close())
	assert.ErrorIs(t, wire.Start(nil), raft.ErrClosed, "the member closed it")
}

// The server still answers while the member waits for its requests, and the member ends after it.
func TestShutdown_LetsRequestsFinish(t *testing.T) {
	m, err := Start(t.Context(), alone(t), &counter{})
	require.NoError(t, err)
	require.NoError(t, m.Ready(t.Context()))
	began, proceed := make(chan struct{}), make(chan struct{})
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-proceed
		if _, err := m.Propose(r.Context(), []byte("+")); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served, status := make(chan error, 1), make(chan int, 1)
	go func() { served <- web.Serve(listener) }()
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Get("http://" + listener.Addr().String())
		if !assert.NoError(t, err) {
			status <- 0
			return
		}
		_ = response.Body.Close()
		status <- response.StatusCode
	}()
	<-began
	ended := make(chan error, 1)
	go func() { ended <- m.Shutdown(context.Background(), web) }()
	assert.ErrorIs(t, <-served, http.ErrServerClosed)
	assert.NoError(t, m.Err(), "the member still serves")
	close(proceed)
	assert.Equal(t, http.StatusOK, <-status)
	require.NoError(t, <-ended)
	assert.ErrorIs(t, m.Err(), raft.ErrClosed)
}

// A member that follows ends without a transfer, although it could ask the leader for one.
func TestShutdown_OfAFollowerMovesNoLeader(t *testing.T) {
	c := newTrio(t, testca.New(t))
	before := c.members[0].Status()
	for _, m := range c.members {
		if m.Status().Role != raft.Leader {
			require.NoError(t, m.Shutdown(t.Context()))
			break
		}
	}
	for _, m := range c.members {
		if now := m.Status(); now.Err == nil {
			assert.Equal(t, before.Term, now.Term)
		}
	}
}

// A request that does not end delays the shutdown no longer than its context.
func TestShutdown_EndsWithItsContext(t *testing.T) {
	m, err := Start(t.Context(), alone(t), &counter{})
	require.NoError(t, err)
	began := make(chan struct{})
	web := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done() // until its connection is closed
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served, failed := make(chan error, 1), make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		_, err := client.Get("http://" + listener.Addr().String()) //nolint:bodyclose // there is no answer
		failed <- err
	}()
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, m.Shutdown(ctx, web))
	assert.ErrorIs(t, <-served, http.ErrServerClosed)
	assert.Error(t, <-failed)
}

// An FSM that closes its member would wait for itself.
func TestClose_WithinTheFSMIsRefused(t *testing.T) {
	var m *Member
	started, refused := make(chan struct{}), make(chan error, 1)
	fsm := &counter{}
	fsm.apply = func() {
		<-started
		fsm.apply = nil
		refused <- m.Close()
	}
	m, err := Start(t.Context(), alone(t), fsm)
	require.NoError(t, err)
	close(started)
	_, err = m.Propose(t.Context(), []byte("+"))
	for err != nil { // there is no leader yet
		require.NoError(t, m.Ready(t.Context()))
		_, err = m.Propose(t.Context(), []byte("+"))
	}
	require.ErrorIs(t, <-refused, node.ErrWithinFSM)
	require.NoError(t, m.Close())
}

var errBroken = errors.New("broken on purpose")

// failing is an FSM that fails.
type failing struct{ counter }

func (*failing) Apply([]raft.Entry, [][]byte) error { return errBroken }

func TestDone_AMemberThatEndsByItselfKeepsItsTrace(t *testing.T) {
	cfg := alone(t)
	m, err := Start(t.Context(), cfg, &failing{})
	require.NoError(t, err)
	require.NoError(t, m.Ready(t.Context()))
	_, _ = m.Propose(t.Context(), []byte("+"))
	<-m.Done()
	require.ErrorIs(t, m.Err(), errBroken)
	assert.FileExists(t, filepath.Join(cfg.Dir, TraceFile))
	require.ErrorIs(t, m.Shutdown(t.Context()), errBroken)
}
