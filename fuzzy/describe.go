package fuzzy

import (
	"fmt"
	"strings"
)

// describe returns the state of every member as text.
func (c *cluster) describe() string {
	var b strings.Builder
	for _, n := range c.nodes {
		switch {
		case n.core == nil:
			fmt.Fprintf(&b, "%s down, durable %+v, log up to %d, damaged %v\n", n, n.disk.hard, len(n.disk.log), n.disk.damaged)
		default:
			fmt.Fprintf(&b, "%s frozen=%v forever=%v %s %v\n", n, n.frozen, n.forever, n.core.State(), n.status.Missing)
		}
		if l := configured(n.log); l != nil && c.profile.Members.on() {
			fmt.Fprintf(&b, "  uses %v\n", l)
		}
		if s := &n.seeking; s.rules != nil && c.profile.Members.Pace > 0 {
			fmt.Fprintf(&b, "  at %s, waits for %q\n", n.place, s.rules.Missing(n.state()))
		}
	}
	return b.String()
}
