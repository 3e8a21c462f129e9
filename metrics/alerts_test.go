package metrics_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/transport"
)

const alertsFile = "../docs/alerts.yaml"

var (
	alertParts = regexp.MustCompile(`(?s)^(\w+)\n +expr: (.+?)\n.*labels: \{severity: (?:page|ticket)\}\n +annotations:\n +summary: ".+"\n +runbook: (\S+)`)
	metricName = regexp.MustCompile(`raft_[a-z_]+`)
)

// The rules are YAML. Each uses metrics that exist, and names an entry of the runbook.
func TestAlerts_NameMetricsAndEntriesThatExist(t *testing.T) {
	text, err := os.ReadFile(alertsFile)
	require.NoError(t, err)
	require.YAMLEq(t, string(text), string(text), "it is YAML")
	shown := gather(t, node.Metrics{}, transport.Stats{})
	entries := map[string]bool{}
	for _, v := range node.Verdicts() {
		entries[v.Runbook()] = true
	}
	rules := strings.Split(string(text), "- alert: ")[1:]
	assert.Greater(t, len(rules), 10)
	for _, rule := range rules {
		parts := alertParts.FindStringSubmatch(rule)
		if !assert.NotNil(t, parts, rule) {
			continue
		}
		for _, name := range metricName.FindAllString(parts[2], -1) {
			assert.Contains(t, shown, strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count"), parts[1])
		}
		assert.True(t, entries[parts[3]], "%s: %s", parts[1], parts[3])
	}
}

func TestAlerts_PromtoolAcceptsThem(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed here: the rules were only read as YAML")
	}
	out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", alertsFile).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
