package fuzzy

import (
	"testing"

	"github.com/coxswain/raft/internal/sim"
)

// FuzzSim lets the fuzzer's bytes direct a cluster. The bytes decide which message arrives next, is lost or arrives twice.
// They also decide which process dies, which disk stalls, and which member gets a request. Every invariant is checked after
// every event, and the cluster must work again at the end.
func FuzzSim(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 3, 0, 0, 0, 1, 9, 0, 0, 2, 4, 1, 0, 0, 5, 1})
	f.Add([]byte{1, 5, 9, 0, 9, 1, 2, 0, 7, 0, 8, 3, 0, 0, 7, 3, 14, 9, 10, 1, 11, 2, 12, 1})
	f.Add([]byte{0, 3, 4, 0, 9, 0, 9, 0, 14, 8, 5, 0, 6, 1, 9, 1, 14, 12, 4, 1, 5, 1, 14, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		seed := Seed{Profile: ScenarioPrefix + "chain"} // uses the world of chain, but not its story
		p, err := Draw(seed)
		if err != nil {
			t.Fatal(err)
		}
		in := dice{data[:min(len(data), 400)]}
		p.Node.Atomic, p.Voters = in.roll(2) == 0, 3+in.roll(3)
		c := newCluster(seed, p)
		c.scene.story.play = func(d *director) {
			d.bootstrap()
			for held := d.hold(nil, nil); len(in.bytes) > 0; {
				d.direct(held, &in)
			}
		}
		c.guarded()
		if c.failure == nil {
			c.checkHistory()
		}
		if c.failure != nil {
			t.Fatal(c.failure)
		}
	})
}

// dice are bytes that make decisions.
type dice struct{ bytes []byte }

func (d *dice) roll(n int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return int(b) % n
}

// direct makes the next event happen, as the dice decide.
func (d *director) direct(held *hold, in *dice) {
	verb, n := in.roll(16), d.c.nodes[in.roll(len(d.c.nodes))]
	other := d.c.nodes[in.roll(len(d.c.nodes))]
	if asks := verb >= 9 && verb <= 11; asks && n.core == nil {
		return // nobody answers the client
	}
	switch verb {
	case 0, 1:
		held.release()
		held.over = false // it starts again
	case 2, 3, 4:
		held.pass(in.roll(256), verb == 3, verb == 4)
	case 5:
		d.crash(n)
	case 6:
		d.start(n)
	case 7:
		d.stall(n)
	case 8:
		d.flow(n)
	case 9:
		d.write(n, 1+in.roll(3))
	case 10:
		d.read(n)
	case 11:
		d.transfer(n, other)
	case 12:
		d.isolate(sim.Direction(in.roll(3)), n)
	case 13:
		d.heal()
	case 14:
		d.dieAfter(n, 1+in.roll(6))
	case 15:
		d.wait(float64(in.roll(32)) / 8)
	}
}

// pass makes one of the held messages arrive or get lost. A message that has arrived may arrive again later.
func (h *hold) pass(i int, lost, again bool) {
	if len(h.kept) == 0 {
		return
	}
	i %= len(h.kept)
	m := h.kept[i]
	if !again {
		h.kept = append(h.kept[:i:i], h.kept[i+1:]...)
	}
	if !lost {
		h.d.arriveTogether(m)
	}
}
