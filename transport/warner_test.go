package transport

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
)

// A link that fails all the time gives a line a minute, and does not hide that another link fails, too.
func TestWarner_OneLineAMinuteForEachMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWarner(hclog.New(&hclog.LoggerOptions{Output: &log, DisableTime: true}))
		for range 3 * 60 {
			w.warnOf("n2", "peer is not connected")
			w.warnOf("n3", "peer is not connected")
			w.warn("accept failed")
			time.Sleep(time.Second)
		}
		for _, of := range []string{"peer=n2", "peer=n3", "accept failed"} {
			assert.Equal(t, 3, strings.Count(log.String(), of), of)
		}
		assert.Contains(t, log.String(), "left_out=59")
	})
}
