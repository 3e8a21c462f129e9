package sim

// NodesMax is the maximum number of nodes in a simulation that cuts links or uses sets of nodes, because a set is the bits of
// one word. A Network may have more nodes if it has no Core and its links are never cut.
const NodesMax = 64

// Layer is a reason to cut a link. A link is up if no layer cuts it.
type Layer int

// The layers.
const (
	Partitions Layer = iota
	Flaps
	Absences
	Exiles // cuts made by the simulation itself
	layers
)

// Links records which node can send to which other node. Each direction is a separate link.
type Links struct {
	n   int
	cut [layers][]uint64 // by sender: the receivers that are cut off
}

// NewLinks connects n nodes, all to all.
func NewLinks(n int) *Links {
	l := &Links{n: n}
	for i := range l.cut {
		l.cut[i] = make([]uint64, n)
	}
	return l
}

// Up reports whether from can send to to.
func (l *Links) Up(from, to int) bool {
	return (l.cut[Partitions][from]|l.cut[Flaps][from]|l.cut[Absences][from]|l.cut[Exiles][from])>>to&1 == 0
}

// Cut cuts the link in one direction.
func (l *Links) Cut(layer Layer, from, to int) { l.cut[layer][from] |= 1 << to }

// CutBoth cuts both directions.
func (l *Links) CutBoth(layer Layer, a, b int) {
	l.Cut(layer, a, b)
	l.Cut(layer, b, a)
}

// Mend undoes the cut of one direction in this layer.
func (l *Links) Mend(layer Layer, from, to int) { l.cut[layer][from] &^= 1 << to }

// Heal undoes every cut of the layer.
func (l *Links) Heal(layer Layer) { clear(l.cut[layer]) }

// MendAmong undoes every cut of every layer between members of the set.
func (l *Links) MendAmong(set uint64) {
	for i := range l.cut {
		for from := range l.cut[i] {
			if set>>from&1 == 1 {
				l.cut[i][from] &^= set
			}
		}
	}
}

// Reach returns the nodes that are connected to this one in both directions, itself included.
func (l *Links) Reach(node int) uint64 {
	reach := uint64(1) << node
	for i := range l.n {
		if l.Up(node, i) && l.Up(i, node) {
			reach |= 1 << i
		}
	}
	return reach
}

// Direction says which way a partition cuts.
type Direction int

// The directions.
const (
	BothWays Direction = iota
	Outward            // the side cannot send to the others
	Inward             // the side cannot hear the others
)

// Split cuts the side off from all others.
func (l *Links) Split(side uint64, d Direction) {
	for a := range l.n {
		for b := range l.n {
			if side>>a&1 == 0 || side>>b&1 == 1 {
				continue
			}
			if d != Inward {
				l.Cut(Partitions, a, b)
			}
			if d != Outward {
				l.Cut(Partitions, b, a)
			}
		}
	}
}

// Thin cuts each link with this probability. The remaining connectivity is partial and not transitive.
func (l *Links) Thin(s *Stream, millionths int, oneWay bool) {
	for a := range l.n {
		for b := range a {
			first, second := s.Chance(millionths), s.Chance(millionths)
			if first {
				l.Cut(Partitions, a, b)
			}
			if first && !oneWay || oneWay && second {
				l.Cut(Partitions, b, a)
			}
		}
	}
}

// Bridge keeps only the links to and from the hub. If the leader is not the hub, it loses its quorum.
func (l *Links) Bridge(hub int) {
	l.keep(func(a, b int) bool { return a == hub || b == hub })
}

// ConstrainedElection cuts the leader off. Of the links between the other nodes, it keeps only those to and from one node,
// the laggard. Only the laggard can reach a quorum, but it cannot win if its log lags.
func (l *Links) ConstrainedElection(leader, laggard int) {
	l.keep(func(a, b int) bool { return a != leader && b != leader && (a == laggard || b == laggard) })
}

// Chain keeps only the links between neighbours in this order.
func (l *Links) Chain(order []int) {
	l.keep(func(a, b int) bool {
		for i := 1; i < len(order); i++ {
			if order[i-1] == a && order[i] == b || order[i-1] == b && order[i] == a {
				return true
			}
		}
		return false
	})
}

// BehindBridge keeps only one link of the leader, the link to the bridge. All other nodes stay connected.
func (l *Links) BehindBridge(leader, bridge int) {
	l.keep(func(a, b int) bool {
		return a != leader && b != leader || a == bridge || b == bridge
	})
}

// keep cuts every link for which kept returns false. A node always reaches itself.
func (l *Links) keep(kept func(a, b int) bool) {
	for a := range l.n {
		for b := range l.n {
			if a != b && !kept(a, b) {
				l.Cut(Partitions, a, b)
			}
		}
	}
}
