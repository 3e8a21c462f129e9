package main

import (
	_ "embed" // for the parts that people write
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newPage() *cobra.Command {
	var from, docs string
	cmd := &cobra.Command{
		Use:   "page",
		Short: "Write docs/results/benchmarks.md, its pictures and a summary in JSON from the results",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return writePage(from, docs) },
	}
	cmd.Flags().StringVar(&from, "results", "results.jsonl", "the file of results")
	cmd.Flags().StringVar(&docs, "docs", "../docs/results", "where benchmarks.md and the directory benchmarks go")
	return cmd
}

// profilesText and setupText are the parts of the page that people write.
var (
	//go:embed profiles.md
	profilesText string
	//go:embed setup.md
	setupText string
)

func writePage(from, docs string) error {
	records, err := readResults(from)
	if err != nil {
		return err
	}
	s := summarise(records)
	if s.Runs == 0 {
		return fmt.Errorf("%s holds no run that counts", from)
	}
	pictures := filepath.Join(docs, "benchmarks")
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return err
	}
	p := page{summary: s}
	p.write()
	text, err := s.json()
	errs := []error{
		err,
		os.WriteFile(filepath.Join(docs, "benchmarks.md"), []byte(p.text.String()), 0o644),
		os.WriteFile(filepath.Join(pictures, "summary.json"), text, 0o644),
	}
	for _, c := range p.charts {
		errs = append(errs, c.save(filepath.Join(pictures, c.file)))
	}
	return errors.Join(errs...)
}

// page is the Markdown of docs/results/benchmarks.md, and the charts that it shows.
type page struct {
	summary
	text   strings.Builder
	charts []chart
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.text, format+"\n", args...) }

// The payloads of closed loops, and the callers.
var (
	payloads    = []int{16, 128, 1 << 10, 64 << 10}
	callerSteps = []int{1, 16, 64, 256, 1024}
	openRates   = []float64{2_000, 5_000, 10_000, 20_000, 50_000, 100_000, halfPeak}
)

func (p *page) write() {
	p.introduction()
	p.inShort()
	p.limits()
	p.closedLoops()
	p.bounds()
	p.openLoops()
	p.readTables()
	p.clusters()
	p.others()
	p.comparisons()
	p.besideYields()
	p.storeTable()
	p.line("%s", profilesText)
	p.line("%s", setupText)
	p.failures()
	p.failedRuns()
}

func (p *page) introduction() {
	p.line("# Benchmarks\n")
	p.line("Written by `make bench-page` from runs of `make bench-peers`; not to be edited.\n")
	if p.Conditions.Smoke {
		p.line("> **Only a trial.** These runs of a second each show that everything can be measured. Their figures mean nothing.\n")
	}
	p.line("Conditions: %s. %d runs count; runs that other programs disturbed, and that were repeated: %d; failed: %d.\n",
		p.Conditions, p.Runs, p.Disturbed, p.Failed)
	p.line(`Every contestant has the same driver, the same state machine, which counts commands and their bytes, and replicas on
one disk over loopback TCP, with every write synced; callers are in the leader's process. A load is measured for %v after %v
of warm-up, on an empty disk and in new processes. In each cell the contestants took turns, and a run during which others used
more than %.0f %% of a core, or of which more than %.0f %% was stolen by other machines, was repeated.
`, p.Conditions.Measure, p.Conditions.Warmup, 100*othersMax, 100*stolenMax)
	p.line(`A figure is the median of the rounds, and in parentheses its 95 %% confidence interval, which is that of the sign test:
it reaches from one of the measured values to another, and assumes nothing about how they are distributed. It takes six rounds;
a star marks figures of fewer. Ratios are taken round by round, and have the same kind of interval. Absolute figures do not
carry over to another machine.
`)
	p.line("| contestant | modules |\n|---|---|")
	for _, c := range contestants {
		ran := func(m measurement) bool { return m.Contestant == c.name }
		if !slices.ContainsFunc(p.Results, ran) {
			continue
		}
		var versions []string
		for _, m := range c.modules {
			versions = append(versions, m+" "+p.Conditions.Modules[m])
		}
		p.line("| %s | %s |", c.name, strings.Join(versions, ", "))
	}
	p.line("\n[How everybody is set up](#how-everybody-is-set-up) says what the names stand for.\n")
}

