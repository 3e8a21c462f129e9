package main_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coxswain/raft/internal/viewer/browsertest"
)

func TestScratch_Shots(t *testing.T) {
	out := os.Getenv("SHOTS")
	if out == "" {
		t.Skip()
	}
	c, leader := startCluster(t)
	c.work()
	p := browsertest.Show(t, leader.URL()+"/live", "light")
	shot := func(name string, w, h int64) {
		p.Resize(w, h)
		time.Sleep(1200 * time.Millisecond)
		p.Screenshot(filepath.Join(out, name+".png"))
	}
	time.Sleep(12 * time.Second)
	shot("light", 1280, 1000)
	p.Scheme("dark")
	shot("dark", 1280, 1000)
	shot("phone-dark", 390, 1500)
	p.Scheme("light")
	shot("phone", 390, 2400)
	c.Kill(leader.ID)
	time.Sleep(4 * time.Second)
	shot("dead", 1280, 1000)
	t.Log(p.Received(), browsertest.Eval[float64](p, "performance.getEntriesByName('first-contentful-paint')[0].startTime"))
	t.Log(browsertest.Eval[string](p, "JSON.stringify([document.documentElement.scrollWidth, innerWidth])"))
}
