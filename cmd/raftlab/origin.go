package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/coxswain/raft/internal/resume"
)

// origin returns the commit, the machine and the day of a report.
func origin() string {
	return fmt.Sprintf("commit %s, %s, %s", commit(), machine(), time.Now().UTC().Format(time.DateOnly))
}

// build returns what decides how a seed runs: the commit, on each system the same, or the hash of this program, if it was built
// from no commit or from a changed one.
func build() (string, error) {
	if c := commit(); c != "unknown" && !strings.HasSuffix(c, " with changes") {
		return "commit " + c, nil
	}
	hash, err := resume.BuildHash()
	return "build " + hash, err
}

// commit returns the commit that the program was built from, if the build has recorded it.
func commit() string {
	info, _ := debug.ReadBuildInfo()
	revision, changed := "unknown", ""
	if info != nil {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value[:min(len(s.Value), 12)]
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = " with changes"
			}
		}
	}
	return revision + changed
}

func machine() string {
	return fmt.Sprintf("%d cores of %s, %s/%s, %s", runtime.NumCPU(), processor(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// processor returns the processor's name, if the system provides it.
func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if key, name, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(name)
		}
	}
	return "an unknown processor"
}
