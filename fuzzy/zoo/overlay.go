package zoo

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// These environment variables control a build of the zoo.
const (
	mutantVariable  = "COXSWAIN_MUTANT"     // id of the active mutant
	assertsVariable = "COXSWAIN_ASSERTIONS" // "off" disables the library's assertions
)

// switchFile is added to each patched package, and selects the mutant.
const switchFile = "zoo_switch.go"

const switchSource = `package %s

import "os"

// zooMutant is the id of the active mutant.
var zooMutant = os.Getenv("COXSWAIN_MUTANT")

var zooAssertionsOff = os.Getenv("COXSWAIN_ASSERTIONS") == "off"

func zooValue[T any](id string, mutant, sound T) T {
	if zooMutant == id {
		return mutant
	}
	return sound
}

var _ = zooAssertionsOff && zooValue("", false, false)
`

// assertions switches off the assertions of the core. This edit belongs to no mutant.
var assertions = Edit{"invariants.go", Value, `!holds`, `false`}

// change is an edit and the mutant that it belongs to.
type change struct {
	id string
	Edit
}

// place is an anchor with all its changes.
type place struct {
	from, to int
	changes  []change
}

// patch returns the source with all changes made. If an anchor does not occur exactly once, the error names the mutant of
// this anchor.
func patch(source string, changes []change) (string, error) {
	places, err := locate(source, changes)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	at := 0
	for _, p := range places {
		b.WriteString(source[at:p.from])
		b.WriteString(p.rewrite(source[p.from:p.to]))
		at = p.to
	}
	b.WriteString(source[at:])
	formatted, err := format.Source([]byte(b.String()))
	if err != nil {
		return "", fmt.Errorf("zoo: the patched source does not parse: %w", err)
	}
	return string(formatted), nil
}

// locate finds the anchors, in the order of the source.
func locate(source string, changes []change) ([]*place, error) {
	found := map[string]*place{}
	var places []*place
	var errs []error
	for _, c := range changes {
		if n := strings.Count(source, c.Anchor); n != 1 || c.Anchor == "" {
			errs = append(errs, fmt.Errorf("zoo: mutant %s: its anchor is in %s %d times, not once: %s", c.id, c.File, n, c.Anchor))
			continue
		}
		p := found[c.Anchor]
		if p == nil {
			from := strings.Index(source, c.Anchor)
			p = &place{from: from, to: from + len(c.Anchor)}
			found[c.Anchor] = p
			places = append(places, p)
		}
		p.changes = append(p.changes, c)
	}
	slices.SortFunc(places, func(a, b *place) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(places); i++ {
		if a, b := places[i-1], places[i]; b.from < a.to {
			errs = append(errs, fmt.Errorf("zoo: the anchors of mutants %s and %s overlap in %s", a.changes[0].id, b.changes[0].id, a.changes[0].File))
		}
	}
	return places, errors.Join(errs...)
}

// rewrite nests all changes of one place around the anchor. At most one of these changes is active.
func (p *place) rewrite(anchor string) string {
	text := anchor
	for _, c := range p.changes {
		switch {
		case c.Kind == Value && c.id == "":
			text = fmt.Sprintf("!zooAssertionsOff && %s", text)
		case c.Kind == Value:
			text = fmt.Sprintf("zooValue(%q, %s, %s)", c.id, c.Code, text)
		case c.Kind == Instead:
			text = fmt.Sprintf("if zooMutant == %q {\n%s\n} else {\n%s\n}", c.id, c.Code, text)
		}
	}
	for _, c := range p.changes {
		if c.Kind == Before {
			text = fmt.Sprintf("if zooMutant == %q {\n%s\n}\n%s", c.id, c.Code, text)
		}
	}
	return text
}

// overlay writes the patched sources below dir. It also writes a file for the -overlay flag of the go command, and returns
// the name of this file.
func overlay(root, dir string, mutants []Mutant) (string, error) {
	replace := map[string]string{}
	write := func(name, text string) error {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		replace[filepath.Join(root, name)] = file
		return os.WriteFile(file, []byte(text), 0o600)
	}
	files := map[string][]change{assertions.File: {{"", assertions}}}
	for _, m := range mutants {
		for _, e := range m.Edits {
			files[e.File] = append(files[e.File], change{m.ID, e})
		}
	}
	var errs []error
	for name, changes := range files {
		source, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return "", fmt.Errorf("zoo: mutant %s: %w", changes[0].id, err)
		}
		text, err := patch(string(source), changes)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		pkg, _, _ := strings.Cut(strings.SplitN("\n"+string(source), "\npackage ", 2)[1], "\n")
		errs = append(errs, write(name, text),
			write(filepath.Join(filepath.Dir(name), switchFile), fmt.Sprintf(switchSource, pkg)))
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	list, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, list, 0o600)
}