func (p *page) limits() {
	c := cell{Kind: limits}
	if p.of(c, machine, loopbackMicros).Runs == 0 {
		return
	}
	p.line("## What the machine allows\n")
	p.line("Three processes write and sync at the same time, each into a file of zeros. Then one process sends 128 B over " +
		"loopback and back.\n")
	p.line("| | |\n|---|---|")
	for _, bytes := range syncSizes {
		p.line("| %s written and synced, p50 | %s µs |", size(bytes), p.of(c, machine, syncMicros(bytes)))
		p.line("| the same, all three together | %s MiB/s |", p.of(c, machine, syncRate(bytes)))
	}
	p.line("| loopback round trip, p50 | %s µs |", p.of(c, machine, loopbackMicros))
	p.line("| resident memory of a process of this driver without a replica | %s MiB |\n", p.of(c, machine, emptyResident))
}

// table prints one figure of some cells. Each contestant that has the figure is a column.
func (p *page) table(title string, cells []cell, who []string, figure string) {
	who = p.measured(cells, who, figure)
	if len(who) == 0 {
		return
	}
	p.line("### %s\n", title)
	p.line("| | %s |", strings.Join(who, " | "))
	p.line("|---%s|", strings.Repeat("|---", len(who)))
	for _, c := range cells {
		row, some := "| "+c.row(), false
		for _, name := range who {
			e := p.of(c, name, figure)
			some = some || e.Runs > 0
			row += " | " + e.String()
		}
		if some {
			p.line("%s |", row)
		}
	}
	p.line("")
}

// row returns the name of the cell in its table. The name leaves out the kind, because the title of the table gives it.
func (c cell) row() string {
	_, rest, found := strings.Cut(c.String(), ", ")
	if !found {
		return c.String()
	}
	return rest
}

// loops are the closed loops on three replicas in one process.
func (p *page) loops() (cells []cell) {
	for _, bytes := range payloads {
		for _, callers := range callerSteps {
			cells = append(cells, loop(callers, bytes))
		}
	}
	return cells
}

func (p *page) closedLoops() {
	p.line("## Closed loops\n")
	p.line("Three replicas in one process; each caller begins its next command when the last one is applied.\n")
	for _, bytes := range payloads {
		p.chart(chart{
			file: fmt.Sprintf("throughput-%d.svg", bytes), title: "Operations a second, commands of " + size(bytes), x: "callers",
		}, steps(callerSteps), func(x float64) cell { return loop(int(x), bytes) }, opsPerSecond)
	}
	p.chart(chart{file: "p99-128.svg", title: "99th percentile in ms, commands of 128 B", x: "callers"},
		steps(callerSteps), func(x float64) cell { return loop(int(x), 128) }, p99)
	for _, t := range []struct{ title, figure string }{
		{"Operations a second", opsPerSecond}, {"Median latency in ms", p50}, {"99th percentile of latency in ms", p99},
		{"CPU seconds per 100,000 operations, of all replicas and the callers", cpu},
		{"Allocations an operation, of all replicas and the callers", allocations},
		{"Resident MiB under load, of all replicas and the callers", residentMax},
		{"Anonymous MiB under load, that is, without what is mapped from files", anonymousMax},
	} {
		p.table(t.title, p.loops(), names(contestants), t.figure)
	}
	p.shares("Operations a second in sessions, one for each caller, as a share of those without",
		[]cell{inSessions(256, 128)}, loop(256, 128), opsPerSecond)
}

func (p *page) openLoops() {
	var cells []cell
	for _, rate := range openRates {
		cells = append(cells, at(rate))
	}
	if len(p.measured(cells, names(contestants), p999)) == 0 {
		return
	}
	p.line("## Open loops\n")
	p.line("Three replicas in one process, commands of 128 B begun at a fixed rate. Latency counts from the moment at which a "+
		"command was\ndue, so a stall counts for everybody who would have waited. At most %s run at once; others that are due "+
		"wait, and that\ncounts too.\n", thousands(openCallers))
	if best, peak := p.peak(); best != "" {
		p.line("The best of the others in a closed loop of 1,024 callers, %s, does %s a second there: %s a second are %.0f %% of "+
			"that.\n", best, peak, thousands(int64(halfPeak)), 100*halfPeak/peak.Median)
	}
	p.chart(chart{file: "open-p999.svg", title: "99.9th percentile in ms at a fixed rate", x: "operations a second"},
		openRates, at, p999)
	for _, t := range []struct{ title, figure string }{
		{"Median from when it was due, ms", p50}, {"99th percentile, ms", p99}, {"99.9th percentile, ms", p999},
		{"Operations a second that were done", opsPerSecond},
	} {
		p.table(t.title, cells, names(contestants), t.figure)
	}
}

