package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coxswain/raft/transport"
)

// TransportSource is what a TransportCollector reads: a *transport.TCP.
type TransportSource interface{ Stats() transport.Stats }

// TransportCollector returns a collector for the connections of a transport. It also counts connections that close before
// their member is known. No node sees those connections. Register this collector in addition to the node's Collector.
// Collecting never waits, and still works after the transport is closed.
func TransportCollector(t TransportSource) prometheus.Collector { return &transportCollector{t} }

type transportCollector struct{ transport TransportSource }

// Describe implements prometheus.Collector.
func (c *transportCollector) Describe(out chan<- *prometheus.Desc) {
	for _, v := range transportValues {
		out <- v.desc
	}
}

// Collect implements prometheus.Collector.
func (c *transportCollector) Collect(out chan<- prometheus.Metric) {
	s := c.transport.Stats()
	for _, v := range transportValues {
		out <- v.collect(s)
	}
}

type stats = transport.Stats

// transportValues lists every number, in the order of docs/metrics.md.
var transportValues = append([]value[stats]{
	gauge("transport_inbound", "Established inbound connections.", func(s stats) float64 { return float64(s.Inbound) }),
	gauge("transport_handshakes", "Inbound connections whose handshake is not finished.",
		func(s stats) float64 { return float64(s.Handshakes) }),
	counter("transport_accepted_total", "Inbound connections that were accepted.",
		func(s stats) float64 { return float64(s.Accepted) }),
	counter("transport_accept_failed_total", "Errors of the listener.",
		func(s stats) float64 { return float64(s.AcceptFailed) }),
	counter("transport_dialed_total", "Pairs of outbound connections that were established.",
		func(s stats) float64 { return float64(s.Dialed) }),
	counter("transport_dial_failed_total", "Dials that did not lead to a pair.",
		func(s stats) float64 { return float64(s.DialFailed) }),
	counter("transport_lost_total", "Established pairs that broke.", func(s stats) float64 { return float64(s.Lost) }),
	counter("transport_side_dialed_total", "Connections for snapshots or forwarded requests that were established.",
		func(s stats) float64 { return float64(s.SidesDialed) }),
	counter("transport_side_lost_total", "Connections for snapshots or forwarded requests that broke alone.",
		func(s stats) float64 { return float64(s.SidesLost) }),
	counter("transport_questions_total", "Questions who is at this address that were answered.",
		func(s stats) float64 { return float64(s.Questions) }),
	counter("transport_send_failed_total", "Sends that found a connection and failed.",
		func(s stats) float64 { return float64(s.SendFailed) }),
	counter("transport_unsendable_total", "Messages that could not be encoded.",
		func(s stats) float64 { return float64(s.Unsendable) }),
	closed("malformed", func(s stats) uint64 { return s.Malformed }),
	closed("oversized", func(s stats) uint64 { return s.Oversized }),
	closed("wrong_sender", func(s stats) uint64 { return s.WrongSender }),
	closed("tls_failed", func(s stats) uint64 { return s.TLSFailed }),
	closed("handshake_cut", func(s stats) uint64 { return s.HandshakeCut }),
	closed("crowded", func(s stats) uint64 { return s.Crowded }),
	closed("replaced", func(s stats) uint64 { return s.Replaced }),
	closed("silent", func(s stats) uint64 { return s.Silent }),
}, refusedValues()...)

func closed(reason string, read func(stats) uint64) value[stats] {
	return byReason("transport_closed_total", "Connections that this side closed.", reason,
		func(s stats) float64 { return float64(read(s)) })
}

// refusedValues returns one value for each element of Stats.Rejected that is in use.
func refusedValues() (all []value[stats]) {
	for _, r := range rejectReasons {
		all = append(all, byReason("transport_refused_total", "Inbound connections that were rejected.", reasonName(r),
			func(s stats) float64 { return float64(s.Rejected[r]) }))
	}
	return all
}
