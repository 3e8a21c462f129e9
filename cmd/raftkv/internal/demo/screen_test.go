package demo

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

func newScreen(live bool) (*screen, *bytes.Buffer) {
	var out bytes.Buffer
	return &screen{out: &out, live: live, width: func() int { return 5 }}, &out
}

func TestScreen_KeepsWhatIsSaidAboveTheLiveLines(t *testing.T) {
	s, out := newScreen(true)
	s.show([]string{"a", "too long"})
	assert.Equal(t, "a\r\ntoo l\r\n", out.String(), "a line takes one line")
	out.Reset()
	s.say("an event")
	assert.Equal(t, "\x1b[2A\x1b[Jan event\r\na\r\ntoo l\r\n", out.String())
	out.Reset()
	s.show([]string{"b"})
	assert.Equal(t, "\x1b[2A\x1b[Jb\r\n", out.String())
	out.Reset()
	s.leave()
	s.say("the end")
	assert.Equal(t, "the end\n", out.String())
}

func TestScreen_WithoutATerminalPrintsPlainLines(t *testing.T) {
	s, out := newScreen(false)
	s.show([]string{"a", "b"})
	s.say("an event")
	s.show([]string{"c"})
	assert.Equal(t, "a\nb\nan event\nc\n", out.String())
}

func TestGrouped_SeparatesThousands(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 18204: "18,204", 1234567: "1,234,567"} {
		assert.Equal(t, want, grouped(n))
	}
}
