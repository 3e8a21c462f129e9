package main_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/viewer/browsertest"
)

// What an open page costs the members and the network, at rest and under load.
func TestMeasure_AnOpenPage(t *testing.T) {
	if os.Getenv(fullVariable) == "" {
		t.Skip("it takes three minutes: make measure")
	}
	c, leader := startCluster(t)
	c.write()
	c.caughtUp()
	used := func(during time.Duration) (each []time.Duration) {
		for _, n := range c.Nodes {
			each = append(each, -cpu(t, c.Process(n.ID).PID()))
		}
		<-time.After(during)
		for i, n := range c.Nodes {
			each[i] += cpu(t, c.Process(n.ID).PID())
		}
		return each
	}
	const during = 30 * time.Second
	<-time.After(5 * time.Second) // until it rests
	without := used(during)
	p := browsertest.Show(t, leader.URL()+admin.LivePath, "light")
	p.Wait("document.querySelectorAll('td.yes').length === 6")
	paint := browsertest.Eval[float64](p, "performance.getEntriesByName('first-contentful-paint')[0].startTime")
	assets := p.Received()
	<-time.After(5 * time.Second)
	with := used(during)
	for i, n := range c.Nodes {
		t.Logf("%s at rest: %.2f %% of a core without the page, %.2f %% with it: the page costs %.2f %%", n.ID,
			percent(without[i], during), percent(with[i], during), percent(with[i]-without[i], during))
	}
	t.Logf("first paint after %.0f ms; the page with its first statuses: %s", paint, kib(assets))
	before := p.Received()
	<-time.After(time.Minute)
	t.Logf("a minute at rest: %s", kib(p.Received()-before))
	w, verify := c.work()
	before = p.Received()
	acknowledged := w.Verdict().Acknowledged
	<-time.After(time.Minute)
	t.Logf("a minute with %d writes: %s; %s in all", w.Verdict().Acknowledged-acknowledged, kib(p.Received()-before), kib(p.Received()))
	verify()
}

func percent(used, during time.Duration) float64 { return 100 * float64(used) / float64(during) }

func kib(bytes int64) string { return fmt.Sprintf("%.1f KiB", float64(bytes)/1024) }
