package metrics_test

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/enums"
	"github.com/coxswain/raft/member"
	"github.com/coxswain/raft/metrics"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/transport"
)

type source node.Metrics

func (s source) Metrics() node.Metrics                { return node.Metrics(s) }
func (s source) TCP() *transport.TCP                  { return nil }
func (s source) Certificate() *node.CertificateStatus { return &node.CertificateStatus{} }

// certified is a member whose certificate ends soon.
type certified struct{ source }

func (certified) Certificate() *node.CertificateStatus {
	return &node.CertificateStatus{DaysLeft: 29, Refused: true}
}

type wire transport.Stats

func (w wire) Stats() transport.Stats { return transport.Stats(w) }

// gather returns the metric families that a registry exports for m and s. The registry checks them first.
func gather(t *testing.T, m node.Metrics, s transport.Stats) map[string]string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(metrics.MemberCollector(source(m))))
	require.NoError(t, r.Register(metrics.TransportCollector(wire(s))))
	families, err := r.Gather()
	require.NoError(t, err)
	out := map[string]string{}
	for _, f := range families {
		out[f.GetName()] = f.String()
	}
	return out
}

func TestCollector_ShowsWhatTheNodeCounts(t *testing.T) {
	shown := gather(t, node.Metrics{
		Term: 7, Leading: true, Proposals: 12,
		Dropped:        node.Drops{Stale: 3},
		Refusals:       map[raft.RejectReason]uint64{raft.RejectStaleStart: 5},
		ProposeSeconds: node.Histogram{Bounds: []float64{.1, 1}, Counts: []uint64{4, 2, 1}, Sum: 9},
	}, transport.Stats{})
	for name, want := range map[string]string{
		"raft_term":                     `gauge:{value:7}`,
		"raft_leading":                  `gauge:{value:1}`,
		"raft_leader_known":             `gauge:{value:0}`,
		"raft_proposals_total":          `counter:{value:12}`,
		"raft_dropped_total":            `value:"stale"} counter:{value:3}`,
		"raft_handshakes_refused_total": `value:"stale start"} counter:{value:5}`,
		"raft_propose_seconds":          `sample_count:7 sample_sum:9 bucket:{cumulative_count:4 upper_bound:0.1} bucket:{cumulative_count:6 upper_bound:1}`,
	} {
		require.Contains(t, shown, name)
		assert.Contains(t, strings.ReplaceAll(shown[name], "  ", " "), want)
	}
}

// Every number of Stats has its own value. So the test notices a metric that reads the wrong field, and a field that is not
// exported.
func TestTransportCollector_ShowsEveryNumberOnce(t *testing.T) {
	var s transport.Stats
	next := uint64(1000)
	fields := reflect.ValueOf(&s).Elem()
	for i := range fields.NumField() {
		switch f := fields.Field(i); f.Kind() {
		case reflect.Int:
			f.SetInt(int64(next))
		case reflect.Array:
			for k := range f.Len() {
				f.Index(k).SetUint(next)
				next++
			}
		default:
			f.SetUint(next)
		}
		next++
	}
	all := strings.Join(slices.Collect(maps.Values(gather(t, node.Metrics{}, s))), "\n")
	shown := 0
	for n := uint64(1000); n < next; n++ {
		if count := strings.Count(all, fmt.Sprintf("value:%d}", n)); count > 0 {
			assert.Equal(t, 1, count, n)
			shown++
		}
	}
	unused := len(s.Rejected) - len(enums.Of(t, "..", "RejectReason")) - 1
	assert.Equal(t, fields.NumField()-1+len(s.Rejected)-unused, shown)
	assert.Contains(t, strings.ReplaceAll(all, "  ", " "),
		fmt.Sprintf(`value:"malformed"} counter:{value:%d}`, s.Malformed))
	assert.Contains(t, strings.ReplaceAll(all, "  ", " "),
		fmt.Sprintf(`value:"stale start"} counter:{value:%d}`, s.Rejected[raft.RejectStaleStart]))
}

