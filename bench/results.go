package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

// record is one line of the results: a run, or the conditions of the runs that follow.
type record struct {
	Conditions *conditions `json:"conditions,omitempty"`
	Run        *result     `json:"run,omitempty"`
}

// conditions are the conditions of a session.
type conditions struct {
	Time    time.Time         `json:"time"`
	Go      string            `json:"go"`
	Kernel  string            `json:"kernel"`
	CPU     string            `json:"cpu"`
	Cores   int               `json:"cores"`
	Memory  int               `json:"memory_mib"`
	Commit  string            `json:"commit"`
	Modules map[string]string `json:"modules"`
	Warmup  time.Duration     `json:"warmup"`
	Measure time.Duration     `json:"measure"`
	Smoke   bool              `json:"smoke,omitempty"` // only to show that everything runs
}

// result is a finished run.
type result struct {
	Time       time.Time     `json:"time"`
	Cell       cell          `json:"cell"`
	Contestant string        `json:"contestant"`
	Round      int           `json:"round"`
	Took       time.Duration `json:"took,omitempty"` // in all
	Shares     disturbance   `json:"shares"`         // of a core
	Disturbed  bool          `json:"disturbed,omitempty"`
	Failure    string        `json:"failure,omitempty"`       // of the run, which does not count then
	Operation  string        `json:"first_failure,omitempty"` // of an operation
	Figures    figures       `json:"figures,omitempty"`
}

// counts reports whether the run has a valid result, so that it need not be repeated.
func (r result) counts() bool { return r.Failure == "" && !r.Disturbed }

// readResults reads a file of results. If the file does not exist, there are no results.
func readResults(path string) (records []record, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		records = append(records, r)
	}
	return records, lines.Err()
}

// appendRecord writes one line at the end of a run, so that a later session does not measure the run again.
func appendRecord(path string, r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

func conditionsNow(commit string) conditions {
	c := conditions{
		Time: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), Cores: runtime.NumCPU(), Commit: commit,
		CPU: firstValue("/proc/cpuinfo", "model name"), Modules: map[string]string{},
	}
	var kib int
	_, _ = fmt.Sscan(firstValue("/proc/meminfo", "MemTotal"), &kib) // 0 if there is none
	c.Memory = kib >> 10
	var u syscall.Utsname
	if syscall.Uname(&u) == nil {
		for _, b := range u.Release {
			if b == 0 {
				break
			}
			c.Kernel += string(rune(b))
		}
	}
	if info, known := debug.ReadBuildInfo(); known {
		for _, m := range info.Deps {
			if measured(m.Path) {
				c.Modules[m.Path] = m.Version
			}
		}
	}
	return c
}

// measured reports whether a contestant is built from the module.
func measured(module string) bool {
	return slices.ContainsFunc(contestants, func(c contestant) bool { return slices.Contains(c.modules, module) })
}

// differs returns the reason why results under these conditions must not be mixed with the earlier ones, or "" if they may be
// mixed.
func (c conditions) differs(earlier conditions) string {
	switch {
	case c.Commit != earlier.Commit:
		return fmt.Sprintf("of commit %q, and this is %q", earlier.Commit, c.Commit)
	case c.Warmup != earlier.Warmup || c.Measure != earlier.Measure || c.Smoke != earlier.Smoke:
		return fmt.Sprintf("of %v after %v of warm-up, smoke %v", earlier.Measure, earlier.Warmup, earlier.Smoke)
	case c.CPU != earlier.CPU || c.Cores != earlier.Cores || c.Kernel != earlier.Kernel:
		return "of another machine"
	}
	return ""
}

// firstValue returns the text after the colon in the first line with that name.
func firstValue(path, name string) string {
	text, _ := os.ReadFile(path) // "" if there is none
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
