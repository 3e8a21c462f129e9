package workload

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/anishathalye/porcupine"
)

// If Config.History names a file, the workload writes the whole history to this file, one operation per line. A user can then
// examine a reported violation. The workload also writes a history that is not linearizable to a separate file, beside its
// picture.

// line is one operation in the file. Times are nanoseconds since the workload began.
type line struct {
	Key      string `json:"key"`
	Client   int    `json:"client"`
	Op       string `json:"op"`
	Value    string `json:"value,omitempty"`    // value written or read; empty: absent
	Expected string `json:"expected,omitempty"` // expected value of a swap; empty: absent
	Revision uint64 `json:"revision,omitempty"` // revision in the answer
	Failed   bool   `json:"failed,omitempty"`   // a swap whose condition did not hold
	Call     int64  `json:"call"`
	Return   int64  `json:"return,omitempty"` // 0: the outcome is unknown
}

var opNames = [...]string{opGet: "get", opPut: "put", opDelete: "delete", opSwap: "swap"}

func lineOf(key string, o porcupine.Operation) line {
	in, out := o.Input.(input), o.Output.(output)
	l := line{
		Key: key, Client: o.ClientId, Op: opNames[in.kind], Value: in.value, Expected: in.expected,
		Revision: out.revision, Failed: out.failed, Call: o.Call, Return: o.Return,
	}
	if in.kind == opGet {
		l.Value, l.Expected = out.value, ""
	}
	if out.unknown {
		l.Return = 0
	}
	return l
}

// operation is the inverse of lineOf.
func (l line) operation() porcupine.Operation {
	in := input{value: l.Value, expected: l.Expected}
	out := output{revision: l.Revision, failed: l.Failed, unknown: l.Return == 0}
	for kind, name := range opNames {
		if name == l.Op {
			in.kind = opKind(kind)
		}
	}
	if in.kind == opGet {
		in.value, out.value = "", l.Value
	}
	o := porcupine.Operation{ClientId: l.Client, Input: in, Call: l.Call, Output: out, Return: l.Return}
	if out.unknown {
		o.Return = forever
	}
	return o
}

// journal is the file with the whole history. Its methods may be called from any goroutine. A nil journal does nothing.
type journal struct {
	mu   sync.Mutex
	path string
	file *os.File
	out  *bufio.Writer
	err  error // the first error
}

// openJournal opens the journal. It returns nil if the path is empty. If the file cannot be created, close returns the error.
func openJournal(path string) *journal {
	if path == "" {
		return nil
	}
	j := &journal{path: path}
	if j.file, j.err = os.Create(path); j.err == nil {
		j.out = bufio.NewWriterSize(j.file, 1<<16)
	}
	return j
}

func (j *journal) write(r *round) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = writeLines(j.out, r)
	}
}

func writeLines(w io.Writer, r *round) error {
	encoder := json.NewEncoder(w)
	for _, o := range r.ops {
		if err := encoder.Encode(lineOf(r.key, o)); err != nil {
			return err
		}
	}
	return nil
}

// close closes the file and returns the first error of the journal.
func (j *journal) close() error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		j.err = errors.Join(j.err, j.out.Flush(), j.file.Close())
		j.file = nil
	}
	return j.err
}

// read returns the round of the key from a closed journal.
func (j *journal) read(key string) (*round, error) {
	file, err := os.Open(j.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := &round{key: key}
	for decoder := json.NewDecoder(bufio.NewReaderSize(file, 1<<16)); ; {
		var l line
		if err := decoder.Decode(&l); err == io.EOF {
			return r, nil
		} else if err != nil {
			return nil, err
		}
		if l.Key == key {
			r.ops = append(r.ops, l.operation())
		}
	}
}

// document saves the round and a picture of it. It returns a text that names their files, or the reason why they are missing.
func (r *round) document(dir string, info porcupine.LinearizationInfo) string {
	picture, err := drawPicture(dir, info)
	if err == nil {
		err = writeFile(picture[:len(picture)-len("html")]+"ndjson", r)
	}
	if err != nil {
		return err.Error()
	}
	return "see " + picture + " and the .ndjson beside it"
}

func drawPicture(dir string, info porcupine.LinearizationInfo) (string, error) {
	file, err := os.CreateTemp(dir, "violation-*.html")
	if err != nil {
		return "", err
	}
	return file.Name(), errors.Join(porcupine.Visualize(registerModel, info, file), file.Close())
}

func writeFile(path string, r *round) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(writeLines(file, r), file.Close())
}

// describe returns the text of an operation in a picture.
func describe(in input, out output) string {
	result := fmt.Sprintf("revision %d", out.revision)
	switch {
	case out.unknown:
		result = "unknown"
	case out.failed:
		result = "refused"
	}
	switch in.kind {
	case opGet:
		return fmt.Sprintf("get: %q, %s", out.value, result)
	case opPut:
		return fmt.Sprintf("put %q: %s", in.value, result)
	case opDelete:
		return "delete: " + result
	}
	return fmt.Sprintf("swap %q for %q: %s", in.expected, in.value, result)
}
