package screen

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func newScreen(live bool) (*screen, *bytes.Buffer) {
	var out bytes.Buffer
	return &screen{out: &out, live: live, size: func() size { return size{8, 4} }}, &out
}

// lines are live lines without colors.
func lines(texts ...string) (rows []row) {
	for _, text := range texts {
		rows = append(rows, row{text: text})
	}
	return rows
}

func TestScreen_KeepsWhatIsSaidAboveTheLiveLines(t *testing.T) {
	s, out := newScreen(true)
	s.show(lines("a", "too  long by far"))
	assert.Equal(t, "a\r\ntoo\r\n", out.String(), "a line takes one row")
	out.Reset()
	s.say("an event")
	assert.Equal(t, "\x1b[2A\x1b[Jan event\r\na\r\ntoo\r\n", out.String())
	out.Reset()
	s.show(lines("1", "2", "3", "4", "5"))
	assert.Equal(t, "\x1b[2A\x1b[J3\r\n4\r\n5\r\n", out.String(), "no more than there are rows")
	out.Reset()
	s.show(lines("b"))
	assert.Equal(t, "\x1b[3A\x1b[Jb\r\n", out.String())
	out.Reset()
	s.leave()
	s.say("the end")
	assert.Equal(t, "the end\n", out.String())
}

// Some terminals wrap the rows that have become too long. Others cut these rows.
func TestScreen_ANewSizeDrawsEverythingAnew(t *testing.T) {
	s, out := newScreen(true)
	now := size{20, 5}
	s.size = func() size { return now }
	s.show(lines("live"))
	s.say("one two three")
	s.say("four")
	for _, row := range []struct {
		now   size
		act   func()
		shows string
	}{
		{size{10, 5}, func() { s.show(lines("live")) }, "one two\r\nthree\r\nfour\r\nlive\r\n"},
		{size{10, 4}, func() { s.show(lines("live")) }, "three\r\nfour\r\nlive\r\n"},
		{size{40, 4}, func() { s.say("five") }, "four\r\nfive\r\nlive\r\n"},
		{size{40, 1}, func() { s.say("six") }, "live\r\n"},
	} {
		now = row.now
		out.Reset()
		row.act()
		assert.Equal(t, "\x1b[H\x1b[2J"+row.shows, out.String(), row.now)
	}
}

func TestScreen_BreaksLinesBetweenWords(t *testing.T) {
	for line, want := range map[string][]string{
		"one two three":        {"one two", "three"},
		"onetwothree four":     {"onetwoth", "ree four"},
		"exactly8 9":           {"exactly8", "9"},
		"a      b      c":      {"a      b", "c"},
		"  raftkv get key":     {"  raftkv get key"}, // one line, to copy
		"":                     {""},
		"n1 killed → n2 leads": {"n1", "killed →", "n2 leads"},
	} {
		assert.Equal(t, want, wrap(line, 8), line)
	}
	for line, want := range map[string]string{
		"n1  leader  pid 7": "n1", "n1  lead": "n1  lead", "n1  lead  p": "n1  lead", "onewordonly": "onewordo", "n1  down": "n1  down", "one two ": "one two ", "one twos ": "one twos",
	} {
		assert.Equal(t, want, cut(line, 8), line)
	}
}

func TestScreen_ColorsWholeRowsAndOnlyWhereThereAreColors(t *testing.T) {
	s, out := newScreen(true)
	s.show([]row{{"n1  leader  pid 7", green}, {"n2  down", red}})
	assert.Equal(t, "\x1b[32mn1\x1b[m\r\n\x1b[31mn2  down\x1b[m\r\n", out.String(), "the sequences take no columns")
	s, out = newScreen(true)
	s.dull = true
	s.show([]row{{"n2  down", red}})
	assert.Equal(t, "n2  down\r\n", out.String())
	s, out = newScreen(false)
	s.show([]row{{"n2  down", red}})
	assert.Equal(t, "n2  down\n", out.String())
}

func TestKeys_AreAllShownAtAnyWidth(t *testing.T) {
	for _, width := range []int{20, 60, 100, 200} {
		rows := pack(keysOf, width)
		for _, row := range rows {
			assert.LessOrEqual(t, len(row), max(width, 21))
		}
		assert.Equal(t, strings.Join(keysOf, "   "), strings.Join(rows, "   "))
	}
	assert.Len(t, pack(keysOf, 60), 3)
	for _, row := range explained {
		assert.LessOrEqual(t, len(row), 60)
	}
}

// An arrow sends Escape, [ and A: no member is added.
func TestKeyboard_DropsWhatIsNoSingleKey(t *testing.T) {
	in, typed := io.Pipe()
	k := keyboard{keys: make(chan byte)}
	go k.read(t.Context(), in)
	go func() {
		for _, keys := range []string{"\x1b[A", "k", "\x1b", "zq"} {
			_, _ = typed.Write([]byte(keys))
		}
	}()
	for _, want := range "kzq" {
		assert.Equal(t, string(want), string(<-k.keys))
	}
	assert.NoError(t, typed.Close())
}

func TestScreen_WithoutATerminalPrintsPlainLines(t *testing.T) {
	s, out := newScreen(false)
	s.show(lines("a", "b"))
	s.say("an event")
	s.show(lines("c"))
	assert.Equal(t, "a\nb\nan event\nc\n", out.String())
}

func TestGrouped_SeparatesThousands(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 18204: "18,204", 1234567: "1,234,567"} {
		assert.Equal(t, want, grouped(n))
	}
}
