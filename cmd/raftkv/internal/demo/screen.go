package demo

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// screen prints lines that stay, above lines that are replaced. Without a terminal, the latter are
// only printed when asked for. Its methods may be called from any goroutine.
type screen struct {
	out   io.Writer
	live  bool       // out is a terminal in raw mode
	width func() int // of the terminal

	mu    sync.Mutex
	lines []string // on the screen now, to be replaced
}

// say prints lines that stay.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	for _, line := range strings.Split(fmt.Sprintf(format, args...), "\n") {
		s.print(line)
	}
	s.draw()
}

// show replaces the live lines.
func (s *screen) show(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.lines = lines
	s.draw()
}

// leave ends the live part: from now on lines are plain ones.
func (s *screen) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.lines = false, nil
}

func (s *screen) draw() {
	width := s.width()
	for _, line := range s.lines {
		if runes := []rune(line); len(runes) > width { // a longer line would take two
			line = string(runes[:width])
		}
		s.print(line)
	}
}

// erase removes the live lines, if there is a way to.
func (s *screen) erase() {
	if n := len(s.lines); n > 0 && s.live {
		_, _ = fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", n) // nobody to tell if the terminal has gone
	}
	if !s.live {
		s.lines = nil
	}
}

func (s *screen) print(line string) {
	end := "\n"
	if s.live {
		end = "\r\n" // raw mode adds nothing
	}
	_, _ = io.WriteString(s.out, line+end) // as above
}

// grouped writes 18204 as "18,204".
func grouped(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
