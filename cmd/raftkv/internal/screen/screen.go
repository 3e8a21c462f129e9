package screen

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
)

// saidMax bounds the permanent lines that are kept for redrawing; no terminal shows more.
const saidMax = 200

// screen prints permanent lines above live lines. Each update replaces the live lines. Without a terminal, screen prints live
// lines like all others. Its methods may be called from any goroutine.
type screen struct {
	out  io.Writer
	live bool        // out is a terminal in raw mode
	dull bool        // live, but without colors
	size func() size // measures the terminal
	// heard, if it is not nil, is called with what is said.
	heard func(string)

	mu    sync.Mutex
	drawn size     // size of the terminal when the live lines were drawn
	lines []row    // the live lines
	shown int      // rows that the live lines take on the screen
	said  []string // the latest permanent lines, unwrapped
}

// row is a live line.
type row struct {
	text  string
	color color
}

// color is the argument of the control sequence that sets a color.
type color string

// The colors.
const (
	plain  color = ""
	red    color = "31"
	green  color = "32"
	yellow color = "33"
	dim    color = "90"
)

// size is the size of a terminal in characters.
type size struct{ width, height int }

// say prints permanent lines.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if s.heard != nil {
		s.heard(text)
	}
	said := strings.Split(text, "\n")
	if !s.live {
		for _, line := range said {
			_, _ = io.WriteString(s.out, line+"\n") // there is nowhere to report a failure
		}
		return
	}
	s.said = append(s.said, said...)
	s.said = s.said[max(0, len(s.said)-saidMax):]
	if s.erase() {
		s.print(said)
	}
	s.draw()
}

// show replaces the live lines.
func (s *screen) show(lines []row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		for _, line := range lines {
			_, _ = io.WriteString(s.out, line.text+"\n") // as above
		}
		return
	}
	s.erase()
	s.lines = lines
	s.draw()
}

// width returns the columns of the terminal.
func (s *screen) width() int {
	if !s.live {
		return math.MaxInt
	}
	return s.size().width
}

// leave ends the raw mode: from now on, lines are plain.
func (s *screen) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.lines = false, nil
}

// draw prints the live lines. Each line takes one row, and draw prints at most as many lines as the terminal has rows.
func (s *screen) draw() {
	rows := s.lines[max(0, len(s.lines)-max(1, s.drawn.height-1)):]
	for _, line := range rows {
		text := cut(line.text, s.drawn.width)
		if line.color != plain && !s.dull {
			text = "\x1b[" + string(line.color) + "m" + text + "\x1b[m"
		}
		s.row(text)
	}
	s.shown = len(rows)
}

// erase removes the live lines. If the terminal changes its size, some terminals wrap lines and others cut them. Then erase
// cannot know which rows to erase. It redraws the whole screen, including the permanent lines, and returns false.
func (s *screen) erase() bool {
	now, before := s.size(), s.drawn
	s.drawn = now
	if now == before || before == (size{}) {
		if s.shown > 0 {
			_, _ = fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.shown) // there is nowhere to report a failure
		}
		return true
	}
	_, _ = io.WriteString(s.out, "\x1b[H\x1b[2J") // as above
	var rows []string
	for _, line := range s.said {
		rows = append(rows, wrap(line, now.width)...)
	}
	for _, line := range rows[max(0, len(rows)-max(0, now.height-1-len(s.lines))):] {
		s.row(line)
	}
	return false
}

func (s *screen) print(lines []string) {
	for _, line := range lines {
		for _, row := range wrap(line, s.drawn.width) {
			s.row(row)
		}
	}
}

func (s *screen) row(text string) {
	_, _ = io.WriteString(s.out, text+"\r\n") // raw mode does not add the carriage return
}

// wrap splits a line into rows, between words if possible. A line that begins with a space is a command to copy. wrap leaves
// such a line whole, so that the terminal wraps it and the user copies one line.
func wrap(line string, width int) (rows []string) {
	if strings.HasPrefix(line, " ") {
		return []string{line}
	}
	for text := []rune(line); ; {
		if len(text) <= width {
			return append(rows, string(text))
		}
		end := width
		for end > 0 && text[end] != ' ' {
			end--
		}
		if end == 0 { // the word is longer than a row
			end = width
		}
		rows = append(rows, strings.TrimRight(string(text[:end]), " "))
		text = []rune(strings.TrimLeft(string(text[end:]), " "))
	}
}

// cut returns the columns of a line that fit into the width. There are at least two spaces between two columns.
func cut(line string, width int) string {
	text := []rune(line)
	if len(text) <= width {
		return line
	}
	for end := width; end > 0; end-- {
		if text[end] == ' ' && (text[end-1] == ' ' || end+1 < len(text) && text[end+1] == ' ') {
			return strings.TrimRight(string(text[:end]), " ")
		}
	}
	return string(text[:width])
}

// grouped writes 18204 as "18,204".
func grouped(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
