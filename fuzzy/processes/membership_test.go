package processes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestReport_SaysHowManyMembersWereReplacedAndHowLongThatTook(t *testing.T) {
	r := Report{Verdict: "clean", Faults: map[Kind]int{Wipe: 2}, Membership: Membership{
		Commands: 5, Done: 3, Removed: 4, Replaced: map[Kind]int{Wipe: 2, Damage: 1},
		replacing: []time.Duration{3 * time.Second, time.Second, 2 * time.Second},
	}}
	r.Membership.conclude()
	for _, text := range []string{r.String(), r.Markdown()} {
		assert.Contains(t, text, "3 commands done")
		assert.Contains(t, text, "4, each ended with code 9")
		assert.Contains(t, text, "3: 2 after wipe, 1 after damage, within 2.0 s (p50), 3.0 s (max)")
	}
	r.Membership = Membership{}
	assert.NotContains(t, r.Markdown(), "membership changes", "a report of a release without them")
}
