package processes

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRun_SnapshotsAreTakenSentAndReceivedWhileMembersAreKilled(t *testing.T) {
	beside(t)
	r, err := run(t, Options{
		Seed: 1, Duration: storm, Nodes: 3, Faults: []Kind{Away, KillTaking, KillSending, KillReceiving, Drop}, PlainDisks: true,
	})
	require.NoError(t, err)
	s := r.Snapshots
	assert.Positive(t, s.Taken)
	assert.Positive(t, s.Received)
	assert.Positive(t, s.Restored)
	assert.Positive(t, s.LogBytes)
	assert.Positive(t, r.Faults[Away])
	assert.Equal(t, 3, r.Checks.Members)
}

func TestReport_SaysWhatItProvedNothingAbout(t *testing.T) {
	log := `a snapshot was taken: entry=4@1
		a problem has begun: verdict="snapshot fails" member=n1
		a snapshot was sent: entry=4@1
		a snapshot was taken: entry=9@1
		the FSM was restored: entry=4@1`
	r := Report{
		Verdict: "clean", Faults: map[Kind]int{Kill: 2, KillTaking: 1}, Missed: map[Kind]int{KillTaking: 1, KillSending: 2},
		Snapshots: Snapshots{LogBytes: 1 << 20, Written: 4 << 20},
	}
	require.NoError(t, r.Snapshots.countLines(bufio.NewScanner(strings.NewReader(log))))
	for _, text := range []string{r.String(), r.Markdown()} {
		assert.Contains(t, text, "2 taken (1 failed), 1 sent (0 times resumed), 0 received (0 refused), 1 restored")
		assert.Contains(t, text, "the longest log had 1.0 MiB, and 4.0 MiB were written")
		assert.Regexp(t, "did not exercise.* resuming, receiving, kill-sending", text)
	}
	r.Snapshots.Resumed, r.Snapshots.Received, r.Missed = 1, 1, nil
	assert.NotContains(t, r.String(), "proved nothing")
}
