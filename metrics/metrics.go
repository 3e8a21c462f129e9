// Package metrics exports the counters of a node and of its transport to Prometheus. The metric names are a contract, see
// docs/metrics.md.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// Source is what a Collector reads: a *node.Node.
type Source interface{ Metrics() node.Metrics }

// Collector returns a collector for the node. Register it once. If one process has several nodes, give each a label with
// prometheus.WrapRegistererWith. Collecting does not involve the node's loop, never waits, and still works after the node
// has ended.
func Collector(n Source) prometheus.Collector { return &collector{n} }

type collector struct{ node Source }

// value is one number of node.Metrics or transport.Stats with its name.
type value[From any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(From) float64
}

func (v value[From]) collect(from From) prometheus.Metric {
	return prometheus.MustNewConstMetric(v.desc, v.kind, v.read(from))
}

// distribution is one histogram of node.Metrics with its name.
type distribution struct {
	desc *prometheus.Desc
	read func(node.Metrics) node.Histogram
}

func describe(name, help string, labels prometheus.Labels) *prometheus.Desc {
	return prometheus.NewDesc("raft_"+name, help, nil, labels)
}

func gauge[From any](name, help string, read func(From) float64) value[From] {
	return value[From]{describe(name, help, nil), prometheus.GaugeValue, read}
}

func counter[From any](name, help string, read func(From) float64) value[From] {
	return value[From]{describe(name, help, nil), prometheus.CounterValue, read}
}

// byReason returns a counter for one reason. Several such counters share a name, and differ only in the label "reason".
func byReason[From any](name, help, reason string, read func(From) float64) value[From] {
	return value[From]{describe(name, help, prometheus.Labels{"reason": reason}), prometheus.CounterValue, read}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, v := range values {
		out <- v.desc
	}
	for _, d := range distributions {
		out <- d.desc
	}
	for _, r := range rejectReasons {
		out <- refusalDesc(r)
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	m := c.node.Metrics()
	for _, v := range values {
		out <- v.collect(m)
	}
	for _, d := range distributions {
		h := d.read(m)
		buckets, below := make(map[float64]uint64, len(h.Bounds)), uint64(0)
		for i, bound := range h.Bounds {
			below += h.Counts[i]
			buckets[bound] = below
		}
		out <- prometheus.MustNewConstHistogram(d.desc, h.Count(), h.Sum, buckets)
	}
	for _, r := range rejectReasons {
		out <- prometheus.MustNewConstMetric(refusalDesc(r), prometheus.CounterValue, float64(m.Refusals[r]))
	}
}

func refusalDesc(r raft.RejectReason) *prometheus.Desc {
	return describe("handshakes_refused_total", "Handshakes rejected, by this member or by others.",
		prometheus.Labels{"reason": reasonName(r)})
}

// rejectReasons lists all reasons of a rejection. The element 0 stands for any reason that only a later release knows.
var rejectReasons = func() []raft.RejectReason {
	all := []raft.RejectReason{0}
	for r := range raft.RejectReason(raft.RejectReasons) {
		if r.Known() {
			all = append(all, r)
		}
	}
	return all
}()

func reasonName(r raft.RejectReason) string {
	if !r.Known() {
		return "other"
	}
	return r.String()
}
