package member

import (
	"errors"
	"fmt"
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

func TestFounding_TheFlagsBecomeThoseOfTheLibrary(t *testing.T) {
	o := founder()
	cfg, err := o.config()
	require.NoError(t, err)
	assert.Equal(t, []raft.NodeID{"n1", "n2"}, cfg.Founders)
	assert.Equal(t, library.Addresses("h1:1", "h2:1"), cfg.Seeds)
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

func TestFounding_ErrorsNameTheFlags(t *testing.T) {
	for text, edit := range map[string]func(*Options){
		"--seeds: missing: name addresses of the other members":              func(o *Options) { o.Seeds = nil },
		`--seeds: they are only "h1:1", which is this member itself`:         func(o *Options) { o.Seeds = []string{"h1:1"} },
		`--seeds: seed "h2" is no "host:port"`:                               func(o *Options) { o.Seeds = []string{"h2"} },
		`--seeds: seed "h2:0" is no "host:port"`:                             func(o *Options) { o.Seeds = []string{"dns:h2:0"} },
		`--seeds "dns:h2:1": give one name alone, or addresses`:              func(o *Options) { o.Seeds = []string{"h1:1", "dns:h2:1"} },
		`--founders: "n1" is listed twice`:                                   func(o *Options) { o.Founders = []string{"n1", "n1"} },
		"--peers: must be empty with --founders and --seeds":                 func(o *Options) { o.Peers = []string{"n1=h1:1=http://h1:2"} },
		"--join goes without --founders and --seeds":                         func(o *Options) { o.Join = []string{"http://h2:2"} },
		"--as learner: n1 is a founder, and founders vote: leave it out":     func(o *Options) { o.As = "learner" },
		`--as "king": use voter or learner`:                                  func(o *Options) { o.As = "king" },
		`--advertise: missing: name the "host:port"`:                         func(o *Options) { o.RaftAddr = ":1" },
		`--advertise: "0.0.0.0:1" names no machine`:                          func(o *Options) { o.Advertise = "0.0.0.0:1" },
		`--url: "http://:2" is not a URL at which others can reach a server`: func(o *Options) { o.HTTPAddr = ":2" },
		`--url: "h1" is not a URL`:                                           func(o *Options) { o.URL = "h1" },
		"--set-aside: needs --seeds, through which":                          func(o *Options) { o.Founders, o.Seeds, o.SetAside = []string{"n1"}, nil, true },
		"--set-aside: needs --seeds":                                         func(o *Options) { o.Founders, o.Seeds, o.SetAside = nil, nil, true },
		"--rejoin: needs --seeds":                                            func(o *Options) { o.Founders, o.Seeds, o.Rejoin = nil, nil, 1 },
		"--as goes with --join or --seeds; the initial members are voters":   func(o *Options) { o.Founders, o.Seeds, o.As = nil, nil, "learner" },
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
func TestFounding_AStoreThatCannotBeUsedHasARemedy(t *testing.T) {
	o := founder()
	damaged, removed := fmt.Errorf("ended: %w", &raft.CorruptError{}), fmt.Errorf("ended: %w", &raft.RemovedError{Index: 18})
	assert.ErrorContains(t, o.remedy(removed), "raftkv serve --rejoin 18, with")
	assert.ErrorIs(t, o.remedy(removed), raft.ErrRemoved)
	assert.ErrorContains(t, o.remedy(damaged), "raftkv serve --set-aside, with")
	o.SetAside = true
	assert.ErrorContains(t, o.remedy(damaged), "the next start sets this store aside")
	kept := &joining.KeptError{Why: damaged, Reason: "no leader"}
	assert.Equal(t, error(kept), o.remedy(kept), "it says what is missing")
	assert.ErrorContains(t, Options{}.remedy(damaged), "raftkv serve --join URL")
	other := errors.New("other")
	assert.Equal(t, other, o.remedy(other))
	assert.NoError(t, o.remedy(nil))
}
