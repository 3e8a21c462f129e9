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

// Lab is a build of raftlab that contains every mutant.
type Lab struct{ program string }

// BuildLab builds a Lab below dir. It works like Build, which builds the program that hunts.
func BuildLab(ctx context.Context, dir string) (*Lab, error) {
	b, err := prepare(ctx, dir)
	if err != nil {
		return nil, err
	}
	l := &Lab{filepath.Join(b.dir, "raftlab")}
	return l, b.compile(ctx, "build", l.program, "cmd/raftlab")
}

// Command returns the program, and the environment that activates the mutant in it.
func (l *Lab) Command(id string) (program string, env []string) {
	return l.program, append(os.Environ(), environment(id)...)
}

func environment(id string) []string {
	return []string{mutantVariable + "=" + id, assertsVariable + "=off"}
}

// Living returns the id of the active mutant of this process; "" if there is none.
func Living() string { return os.Getenv(mutantVariable) }

// Hunted returns the profiles with which a mutant is hunted.
func (m *Mutant) Hunted() []string {
	if len(m.Profiles) > 0 {
		return slices.Clone(m.Profiles)
	}
	return slices.Clone(defaultProfiles)
}

// Replayed says how the run of a case ended.
type Replayed struct {
	Rule  string   `json:"rule"` // rule that failed; empty if none did
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