func (p *page) readTables() {
	if len(p.measured(readCells, names(contestants), opsPerSecond)) == 0 {
		return
	}
	p.line("## Reads\n")
	p.line(`Three replicas in one process, no writes; each caller begins its next read when the state machine may be read for the last
one. *Linearizable*: the leader confirms with a round of messages that it still leads (hashicorp/raft: VerifyLeader; etcd-raft:
ReadOnlySafe). *By lease*: without a round, while its lease runs (etcd-raft: ReadOnlyLeaseBased). *Stale*: a follower answers
from its own state, which it can prove to be at most %v old; no other contestant proves an age.
`, staleMax)
	for _, t := range []struct{ title, figure string }{
		{"Reads a second", opsPerSecond}, {"Median latency of reads in ms", p50}, {"99th percentile of reads in ms", p99},
		{"CPU seconds per 100,000 reads, of all replicas and the callers", cpu},
		{"Allocations a read, of all replicas and the callers", allocations},
	} {
		p.table(t.title, readCells, names(contestants), t.figure)
	}
	for _, callers := range readCallers {
		p.shares(fmt.Sprintf("Reads a second of %s callers, in multiples of linearizable ones", thousands(int64(callers))),
			[]cell{read(callers, byLease), read(callers, fromFollower)}, read(callers, linearizable), opsPerSecond)
	}
}

// peak returns the highest throughput of the other libraries, and the contestant that reaches it.
func (p *page) peak() (best string, peak estimate) {
	_, others := oursAndOthers()
	for _, name := range others {
		if e := p.of(loop(1024, 128), name, opsPerSecond); e.Runs > 0 && (best == "" || e.Median > peak.Median) {
			best, peak = name, e
		}
	}
	return best, peak
}

// clusters shows the closed loops on clusters that differ from three replicas in one process.
func (p *page) clusters() {
	cells := slices.DeleteFunc(kindOf(closedLoop), func(c cell) bool { return !c.Apart && c.Replicas == 3 })
	if len(p.measured(cells, names(contestants), opsPerSecond)) == 0 {
		return
	}
	p.line("## Other clusters\n")
	p.line("256 callers in a closed loop, commands of 128 B. *Own processes*: each replica has a process, and the callers are in "+
		"the leader's.\nA stopped follower is connected and does not answer. A slow disk takes %v longer for each sync.\n", slowSync)
	for _, t := range []struct{ title, figure string }{
		{"Operations a second", opsPerSecond}, {"99th percentile of latency in ms", p99},
		{"Resident MiB under load, of all processes", residentMax},
		{"Anonymous MiB under load, that is, without what is mapped from files", anonymousMax},
		{"Resident MiB after the load", residentRest}, {"Anonymous MiB after the load", anonymousRest},
	} {
		p.table(t.title, cells, names(contestants), t.figure)
	}
	p.shares("Operations a second, as a share of the healthy cluster of three", []cell{
		apart(3, followerStopped), apart(3, followerSlow), apart(5, ""), apart(7, ""),
	}, rested(), opsPerSecond)
	p.shares("The same, all replicas in one process", []cell{inOne(5), inOne(7)}, loop(256, 128), opsPerSecond)
}

// otherFigures are those that no load has.
var otherFigures = []string{failoverMs, firstAckMs, caughtUpMs, idleCPU}

func (p *page) others() {
	if !slices.ContainsFunc(p.Results, func(m measurement) bool { return slices.Contains(otherFigures, m.Figure) }) {
		return
	}
	p.line("## Failover, restart, catch-up and idle clusters\n")
	p.line("Each replica has a process. *150–300 ms* says that all have these election timeouts instead of their defaults.\n")
	p.otherTables([]otherTable{
		{failover, "Failover in ms", failoverMs, "From SIGKILL of the leader's process to the first acknowledged write, the mean of " +
			"the three kills\nof a round."},
		{failover, "The slowest of them in ms", failoverWorst, ""},
		{restart, "Restart in ms", firstAckMs, "All processes are killed and started again; until the first acknowledged write."},
		{restart, "Until all replicas have applied all, ms", allAppliedMs, ""},
		{restart, "Resident MiB then", idleResident, ""},
	})
	p.shares("Restart in the time that 50,000 entries take: up to 4 and 16 are linear",
		[]cell{replay(restart, 200_000), replay(restart, 800_000)}, replay(restart, 50_000), firstAckMs)
	p.otherTables([]otherTable{
		{catchUp, "Catch-up in ms", caughtUpMs, "A follower that was away while all was written starts and applies it."},
		{idle, "Idle: CPU in % of a core, of all processes", idleCPU, ""},
		{idle, "Idle: switches of threads a second", idleSwitches, ""},
		{idle, "Idle: resident MiB, of all processes", idleResident, ""},
		{idle, "Idle: anonymous MiB", idleAnonymous, ""},
	})
}

