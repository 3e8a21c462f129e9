package zoo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// modulePath is the module whose sources are patched.
const modulePath = "github.com/coxswain/raft"

// Binary is a build that contains every mutant.
type Binary struct {
	root, dir, overlay string
	hunter             string

	mu    sync.Mutex
	tests map[string]string // path of the built test program, by package
}

// Build makes, below dir, the program that hunts mutants. It needs the go command, and the working directory must be in a
// checkout of the module. Build fails if the text of an anchor does not fit the sources.
func Build(ctx context.Context, dir string) (*Binary, error) {
	b, err := prepare(ctx, dir)
	if err != nil {
		return nil, err
	}
	return b, b.compile(ctx, "build", b.hunter, "fuzzy/zoo/hunt")
}

// prepare writes the overlay.
func prepare(ctx context.Context, dir string) (*Binary, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	file, err := overlay(root, dir, All())
	if err != nil {
		return nil, err
	}
	return &Binary{root: root, dir: dir, overlay: file, hunter: filepath.Join(dir, "hunter"), tests: map[string]string{}}, nil
}

// moduleRoot returns the directory of the module's sources.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Path}} {{.Dir}}").Output()
	path, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || path != modulePath {
		return "", fmt.Errorf("zoo: the mutants are patches of %s: run this in a checkout of it", modulePath)
	}
	return dir, nil
}

// compile builds a package with the overlay.
func (b *Binary) compile(ctx context.Context, verb, target, pkg string) error {
	args := []string{verb, "-overlay", b.overlay, "-ldflags=-s -w", "-o", target} // linking takes half the time
	if verb == "test" {
		args = append(args, "-c")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("zoo: go %s of %s with the mutants: %w\n%s", verb, pkg, err, out)
	}
	return nil
}

// testPatience is the time limit of tests. It is long, because a slow test on a busy machine must not count as hung.
const testPatience = "3m"

// test runs tests of the module with a mutant, and returns the name of the first one that fails, or "".
func (b *Binary) test(ctx context.Context, id string, t *Test) (failed string, err error) {
	program, err := b.testProgram(ctx, t.Package)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, program, "-test.run", t.Run, "-test.failfast", "-test.timeout", testPatience)
	cmd.Dir = filepath.Join(b.root, t.Package)
	cmd.Env = append(os.Environ(), mutantVariable+"="+id)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil && bytes.Contains(out, []byte("no tests to run")):
		return "", fmt.Errorf("zoo: mutant %s: no test of %s matches %q", id, t.Package, t.Run)
	case err == nil || ctx.Err() != nil:
		return "", ctx.Err()
	case !errors.As(err, &exit):
		return "", err
	}
	return failedTest(string(out)), nil
}

// hungTest is reported as the name of a test that ended without a report of failure.
const hungTest = "a test that panicked or hung"

// failedTest finds the name of the failed test in an output.
func failedTest(out string) string {
	if _, rest, ok := strings.Cut(out, "--- FAIL: "); ok {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	return hungTest
}

func (b *Binary) testProgram(ctx context.Context, pkg string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if program := b.tests[pkg]; program != "" {
		return program, nil
	}
	program := filepath.Join(b.dir, "tests_"+strings.ReplaceAll(pkg, "/", "_"))
	if err := b.compile(ctx, "test", program, pkg); err != nil {
		return "", err
	}
	b.tests[pkg] = program
	return program, nil
}
