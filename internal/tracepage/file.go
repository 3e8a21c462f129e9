package tracepage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/node"
)

// fileBytesMax bounds the size of a file, because the file is read into memory.
const fileBytesMax = 256 << 20

// ElectionLab is the command line of the election lab in a checkout.
const ElectionLab = "go run -C elections ./cmd/electionlab"

// known ends the text of every FormatError.
var known = fmt.Sprintf("there are traces of version %d and trace events of version %d", fuzzy.TraceFormat, node.TraceFormat)

// FormatError reports why a file cannot be shown as a trace or as trace events.
type FormatError struct {
	File    string
	Line    int // line number from 1; 0: the whole file
	Problem string
}

func (e *FormatError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s; %s", e.File, e.Problem, known)
	}
	return fmt.Sprintf("%s: line %d: %s; %s", e.File, e.Line, e.Problem, known)
}

// File holds a trace, or the trace events of a node.
type File struct {
	Name, Text string
}

// Read reads a file. It returns an error if the file is incomplete or of an unknown version.
func Read(path string) (*File, error) {
	source, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	text, err := io.ReadAll(io.LimitReader(source, fileBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(text) > fileBytesMax {
		return nil, &FormatError{path, 0, fmt.Sprintf("it is larger than %d MiB", fileBytesMax>>20)}
	}
	f := &File{Name: path, Text: string(text)}
	return f, f.check()
}

// record is a line of a trace, or of trace events. Trace events have only some of the fields. The profile is not decoded.
type record struct {
	fuzzy.Record
	Profile json.RawMessage `json:"profile"`
}

func (f *File) parse(number int, text string) (*record, error) {
	r := &record{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		if run := electionIn(text); run != "" {
			return nil, &FormatError{f.Name, number, fmt.Sprintf("it is a trace of the election lab, which %s trace %s prints", ElectionLab, run)}
		}
		if number > 1 && strings.HasSuffix(f.Text, text) {
			return nil, &FormatError{f.Name, number, "it breaks off: the file was cut short"}
		}
		return nil, &FormatError{f.Name, number, "it is not a JSON object of this kind: " + unlike(err)}
	}
	return r, nil
}

// electionIn returns the arguments with which the election lab prints this trace. It does so if the line begins a trace of
// the lab. Unlike the seeds in other traces, the seeds of the lab are numbers.
func electionIn(text string) string {
	var first struct {
		Kind, Text string
		N, Seed    uint64
	}
	if err := json.Unmarshal([]byte(text), &first); err != nil || first.Kind != "begin" || first.N == 0 {
		return ""
	}
	return fmt.Sprintf("%s %d %d", first.Text, first.N, first.Seed)
}

// unlike describes how a line differs from a record.
func unlike(err error) string {
	var other *json.UnmarshalTypeError
	if errors.As(err, &other) && other.Field != "" {
		return fmt.Sprintf("its %s is a %s", other.Field[strings.LastIndexByte(other.Field, '.')+1:], other.Value)
	}
	return err.Error()
}

func (f *File) check() error {
	var first, last *record
	number := 0
	for text := range f.lines() {
		number++
		r, err := f.parse(number, text)
		if err != nil {
			return err
		}
		switch {
		case first == nil:
			first = r
			err = f.checkFirst(r)
		case r.Kind == "":
			err = &FormatError{f.Name, number, "it has no kind"}
		case last.Kind == "end":
			err = &FormatError{f.Name, number, "it follows the end: one file holds one trace, or the trace events of one node"}
		case first.Kind == "begin":
			err = f.checkNodes(number, first.Nodes, r)
		}
		if err != nil {
			return err
		}
		last = r
	}
	switch {
	case last == nil:
		return &FormatError{f.Name, 0, "it is empty"}
	case last.Kind != "end":
		return &FormatError{f.Name, number, `the last line is not of kind "end": the file was cut short`}
	}
	return nil
}

// checkFirst checks that the first line begins a trace or trace events of a known version.
func (f *File) checkFirst(first *record) error {
	version, what := 0, "a trace"
	switch first.Kind {
	case "begin":
		version = fuzzy.TraceFormat
	case "notes":
		version, what = node.TraceFormat, "trace events"
	default:
		return &FormatError{f.Name, 1, fmt.Sprintf("it is of kind %q: this is neither a trace nor trace events", first.Kind)}
	}
	if first.Format != version {
		return &FormatError{f.Name, 1, fmt.Sprintf("%s of version %d", what, first.Format)}
	}
	if first.Kind == "begin" && len(first.Nodes) == 0 {
		return &FormatError{f.Name, 1, "a trace that names no nodes"}
	}
	return nil
}

func (f *File) checkNodes(number int, nodes []string, r *record) error {
	for _, n := range []string{r.Node, r.To} {
		if n != "" && !slices.Contains(nodes, n) {
			return &FormatError{f.Name, number, fmt.Sprintf("there is no node %q", n)}
		}
	}
	return nil
}

// lines yields the lines that are not empty.
func (f *File) lines() func(func(string) bool) {
	return func(yield func(string) bool) {
		for text := range strings.Lines(f.Text) {
			if text = strings.TrimSpace(text); text != "" && !yield(text) {
				return
			}
		}
	}
}

// Print writes a file as readable text. If all is true, it shows each message and each step, too.
func (f *File) Print(w io.Writer, all bool) error {
	show, n, number := fuzzy.Text(w, all), "", 0
	for text := range f.lines() {
		number++
		r, err := f.parse(number, text)
		if err != nil {
			return err
		}
		if r.Kind == "notes" {
			n = r.Node
			show = func(r *fuzzy.Record) { printNote(w, n, r) }
			continue
		}
		show(&r.Record)
	}
	return nil
}

func printNote(w io.Writer, n string, r *fuzzy.Record) {
	if r.Kind == "end" && r.Text == "" {
		return
	}
	text := fmt.Sprintf("term %d  %s", r.Term, r.Text)
	if r.Kind == "end" {
		text = "the node ended: " + r.Text
	}
	at := time.Unix(0, int64(r.Time)).UTC().Format("2006-01-02 15:04:05.000000")
	_, _ = fmt.Fprintf(w, "%s %-2s %s\n", at, n, text) // the writer returns its error from Flush
}