type otherTable struct {
	kind                kind
	title, figure, text string
}

func (p *page) otherTables(tables []otherTable) {
	for _, t := range tables {
		title := t.title
		if t.text != "" {
			title += "\n\n" + t.text
		}
		p.table(title, kindOf(t.kind), names(contestants), t.figure)
	}
}

func (p *page) storeTable() {
	if len(p.measured(storeCells, storeNames(), opsPerSecond)) == 0 {
		return
	}
	p.line("## The demo store beside etcd\n")
	p.line("Three processes each, etcd %s; one more process puts values under %s random keys into the leader: raftkv over HTTP "+
		"with a\nconnection for each caller, etcd over its v3 API with one for every %d. etcd's processes hold the rest of this driver "+
		"as well.\n",
		p.Conditions.Modules[etcdWAL], thousands(storeKeys), callersPerConnection)
	for _, t := range []struct{ title, figure string }{
		{"Puts a second", opsPerSecond}, {"Median latency in ms", p50}, {"99th percentile in ms", p99},
		{"99.9th percentile in ms", p999}, {"Resident MiB after the load, of the three processes", residentMax},
	} {
		p.table(t.title, storeCells, storeNames(), t.figure)
	}
	p.beside([]measure{
		{"raftkv beside etcd: puts a second", opsPerSecond, false, storeCells[:3]}, // the last has a fixed rate
		{"raftkv beside etcd: median latency", p50, true, storeCells},
		{"raftkv beside etcd: 99th percentile", p99, true, storeCells},
		{"raftkv beside etcd: 99.9th percentile", p999, true, storeCells},
		{"raftkv beside etcd: resident memory", residentMax, true, storeCells},
	}, storeNames()[:2], storeNames()[2:])
}

// failures lists the cells and contestants in which operations failed. In these cells, the other figures look better than
// they are.
func (p *page) failures() {
	var rows []string
	for _, m := range p.Results {
		if m.Figure == failed && m.Median > 0 {
			rows = append(rows, fmt.Sprintf("| %s | %s | %s |", m.Cell, m.Contestant, thousands(int64(m.Median))))
		}
	}
	if len(rows) > 0 {
		p.line("## Operations that failed\n\nThe median of the rounds. They are in no other figure.\n")
		p.line("| | contestant | failed |\n|---|---|---|\n%s\n", strings.Join(rows, "\n"))
	}
}

// failedRuns lists the runs without figures. For example, a cluster lost its leader and elected no other.
func (p *page) failedRuns() {
	if len(p.failed) == 0 {
		return
	}
	p.line("## Runs that failed\n\nThey were repeated, and are in no figure.\n")
	p.line("| | contestant | runs | the first failure |\n|---|---|---|---|")
	for _, f := range p.failed {
		p.line("| %s | %s | %d | %s |", f.cell, f.contestant, f.runs, strings.ReplaceAll(firstLine(f.why), "|", "/"))
	}
	p.line("")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// chart shows one figure of all contestants, if any contestant has that figure.
func (p *page) chart(c chart, xs []float64, at func(x float64) cell, figure string) {
	for _, name := range names(contestants) {
		line := series{name: name}
		for _, x := range xs {
			if e := p.of(at(x), name, figure); e.Runs > 0 {
				line.points = append(line.points, point{x, e})
			}
		}
		if len(line.points) > 1 {
			c.lines = append(c.lines, line)
		}
	}
	if len(c.lines) > 0 {
		p.charts = append(p.charts, c)
		p.line("![%s](benchmarks/%s)\n", c.title, c.file)
	}
}

func steps(of []int) (xs []float64) {
	for _, x := range of {
		xs = append(xs, float64(x))
	}
	return xs
}
