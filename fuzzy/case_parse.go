package fuzzy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// CheckRules returns an error for an unknown name. The known names are the invariants, the classes of other failures (a
// core's assertions, the simulation itself), and the additional word other.
func CheckRules(other string, names ...string) error {
	var known []string
	for _, r := range Rules() {
		known = append(known, r.Name)
	}
	known = append(known, "codec", "simulation", "invariant", "panic")
	for _, name := range names {
		if !slices.Contains(known, name) && (name != other || other == "") {
			return fmt.Errorf("unknown rule %q; there are %s", name, strings.TrimSpace(other+" "+strings.Join(known, " ")))
		}
	}
	return nil
}

// caseBytesMax bounds a case file.
const caseBytesMax = 1 << 20

// LoadCase reads a case file.
func LoadCase(path string) (Case, error) {
	file, err := os.Open(path)
	if err != nil {
		return Case{}, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return ParseCase(path, file)
}

// ParseCase reads a case. Its errors name the file and the line, and say what the line may contain.
func ParseCase(name string, r io.Reader) (Case, error) {
	p := caseParser{c: Case{Profile: plain(), Injections: map[FaultKind]ordinals{}, Changes: ordinals{all: true}}, seen: map[string]bool{}}
	lines := bufio.NewScanner(io.LimitReader(r, caseBytesMax))
	for lines.Scan() {
		p.line++
		if err := p.take(lines.Text()); err != nil {
			return Case{}, fmt.Errorf("%s:%d: %w", name, p.line, err)
		}
	}
	if err := lines.Err(); err != nil {
		return Case{}, fmt.Errorf("%s: %w", name, err)
	}
	if err := p.complete(); err != nil {
		return Case{}, fmt.Errorf("%s: %w", name, err)
	}
	return p.c, nil
}

type caseParser struct {
	c     Case
	line  int
	seen  map[string]bool
	story bool // the following lines are the story
	ended bool
}

// take reads one line.
func (p *caseParser) take(text string) error {
	word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case p.line == 1:
		return checkFormat(text)
	case p.ended:
		return fmt.Errorf("%q comes after the end", text)
	case text == "end":
		p.ended = true
		return nil
	case p.story:
		p.c.Story = append(p.c.Story, strings.TrimPrefix(text, "  "))
		return nil
	case text == "story":
		p.story = true
		return nil
	case word == "":
		return nil
	case strings.HasPrefix(word, "#"):
		p.c.About = append(p.c.About, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "#")))
		return nil
	case word == "fault":
		return p.fault(rest)
	case p.seen[word]:
		return fmt.Errorf("%s appears twice", word)
	}
	p.seen[word] = true
	return p.value(word, rest)
}

func checkFormat(text string) error {
	version, ok := strings.CutPrefix(text, "raftlab case ")
	if !ok {
		return fmt.Errorf("%q: a case file begins with \"raftlab case %d\"", text, CaseFormat)
	}
	if version != strconv.Itoa(CaseFormat) {
		return fmt.Errorf("the case is of format %s, and this program reads format %d", version, CaseFormat)
	}
	return nil
}

// value reads a line with a name and a value.
func (p *caseParser) value(name, text string) (err error) {
	if text == "" && name != "story" {
		return fmt.Errorf("%s has no value", name)
	}
	switch name {
	case "from":
		p.c.From = text
	case "mutant":
		p.c.Mutant = text
	case "expect":
		p.c.Rule = text
		return CheckRules(Clean, text)
	case "ignore":
		p.c.Ignored = strings.Fields(text)
		return CheckRules("", p.c.Ignored...)
	case "number":
		if p.c.Number, err = strconv.ParseUint(text, 16, 64); err != nil {
			return fmt.Errorf("number %q: it takes a hexadecimal number of 64 bits", text)
		}
	case "requests":
		if p.c.Requests, err = parseOrdinals(text); err != nil {
			return fmt.Errorf("requests %w", err)
		}
	case "changes":
		if p.c.Changes, err = parseOrdinals(text); err != nil {
			return fmt.Errorf("changes %w", err)
		}
	default:
		s, known := settingNamed(name)
		if !known {
			return fmt.Errorf("unknown setting %q; there are %s", name, strings.Join(caseWords(), ", "))
		}
		return s.set(&p.c.Profile, text)
	}
	return nil
}

// caseWords returns the words with which a line may begin.
func caseWords() []string {
	words := []string{"from", "mutant", "expect", "ignore", "number", "requests", "changes", "fault", "story", "end"}
	for _, s := range settings {
		words = append(words, s.name)
	}
	return words
}

// fault reads a fault such as "power cut every 1s for 20ms injections 1 3".
func (p *caseParser) fault(text string) error {
	name, rest, _ := strings.Cut(text, " every ")
	every, rest, _ := strings.Cut(rest, " for ")
	length, injections, whole := strings.Cut(rest, " injections ")
	if !whole {
		return fmt.Errorf("fault %q: it takes a class and times, as in \"%v every 1s for 20ms injections 1 3\"", text, PowerCut)
	}
	kind := slices.Index(faultNames[:], name)
	if kind < 0 {
		return fmt.Errorf("unknown fault %q; there are %s", name, strings.Join(faultNames[:], ", "))
	}
	r := FaultRate{Fault: FaultKind(kind)}
	if _, twice := p.c.Injections[r.Fault]; twice {
		return fmt.Errorf("fault %s appears twice", name)
	}
	for _, row := range []struct {
		what, text string
		at         *int64
	}{{"every", every, (*int64)(&r.Every)}, {"for", length, (*int64)(&r.For)}} {
		t, err := parseTime(row.text)
		if err != nil || t < 1 || int64(t) > timeMax {
			return fmt.Errorf("fault %s: %s %q: it takes a time up to an hour", name, row.what, row.text)
		}
		*row.at = int64(t)
	}
	kept, err := parseOrdinals(injections)
	if err != nil {
		return fmt.Errorf("fault %s: injections %w", name, err)
	}
	p.c.Profile.Faults = append(p.c.Profile.Faults, r)
	p.c.Injections[r.Fault] = kept
	return nil
}

// complete checks that the lines are consistent with each other.
func (p *caseParser) complete() error {
	if !p.ended {
		return errors.New("the file is cut short: its last line must be \"end\"")
	}
	for _, name := range append([]string{"expect", "number", "requests"}, always...) {
		if !p.seen[name] {
			return fmt.Errorf("the line %q is missing", name+" …")
		}
	}
	if pr := &p.c.Profile; pr.Name == "calm" && len(pr.Faults) > 0 {
		return errors.New("profile calm has no faults")
	}
	return nil
}
