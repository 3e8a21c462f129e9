package zoo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Lab is a build of raftlab that holds every mutant.
type Lab struct{ program string }

// BuildLab makes it below dir, as Build makes the program that hunts.
func BuildLab(ctx context.Context, dir string) (*Lab, error) {
	b, err := prepare(ctx, dir)
	if err != nil {
		return nil, err
	}
	l := &Lab{filepath.Join(b.dir, "raftlab")}
	return l, b.compile(ctx, "build", l.program, "cmd/raftlab")
}

// Command returns the program, and the environment that makes it a mutant.
func (l *Lab) Command(id string) (program string, env []string) {
	return l.program, append(os.Environ(), environment(id)...)
}

func environment(id string) []string {
	return []string{mutantVariable + "=" + id, assertsVariable + "=off"}
}

// Living is the mutant that this process is, if its build holds them; "" is none.
func Living() string { return os.Getenv(mutantVariable) }

// Hunted returns the profiles that a mutant is hunted with.
func (m *Mutant) Hunted() []string {
	if len(m.Profiles) > 0 {
		return slices.Clone(m.Profiles)
	}
	return slices.Clone(defaultProfiles)
}

// Replayed is how a case ended.
type Replayed struct {
	Rule  string   `json:"rule"` // that failed; empty if none did
	Text  string   `json:"text"`
	Story []string `json:"story"`
}

// Replay runs a case file with a mutant.
func (b *Binary) Replay(ctx context.Context, id, file string) (r Replayed, err error) {
	cmd := exec.CommandContext(ctx, b.hunter, "-case", file)
	cmd.Env = append(os.Environ(), environment(id)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return r, fmt.Errorf("zoo: the hunter: %w: %s", err, firstLine(string(exit.Stderr)))
	}
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	return r, err
}
