package node_test

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// warning finds what a line of the log warns of: the member that writes it, the message, the verdict and whom it is about.
var warning = regexp.MustCompile(`^(\S+) \[(?:WARN|ERROR)\] +(n\d: [^:]+)(?:: (?:verdict=("[^"]+"|\S+) )?member=(\S+))?`)

// A night with a connection that comes and goes, with no quorum for long, and with a member that is refused: no warning is
// repeated within a minute.
func TestLog_NoWarningIsRepeatedWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := withLogs(t, nil)
		propose(t, c.Leader(), "a")
		for range 15 {
			c.Isolate("n2")
			time.Sleep(7 * time.Second)
			c.Heal()
			time.Sleep(5 * time.Second)
		}
		c.Partition([]raft.NodeID{"n1"}, []raft.NodeID{"n2"}, []raft.NodeID{"n3"})
		time.Sleep(3 * time.Minute)
		c.Heal()
		c.Crash("n3")
		c.Wipe("n3")
		c.Start("n3")
		time.Sleep(3 * time.Minute)

		last, verdicts := map[string]time.Time{}, map[string]bool{}
		for _, line := range strings.Split(log.String(), "\n") {
			found := warning.FindStringSubmatch(line)
			if found == nil {
				continue
			}
			at, err := time.Parse("2006-01-02T15:04:05.000Z0700", found[1])
			require.NoError(t, err)
			about := strings.Join(found[2:], " ")
			if before, repeated := last[about]; repeated {
				assert.GreaterOrEqual(t, at.Sub(before), time.Minute, about)
			}
			last[about], verdicts[found[3]] = at, true
		}
		for _, verdict := range []string{`"not connected"`, `"no quorum"`, `"emptied disk"`} {
			assert.True(t, verdicts[verdict], "%s in %v", verdict, verdicts)
		}
	})
}
