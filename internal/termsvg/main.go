// Command termsvg draws a terminal. It reads the output that a program has written to a terminal, and writes the final
// screen as an SVG picture. It knows only the control sequences that the demo uses.
package main

import (
	"fmt"
	"html"
	"io"
	"log"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	columnsMax  = 160 // longer rows are cut
	columnWidth = 7.5 // in pixels, for a font of 12.5 pixels
	rowHeight   = 18  // in pixels
	margin      = 14  // in pixels
)

// control matches a control sequence, a line feed, or a carriage return.
var control = regexp.MustCompile("\x1b\\[([0-9;?]*)([A-Za-z])|\r?\n|\r")

// screen is a terminal of unlimited size. It holds the rows of the terminal, and the row of the cursor. The demo writes whole
// rows, so the column does not matter.
type screen struct {
	rows []row
	at   int
	fill string // the present color
}

// row is a row of one color. The demo colors whole rows.
type row struct{ text, fill string }

// fills are the colors of a picture, by the arguments of the control sequence for colors.
var fills = map[string]string{"": "", "31": "#f2777a", "32": "#99cc99", "33": "#ffcc66", "90": "#8a8f98"}

// write shows a text without control sequences.
func (s *screen) write(text string) {
	for len(s.rows) <= s.at {
		s.rows = append(s.rows, row{})
	}
	s.rows[s.at].text += text
	s.rows[s.at].fill = s.fill
}

// obey carries out a control sequence.
func (s *screen) obey(argument, command string) error {
	switch command {
	case "A": // up
		n, err := strconv.Atoi(argument)
		if err != nil {
			return fmt.Errorf("cursor up by %q", argument)
		}
		s.at = max(0, s.at-n)
	case "H": // to the upper left corner
		s.at = 0
	case "J": // erase everything below or, with 2, everything
		if argument == "2" {
			s.rows = nil
		}
		s.rows = s.rows[:min(s.at, len(s.rows))]
	case "m": // a color
		fill, known := fills[argument]
		if !known {
			return fmt.Errorf("unknown color %q", argument)
		}
		s.fill = fill
	default:
		return fmt.Errorf("unknown control sequence: ESC [ %s %s", argument, command)
	}
	return nil
}

// show returns the rows that a terminal shows after it has received the text, without empty rows at either end.
func show(text string) ([]row, error) {
	var s screen
	for text != "" {
		at := control.FindStringSubmatchIndex(text)
		if at == nil {
			s.write(text)
			break
		}
		if at[0] > 0 {
			s.write(text[:at[0]])
		}
		switch sequence := text[at[0]:at[1]]; {
		case at[4] >= 0:
			if err := s.obey(text[at[2]:at[3]], text[at[4]:at[5]]); err != nil {
				return nil, err
			}
		case sequence != "\r": // after a carriage return, the demo writes the whole row again
			s.at++
		}
		text = text[at[1]:]
	}
	rows := s.rows
	for len(rows) > 0 && strings.TrimSpace(rows[0].text) == "" {
		rows = rows[1:]
	}
	for len(rows) > 0 && strings.TrimSpace(rows[len(rows)-1].text) == "" {
		rows = rows[:len(rows)-1]
	}
	return slices.Clone(rows), nil
}

// picture writes the rows as an SVG picture.
func picture(w io.Writer, title string, rows []row) error {
	columns := 0
	for i, row := range rows {
		if text := []rune(row.text); len(text) > columnsMax {
			rows[i].text = string(text[:columnsMax])
		}
		columns = max(columns, utf8.RuneCountInString(rows[i].text))
	}
	width, height := float64(columns)*columnWidth+2*margin, len(rows)*rowHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d" role="img">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="#16181d"/>`+"\n")
	fmt.Fprintf(&b, `<g font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="12.5" fill="#d7dae0">`+"\n")
	for i, row := range rows {
		text, fill := strings.TrimRight(row.text, " "), ""
		if text == "" {
			continue
		}
		if row.fill != "" {
			fill = ` fill="` + row.fill + `"`
		}
		// textLength aligns the columns in any font. The row contains no ordinary spaces, because some viewers drop them.
		fmt.Fprintf(&b, `<text x="%d" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs"%s>%s</text>`+"\n",
			margin, margin+i*rowHeight+13, float64(utf8.RuneCountInString(text))*columnWidth, fill, html.EscapeString(strings.ReplaceAll(text, " ", "\u00a0")))
	}
	b.WriteString("</g>\n</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func main() {
	log.SetFlags(0)
	written, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	rows, err := show(string(written))
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("nothing was written to the terminal")
	}
	if err == nil {
		err = picture(os.Stdout, strings.Join(os.Args[1:], " "), rows)
	}
	if err != nil {
		log.Fatal(err)
	}
}