// Every number and every histogram of Metrics has its own value. So the test notices a metric that reads the wrong field, and
// a field that is not exported. Refusals have their own test.
func TestCollector_ShowsEveryNumberOnce(t *testing.T) {
	var m node.Metrics
	next, truths := 1000, 0
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			switch f := v.Field(i); f.Kind() {
			case reflect.Bool:
				f.SetBool(true)
				truths++
				continue
			case reflect.Int, reflect.Int64:
				f.SetInt(int64(next))
			case reflect.Uint64:
				f.SetUint(uint64(next))
			case reflect.Float64:
				f.SetFloat(float64(next))
			case reflect.Struct:
				if h, ok := f.Addr().Interface().(*node.Histogram); ok {
					*h = node.Histogram{Bounds: []float64{1}, Counts: []uint64{0, 0}, Sum: float64(next)}
				} else {
					fill(f)
					continue
				}
			case reflect.Map:
				continue
			default:
				require.Fail(t, "a kind that the test does not know", "%v", v.Type().Field(i))
			}
			next++
		}
	}
	fill(reflect.ValueOf(&m).Elem())
	all := strings.Join(slices.Collect(maps.Values(gather(t, m, transport.Stats{}))), "\n")
	for n := 1000; n < next; n++ {
		assert.Equal(t, 1, strings.Count(all, fmt.Sprintf("value:%d}", n))+strings.Count(all, fmt.Sprintf("sample_sum:%d ", n)), "number %d", n)
	}
	assert.Equal(t, truths, strings.Count(all, "gauge:{value:1}"))
}

func TestCollector_ShowsLeaderChangesByCause(t *testing.T) {
	m := node.Metrics{TookOver: map[raft.Cause]uint64{}}
	for cause := range raft.Cause(raft.Causes) {
		m.TookOver[cause] = 10 + uint64(cause)
		m.LeaderChanges += m.TookOver[cause]
	}
	m.LeaderChanges += 3
	shown := strings.ReplaceAll(gather(t, m, transport.Stats{})["raft_leader_changes_total"], "  ", " ")
	assert.Equal(t, raft.Causes+1, strings.Count(shown, "counter:{"), shown)
	assert.Contains(t, shown, `value:"followed"} counter:{value:3}`)
	for cause := range raft.Cause(raft.Causes) {
		assert.Contains(t, shown, fmt.Sprintf(`value:%q} counter:{value:%d}`, cause.String(), 10+cause))
	}
}

func TestMemberCollector_ShowsTheCertificate(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(metrics.MemberCollector(certified{})))
	families, err := r.Gather()
	require.NoError(t, err)
	shown := map[string]float64{}
	for _, f := range families {
		shown[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	assert.EqualValues(t, 29, shown["raft_certificate_days_left"])
	assert.EqualValues(t, 1, shown["raft_certificate_refused"])
	assert.NotContains(t, shown, "raft_transport_inbound", "it has a transport of its own")
}

// A member has everything in one collector.
func TestMemberCollector_OfARunningMember(t *testing.T) {
	m, err := member.Start(t.Context(), member.Config{ID: "n1", Cluster: "test", Dir: t.TempDir(), Listen: "127.0.0.1:0"}, &kv.Store{})
	require.NoError(t, err)
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(metrics.MemberCollector(m)))
	families, err := r.Gather()
	require.NoError(t, err)
	var shown []string
	for _, f := range families {
		shown = append(shown, f.GetName())
	}
	assert.Subset(t, shown, []string{"raft_term", "raft_transport_inbound"})
	assert.NotContains(t, shown, "raft_certificate_days_left", "it has no certificate")
	require.NoError(t, m.Close())
}

func TestCollector_EveryNameIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	shown := gather(t, node.Metrics{}, transport.Stats{})
	for name := range shown {
		assert.Contains(t, string(doc), "`"+name, "docs/metrics.md")
	}
	for _, line := range strings.Split(string(doc), "\n") {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			assert.Contains(t, shown, name[:strings.IndexAny(name, "`{")], "documented, but not shown")
		}
	}
}

func TestCollectors_ShowEachReasonOfARefusal(t *testing.T) {
	shown := gather(t, node.Metrics{}, transport.Stats{})
	for _, name := range []string{"raft_handshakes_refused_total", "raft_transport_refused_total"} {
		all := enums.Of(t, "..", "RejectReason")
		for constant, n := range all {
			assert.Contains(t, shown[name], fmt.Sprintf("value:%q", raft.RejectReason(n)), "%s lacks %s", name, constant)
		}
		assert.Contains(t, shown[name], `value:"other"`, "a reason of a later release")
		assert.Equal(t, len(all)+1, strings.Count(shown[name], "counter:{"), "and no other: %s", shown[name])
	}
	other := gather(t, node.Metrics{Refusals: map[raft.RejectReason]uint64{0: 7}}, transport.Stats{})
	assert.Contains(t, strings.ReplaceAll(other["raft_handshakes_refused_total"], "  ", " "), `value:"other"} counter:{value:7}`)
}
