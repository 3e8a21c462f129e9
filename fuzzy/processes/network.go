package processes

import (
	"context"
	"fmt"
	"time"
)

// networkPause is the length of a pause without network faults.
const networkPause = 3 * time.Second

// disturb runs a network fault from beginning to end.
func (w *world) disturb(ctx context.Context, f Fault) error {
	m, leads := w.victim(ctx, f, time.Millisecond) // the present leader
	if ctx.Err() != nil {
		return nil
	}
	at := w.index(m.ID)
	who := fmt.Sprintf("%s, leads: %v", m.ID, leads)
	switch f.Kind {
	case Drop:
		for _, p := range w.around(at, f) {
			p.drop()
		}
	case Delay:
		delay := time.Duration(1+f.Random%200) * time.Millisecond
		who = fmt.Sprintf("%s, by %v", who, delay)
		treat(append(w.from(at), w.to(at)...), treatment{delay: delay})
	case OneWay:
		treat(w.around(at, f), treatment{mode: cut})
	case HalfOpen:
		treat(w.around(at, f), treatment{mode: halfOpen})
	case DeadConn:
		for _, p := range w.from(at) {
			p.deafen(f.Random%3 != 0) // mostly the bulk lane's connection, which is dialed last
		}
	case Hold:
		treat(w.around(at, f), treatment{mode: hold})
	case Partition:
		side := f.side(len(w.members))
		who = fmt.Sprintf("one side is %0*b", len(w.members), side)
		treat(w.between(side), treatment{mode: f.severed()})
	}
	w.count(f, "%s, for %v", who, f.For)
	pause(ctx, f.For)
	w.calm()
	if w.cannotSpareOne() {
		pause(ctx, networkPause) // changes can end only if a majority is connected from time to time
	}
	return nil
}

// calm ends all network faults.
func (w *world) calm() {
	for at := range w.links {
		treat(w.from(at), treatment{})
	}
}

func treat(links []*proxy, how treatment) {
	for _, p := range links {
		p.treat(how)
	}
}

// from returns the links on which a member sends; to returns the links on which a member receives.
func (w *world) from(at int) (links []*proxy) {
	for _, both := range w.links[at] {
		links = append(links, both...)
	}
	return links
}

func (w *world) to(at int) (links []*proxy) {
	for from := range w.links {
		links = append(links, w.links[from][at]...)
	}
	return links
}

// around returns the links that a one-way fault affects: a single link, all links on which the member sends, or all links on
// which the member receives.
func (w *world) around(at int, f Fault) []*proxy {
	other := f.Other
	if other == at {
		other = f.Node
	}
	switch f.Random % 4 {
	case 0:
		return w.links[at][other]
	case 1:
		return w.links[other][at]
	case 2:
		return w.from(at)
	}
	return w.to(at)
}

// side returns one of two groups of members, as bits. Neither group is empty.
func (f Fault) side(nodes int) (side uint64) {
	size := 1 + int(f.Random>>8)%(nodes-1)
	for i := range size {
		side |= 1 << ((f.Other + i) % nodes)
	}
	return side
}

// severed returns the treatment of the links between two groups.
func (f Fault) severed() mode { return []mode{cut, halfOpen, hold}[f.Random%3] }

// between returns the links between the two groups, in both directions.
func (w *world) between(side uint64) (links []*proxy) {
	for from := range w.links {
		for to, both := range w.links[from] {
			if side>>from&1 != side>>to&1 {
				links = append(links, both...)
			}
		}
	}
	return links
}
