package member

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
	library "github.com/coxswain/raft/member"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// founder is a member that takes part in the beginning of its cluster.
func founder() Options {
	return Options{
		ID: "n1", Cluster: "test", Data: "d", RaftAddr: "h1:1", HTTPAddr: "h1:2", LogLevel: "info",
		Founders: []string{"n1", "n2"}, Seeds: []string{"h1:1", "h2:1"},
	}
}

func TestLooking_TheFlagsBecomeThoseOfTheLibrary(t *testing.T) {
	o := founder()
	cfg, err := o.config()
	require.NoError(t, err)
	assert.Equal(t, []raft.NodeID{"n1", "n2"}, cfg.Founders)
	assert.Equal(t, library.Addresses("h1:1", "h2:1"), cfg.Seeds)
	assert.False(t, cfg.SetAside)
	assert.Equal(t, "http://h1:2", cfg.Meta, "clients find the member at its --http-addr")
	assert.Empty(t, cfg.Advertise, "the library takes --raft-addr")
	assert.False(t, cfg.Learner)

	o = founder()
	o.ID, o.RaftAddr, o.HTTPAddr, o.Advertise, o.URL = "n4", ":1", ":2", "h4:1", "http://h4"
	o.As, o.SetAside, o.Rejoin, o.Founders, o.Seeds = "learner", true, 18, nil, []string{"dns:test.internal:7000"}
	cfg, err = o.config()
	require.NoError(t, err, "a member without founders only joins")
	assert.Equal(t, []any{library.DNS("test.internal:7000"), "h4:1", "http://h4"}, []any{cfg.Seeds, cfg.Advertise, cfg.Meta})
	assert.Equal(t, []any{true, true, raft.Index(18)}, []any{cfg.Learner, cfg.SetAside, cfg.Rejoin})

	o.Seeds = []string{"dns:7000"}
	cfg, err = o.config()
	require.NoError(t, err)
	assert.Equal(t, library.Addresses("dns:7000"), cfg.Seeds, "a host may be named dns")

	o = founder()
	o.Founders, o.Seeds = []string{"n1"}, nil
	assert.NoError(t, o.Validate(), "one member alone needs no seeds")
}

func TestLooking_ErrorsNameTheFlags(t *testing.T) {
	for text, edit := range map[string]func(*Options){
		"--seeds: missing: name addresses of the other members":          func(o *Options) { o.Seeds = nil },
		`--seeds: they are only "h1:1", which is this member itself`:     func(o *Options) { o.Seeds = []string{"h1:1"} },
		`--seeds: seed "h2" is no "host:port"`:                           func(o *Options) { o.Seeds = []string{"h2"} },
		`--seeds: seed "h2:0" is no "host:port"`:                         func(o *Options) { o.Seeds = []string{"dns:h2:0"} },
		`--seeds "dns:h2:1": give one name alone, or addresses`:          func(o *Options) { o.Seeds = []string{"h1:1", "dns:h2:1"} },
		`--founders: "n1" is listed twice`:                               func(o *Options) { o.Founders = []string{"n1", "n1"} },
		"--peers: must be empty with --founders, --seeds":                func(o *Options) { o.Peers = []string{"n1=h1:1=http://h1:2"} },
		"--join goes without --founders and --seeds":                     func(o *Options) { o.Join = []string{"http://h2:2"} },
		"--as learner: n1 is a founder, and founders vote: leave it out": func(o *Options) { o.As = "learner" },
		`--as "king": use voter or learner`:                              func(o *Options) { o.As = "king" },
		`--advertise: missing: name the "host:port"`:                     func(o *Options) { o.RaftAddr = ":1" },
		`--advertise: "0.0.0.0:1" names no machine`:                      func(o *Options) { o.Advertise = "0.0.0.0:1" },
		`--advertise: "0.0.0.0:2" names no machine`:                      func(o *Options) { o.Founders, o.Seeds, o.Advertise = nil, nil, "0.0.0.0:2" },
		"--peers: must be empty with --founders, --seeds and --join": func(o *Options) {
			o.Founders, o.Seeds, o.Join, o.Peers = nil, nil, []string{"http://h2:2"}, []string{"n1=h1:1=http://h1:2"}
		},
		`--url: "http://:2" is not a URL at which others can reach a server`: func(o *Options) { o.HTTPAddr = ":2" },
		`--url: "h1" is not a URL`:                                         func(o *Options) { o.URL = "h1" },
		"--set-aside: needs --seeds, through which":                        func(o *Options) { o.Founders, o.Seeds, o.SetAside = []string{"n1"}, nil, true },
		"--set-aside: needs --seeds":                                       func(o *Options) { o.Founders, o.Seeds, o.SetAside = nil, nil, true },
		"--rejoin: needs --seeds":                                          func(o *Options) { o.Founders, o.Seeds, o.Rejoin = nil, nil, 1 },
		"--as goes with --join or --seeds; the initial members are voters": func(o *Options) { o.Founders, o.Seeds, o.As = nil, nil, "learner" },
	} {
		o := founder()
		edit(&o)
		err := o.Validate()
		if assert.ErrorContains(t, err, text) {
			for _, field := range []string{"Seeds", "Founders", "Learner", "SetAside"} {
				assert.NotContains(t, err.Error(), field)
			}
		}
	}
}

