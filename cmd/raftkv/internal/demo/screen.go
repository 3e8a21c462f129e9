package demo

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// screen prints permanent lines above live lines, which are replaced again and again. Without a terminal, live lines are
// printed like others. Its methods may be called from any goroutine.
type screen struct {
	out   io.Writer
	live  bool       // out is a terminal in raw mode
	width func() int // of the terminal

	mu    sync.Mutex
	lines []string // the live lines on the screen
}

// say prints permanent lines.
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

// leave ends the use of the terminal's raw mode: from now on, lines are plain.
func (s *screen) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.lines = false, nil
}

func (s *screen) draw() {
	width := s.width()
	for _, line := range s.lines {
		if runes := []rune(line); len(runes) > width { // the terminal would wrap a longer line
			line = string(runes[:width])
		}
		s.print(line)
	}
}

// erase removes the live lines from a terminal.
func (s *screen) erase() {
	if n := len(s.lines); n > 0 && s.live {
		_, _ = fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", n) // if the terminal is gone, nobody can be told
	}
	if !s.live {
		s.lines = nil
	}
}

func (s *screen) print(line string) {
	end := "\n"
	if s.live {
		end = "\r\n" // raw mode does not add the carriage return
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
