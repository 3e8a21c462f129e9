package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/transport"
)

// MemberSource is what a MemberCollector reads: a *member.Member.
type MemberSource interface {
	Source
	TCP() *transport.TCP
	Certificate() *node.CertificateStatus
}

// MemberCollector returns a collector for the node of a member, for its connections, unless it has a transport of its own, and
// for its certificate, if it has one. It takes the place of Collector and TransportCollector.
func MemberCollector(m MemberSource) prometheus.Collector {
	all := parts{Collector(m), certificateCollector{m}}
	if tcp := m.TCP(); tcp != nil {
		all = append(all, TransportCollector(tcp))
	}
	return all
}

// parts are the collectors of the parts of a member.
type parts []prometheus.Collector

// Describe implements prometheus.Collector.
func (p parts) Describe(out chan<- *prometheus.Desc) {
	for _, part := range p {
		part.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (p parts) Collect(out chan<- prometheus.Metric) {
	for _, part := range p {
		part.Collect(out)
	}
}

type certificateCollector struct{ member MemberSource }

// Describe implements prometheus.Collector.
func (c certificateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, v := range certificateValues {
		out <- v.desc
	}
}

// Collect implements prometheus.Collector.
func (c certificateCollector) Collect(out chan<- prometheus.Metric) {
	s := c.member.Certificate()
	if s == nil {
		return
	}
	for _, v := range certificateValues {
		out <- v.collect(s)
	}
}

// certificateValues lists every number, in the order of docs/metrics.md.
var certificateValues = []value[*node.CertificateStatus]{
	gauge("certificate_days_left", "Whole days until the certificate of this member ends, or one of its authorities.",
		func(s *node.CertificateStatus) float64 { return float64(s.DaysLeft) }),
	gauge("certificate_refused", "1 while changed certificate files are not used, because they do not fit.",
		func(s *node.CertificateStatus) float64 { return truth(s.Refused) }),
}