// Which flag helps depends on why the store cannot be used, and on the flags that the member has.
func TestLooking_AStoreThatCannotBeUsedHasARemedy(t *testing.T) {
	o := founder()
	damaged, removed := fmt.Errorf("ended: %w", &raft.CorruptError{}), fmt.Errorf("ended: %w", &raft.RemovedError{Index: 18})
	assert.ErrorContains(t, o.remedy(removed), "raftkv serve --rejoin 18, with")
	assert.ErrorIs(t, o.remedy(removed), raft.ErrRemoved)
	assert.ErrorContains(t, o.remedy(damaged), "raftkv serve --set-aside, with")
	o.SetAside = true
	assert.Equal(t, damaged, o.remedy(damaged))
	kept := &joining.KeptError{Why: damaged, Reason: "look at it, and set it aside yourself with storage.SetAside"}
	assert.ErrorContains(t, o.remedy(kept), "look at it, and set it aside yourself (move the directory in --data away)")
	assert.ErrorContains(t, Options{}.remedy(damaged), "raftkv serve --join URL, in place of --peers, sets")
	assert.ErrorContains(t, Options{}.remedy(removed), "raftkv serve --join URL --rejoin 18, in place of --peers, sets")
	assert.ErrorContains(t, Options{Join: []string{"http://h"}}.remedy(removed), "raftkv serve --rejoin 18, with")
	other := errors.New("other")
	assert.Equal(t, other, o.remedy(other))
	assert.NoError(t, o.remedy(nil))
}

// The second row is a member whose disk was set back: it was told so while it ran.
func TestLooking_WhichMemberStartsAgain(t *testing.T) {
	join, rejoin := library.Config{SetAside: true}, library.Config{Rejoin: 18}
	for _, row := range []struct {
		rule string
		cfg  library.Config
		err  error
		want bool
	}{
		{"the store is damaged", join, &raft.CorruptError{}, true},
		{"it is an older image", join, &raft.StaleImageError{}, true},
		{"nobody has allowed it", rejoin, &raft.StaleImageError{}, false},
		{"it contradicts others", join, &raft.ContradictedError{}, false},
		{"it was removed", join, &raft.RemovedError{Index: 18}, false},
		{"--rejoin names the removal", rejoin, &raft.RemovedError{Index: 18}, true},
		{"--rejoin names another one", rejoin, &raft.RemovedError{Index: 20}, false},
		{"the member was stopped", join, nil, false},
	} {
		if row.err != nil {
			row.err = fmt.Errorf("the node has ended: %w", row.err)
		}
		assert.Equal(t, row.want, startsAgain(row.cfg, row.err), row.rule)
	}
}

// The servers are asked anew each time, so a member that was added later is found.
func TestLooking_TheServersInJoinNameTheSeeds(t *testing.T) {
	text := `{"id":"n4"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "GET /members", r.Method+" "+r.URL.Path)
		_, _ = io.WriteString(w, text)
	}))
	defer server.Close()
	o := Options{ID: "n4", Cluster: "test", Data: "d", RaftAddr: "h4:1", HTTPAddr: "h4:2", LogLevel: "info", Join: []string{server.URL}}
	cfg, err := o.config()
	require.NoError(t, err)
	assert.True(t, cfg.SetAside)
	assert.Equal(t, "http://h4:2", cfg.Meta)
	look := o.lookUp()
	_, err = look(t.Context())
	assert.ErrorContains(t, err, "only this member itself answers: give --join the URLs of other servers")
	text = `{"id":"n9"}`
	_, err = look(t.Context())
	assert.ErrorContains(t, err, "--join: n9 answers, but knows no cluster yet")
	text = `{"id":"n1","index":7,"members":[{"id":"n1","address":"h1:1"}]}`
	addresses, err := look(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"h1:1"}, addresses)
	text = `{"id":"n1","index":9,"members":[{"id":"n1","address":"h1:1"},{"id":"n2","address":"h2:1"},{"id":"n3"}]}`
	addresses, err = look(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"h1:1", "h2:1"}, addresses)
	server.Close()
	_, err = look(t.Context())
	assert.ErrorContains(t, err, "--join: no server answers")
}
