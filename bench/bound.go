package main

import (
	"fmt"
	"strings"
)

// No library can be faster than these bounds. They follow from measurements of the same machine in the same round.

// machineHas returns a figure of the machine, by round.
func (s *summary) machineHas(figure string) map[int]float64 {
	return s.values[place{cell{Kind: limits}.String(), machine, figure}]
}

// leastLatency returns, for each round, the lowest possible latency of a single caller in milliseconds. It is the time of one
// sync, measured while three processes sync at the same time, plus the time of one round trip.
func (s *summary) leastLatency() map[int]float64 {
	least := map[int]float64{}
	for round, micros := range s.machineHas(syncMicros(syncSizes[0])) {
		least[round] = (micros + s.machineHas(loopbackMicros)[round]) / 1000
	}
	return least
}

// mostThroughput returns, for each round, how many operations a second the disk allows if each write holds one command of
// every caller.
func (s *summary) mostThroughput(callers, bytes int) map[int]float64 {
	most := map[int]float64{}
	for round := range s.machineHas(loopbackMicros) {
		var known []float64
		for _, size := range syncSizes {
			if micros, found := s.machineHas(syncMicros(size))[round]; found {
				known = append(known, micros)
			}
		}
		if len(known) == len(syncSizes) {
			most[round] = float64(callers) / syncTime(known, callers*bytes) * 1e6
		}
	}
	return most
}

// syncTime returns the duration of a synced write of so many bytes, in microseconds. It interpolates between the measured
// sizes. For more bytes than the largest measured size, the time is proportional to the size.
func syncTime(micros []float64, bytes int) float64 {
	last := len(syncSizes) - 1
	if bytes >= syncSizes[last] {
		return micros[last] * float64(bytes) / float64(syncSizes[last])
	}
	for i := last; i > 0; i-- {
		if below, above := syncSizes[i-1], syncSizes[i]; bytes >= below {
			return micros[i-1] + (micros[i]-micros[i-1])*float64(bytes-below)/float64(above-below)
		}
	}
	return micros[0]
}

// bounds shows how far all contestants are from the bounds.
func (p *page) bounds() {
	p.latencyBound()
	p.throughputBound()
}

func (p *page) latencyBound() {
	least := p.leastLatency()
	var cells []cell
	for _, bytes := range payloads {
		cells = append(cells, loop(1, bytes))
	}
	who := p.measured(cells, names(contestants), p50)
	if len(least) == 0 || len(who) == 0 {
		return
	}
	p.line("### One caller: median latency in multiples of the bound of latency\n")
	p.line("The bound is one sync of 4 KiB, with three processes at the same time, and one round trip.\n")
	p.line("| | bound, ms | %s |\n|---|---%s|", strings.Join(who, " | "), strings.Repeat("|---", len(who)))
	for _, c := range cells {
		if len(p.measured([]cell{c}, who, p50)) == 0 {
			continue
		}
		row := fmt.Sprintf("| %s | %s", c.row(), estimateOf(valuesOf(least)))
		for _, name := range who {
			row += " | " + estimateOf(ratios(p.values[place{c.String(), name, p50}], least)).String()
		}
		p.line("%s |", row)
	}
	p.line("")
}

func (p *page) throughputBound() {
	who := p.measured(p.loops(), names(contestants), opsPerSecond)
	var rows []string
	for _, c := range p.loops() {
		most := p.mostThroughput(c.Callers, c.Bytes)
		if len(most) == 0 || c.Callers == 1 || len(p.measured([]cell{c}, who, opsPerSecond)) == 0 {
			continue
		}
		bound := map[int]float64{}
		for round, x := range most {
			bound[round] = x / 100
		}
		row := fmt.Sprintf("| %s | %s", c.row(), estimateOf(valuesOf(most)))
		for _, name := range who {
			row += " | " + estimateOf(ratios(p.values[place{c.String(), name, opsPerSecond}], bound)).String()
		}
		rows = append(rows, row+" |")
	}
	if len(rows) == 0 {
		return
	}
	p.line("### Operations a second in %% of the bound of throughput\n")
	p.line("The bound is what the disk takes of writes that hold the commands of all callers at once, synced, with three processes "+
		"at the\nsame time. With many callers it is far away for everybody, because two things come first: the processors, and that "+
		"a batch is\nnever all callers.\n\n| | bound, operations a second | %s |\n|---|---%s|\n%s\n",
		strings.Join(who, " | "), strings.Repeat("|---", len(who)), strings.Join(rows, "\n"))
}
