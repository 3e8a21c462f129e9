package habits

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pure are the packages that keep the rules of the core: the root package, which is the core, and the rules of handshakes, of
// forwarded requests and of joining.
var pure = []string{".", "./handshake", "./forward", "./joining"}

// coreImports lists the packages that the pure packages may import. If an entry lists names, only these names may be used.
// With these limits, none of the packages can read a clock, do I/O, start a goroutine or share state.
var coreImports = map[string][]string{
	"cmp": nil, "errors": nil, "maps": {"Clone"}, "math": nil, "math/bits": nil, "slices": nil, "sort": nil,
	"strconv": nil, "strings": nil, "encoding/binary": nil, "encoding/hex": nil, "hash/crc32": nil,
	"context":       {"Context", "WithValue"},
	"fmt":           {"Errorf", "Sprint", "Sprintf", "Fprintf", "Appendf", "Append", "Stringer"},
	"io":            {"Reader", "ReaderAt", "Writer"},
	"math/rand/v2":  {"New", "NewPCG", "PCG", "Rand"},
	"encoding/json": {"Marshal", "RawMessage", "Unmarshal"},
	"net/netip":     {"ParseAddr"}, // reads a text, and dials nothing
	"unicode/utf8":  {"ValidString"},
	"time": {"Duration", "Time", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute",
		"Hour"},
	module: nil,
}

// These constants limit sizes. A larger struct does too many things, and a longer function is hard to read.
const (
	coreFieldsMax    = 16
	outputFieldsMax  = 11
	functionLinesMax = 70
)

func TestPurity_TheCoreIsPure(t *testing.T) {
	atRoot(t)
	for _, dir := range pure {
		for _, problem := range checkPurity(t, parseFiles(t, dir, packageFiles(t, dir))) {
			t.Error(dir, problem)
		}
	}
}

// The pure packages depend only on the standard library and each other, directly and indirectly. They do not depend on
// package net, because an embedder brings its own transport.
func TestPurity_TheCoreCompilesNoNetwork(t *testing.T) {
	atRoot(t)
	args := []string{"list", "-deps", "-f", "{{if .Standard}}std{{else}}other{{end}} {{.ImportPath}}"}
	deps := goCommand(t, ".", append(args, pure...)...)
	for _, line := range strings.Split(strings.TrimSpace(deps), "\n") {
		origin, path, _ := strings.Cut(line, " ")
		own := path == module || path == module+"/handshake" || path == module+"/forward" || path == module+"/joining"
		assert.True(t, origin == "std" || own, "%s is outside the standard library", path)
		network := path == "net" || strings.HasPrefix(path, "net/") && path != "net/netip"
		assert.False(t, network, "%s", path)
	}
}

// Each rule fails on a small source that breaks the rule. The message names the line.
func TestPurity_EachRuleCatchesItsBreach(t *testing.T) {
	atRoot(t)
	for _, row := range []struct{ rule, source, want string }{
		{"no clock", `import "time"; var _ = time.Now`, `time.Now`},
		{"no timer", `import "time"; func f() { time.AfterFunc(0, nil) }`, `time.AfterFunc`},
		{"no sleep", `import "time"; func f() { time.Sleep(1) }`, `time.Sleep`},
		{"no deadline of a context", `import "context"; func f() { context.WithTimeout(nil, 0) }`, `context.WithTimeout`},
		{"no files", `import "os"; func f() { os.Exit(1) }`, `import "os"`},
		{"no network", `import _ "net"`, `import "net"`},
		{"no printing", `import "fmt"; func f() { fmt.Println() }`, `fmt.Println`},
		{"no printing by built-ins", `func f() { println() }`, `println`},
		{"no locks", `import "sync"; type T struct{ sync.Mutex }`, `import "sync"`},
		{"no atomics", `import "sync/atomic"; type T struct{ n atomic.Int64 }`, `import "sync/atomic"`},
		{"no global randomness", `import "math/rand/v2"; func f() { rand.IntN(2) }`, `rand.IntN`},
		{"no dot imports", `import . "errors"; func f() error { return New("") }`, `dot import`},
		{"no import outside the list", `import _ "unsafe"`, `import "unsafe"`},
		{"no goroutine", `func f() { go f() }`, `go statement`},
		{"no select", `func f() { select {} }`, `select`},
		{"no channel", `type T struct{ c chan int }`, `channel`},
		{"no channel made", `func f() { _ = make(chan int) }`, `channel`},
		{"no map iteration", `type m map[int]int; func f(x m) { for range x {} }`, `range over a map`},
		{"no map iteration by a function", `import "maps"; func f(x map[int]int) { maps.Keys(x) }`, `maps.Keys`},
		{"no global state", `var n int`, `package-level variable n`},
		{"no global state in a table", `var t = []int{1}`, `package-level variable t`},
		{"no page-long function", "func f() {" + strings.Repeat("\n", functionLinesMax) + "}", `function f has 71 lines`},
		{"no bag of a core", "type Core struct{ " + strings.Repeat("_ int;", coreFieldsMax+1) + "}", `struct Core has 17 fields`},
		{"no bag of an output", "type Output struct{ " + strings.Repeat("_ int;", outputFieldsMax+1) + "}", `struct Output has 12 fields`},
		{"what stands alone", `func f() { undefined() }`, `undefined: undefined`},
	} {
		t.Run(row.rule, func(t *testing.T) {
			problems := checkPurity(t, parseSource(t, map[string]string{"core.go": row.source}))
			require.NotEmpty(t, problems)
			assert.Contains(t, strings.Join(problems, "\n"), row.want)
			assert.Contains(t, problems[0], "core.go:")
		})
	}
}

func TestPurity_WhatACoreNeedsIsAllowed(t *testing.T) {
	atRoot(t)
	problems := checkPurity(t, parseSource(t, map[string]string{"core.go": `
		import ("errors"; "fmt"; "hash/crc32"; "math/rand/v2"; "time")
		var ErrX = errors.New("x")
		var table = crc32.MakeTable(crc32.Castagnoli)
		var _ fmt.Stringer = T(0)
		const wait = 3 * time.Second
		type T int
		func (T) String() string { return fmt.Sprintf("%v %v", wait, table[0]) }
		func f(r *rand.Rand, m map[int]int) int { return m[r.IntN(2)] }`}))
	assert.Empty(t, problems)
}

// source is some parsed files of one package.
type source struct {
	fset  *token.FileSet
	files []*ast.File
}

func (s source) at(n ast.Node) string {
	p := s.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", filepath.Base(p.Filename), p.Line)
}

func parseFiles(t *testing.T, dir string, names []string) source {
	t.Helper()
	s := source{fset: token.NewFileSet()}
	for _, name := range names {
		f, err := parser.ParseFile(s.fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		s.files = append(s.files, f)
	}
	return s
}

func parseSource(t *testing.T, files map[string]string) source {
	t.Helper()
	s := source{fset: token.NewFileSet()}
	for name, text := range files {
		f, err := parser.ParseFile(s.fset, name, "package p; "+text, parser.SkipObjectResolution)
		require.NoError(t, err)
		s.files = append(s.files, f)
	}
	return s
}

// check type-checks the files. It returns the errors that the compiler would report.
func (s source) check(t *testing.T) (*types.Package, *types.Info, []string) {
	t.Helper()
	var problems []string
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{},
	}
	conf := types.Config{
		Importer: exportImporter(t, s.fset, s.imports()),
		Error: func(err error) {
			problem := err.(types.Error)
			if !strings.Contains(problem.Msg, "imported and not used") && !strings.Contains(problem.Msg, "not used") {
				at := s.fset.Position(problem.Pos)
				problems = append(problems, fmt.Sprintf("%s:%d: the core does not stand alone: %s",
					filepath.Base(at.Filename), at.Line, problem.Msg))
			}
		},
	}
	pkg, _ := conf.Check("p", s.fset, s.files, info)
	return pkg, info, problems
}

func (s source) imports() []string {
	var paths []string
	for _, f := range s.files {
		for _, spec := range f.Imports {
			paths = append(paths, strings.Trim(spec.Path.Value, `"`))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// checkPurity returns every violation of the core's rules, as "file:line: sentence".
func checkPurity(t *testing.T, s source) []string {
	t.Helper()
	_, info, problems := s.check(t)
	report := func(n ast.Node, format string, args ...any) {
		problems = append(problems, s.at(n)+": "+fmt.Sprintf(format, args...))
	}
	for _, f := range s.files {
		checkImports(f, report)
		for _, d := range f.Decls {
			checkDecl(s, d, report)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			checkNode(info, n, report)
			return true
		})
	}
	return problems
}

type report func(n ast.Node, format string, args ...any)

func checkImports(f *ast.File, report report) {
	for _, spec := range f.Imports {
		if _, ok := coreImports[strings.Trim(spec.Path.Value, `"`)]; !ok {
			report(spec, "import %s is not on the core's list", spec.Path.Value)
		}
		if spec.Name != nil && spec.Name.Name == "." {
			report(spec, "dot import: names must say where they come from")
		}
	}
}

func checkDecl(s source, d ast.Decl, report report) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if lines := lineCount(s.fset, d); lines > functionLinesMax {
			report(d, "function %s has %d lines, over the limit of %d", d.Name.Name, lines, functionLinesMax)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				checkVariable(d, spec, report)
			case *ast.TypeSpec:
				checkBudget(spec, report)
			}
		}
	}
}

// checkVariable allows the package-level variables that no code changes: error sentinels, the CRC table, and assertions that
// a type implements an interface.
func checkVariable(d *ast.GenDecl, spec *ast.ValueSpec, report report) {
	if d.Tok != token.VAR {
		return
	}
	for i, name := range spec.Names {
		constant := name.Name == "_"
		if i < len(spec.Values) {
			if call, ok := spec.Values[i].(*ast.CallExpr); ok {
				maker := types.ExprString(call.Fun)
				constant = constant || maker == "errors.New" || maker == "crc32.MakeTable"
			}
		}
		if !constant {
			report(name, "package-level variable %s: the core has no state but Core", name.Name)
		}
	}
}

func checkBudget(spec *ast.TypeSpec, report report) {
	limit, ok := map[string]int{"Core": coreFieldsMax, "Output": outputFieldsMax}[spec.Name.Name]
	if s, isStruct := spec.Type.(*ast.StructType); ok && isStruct && s.Fields.NumFields() > limit {
		report(spec, "struct %s has %d fields, over its budget of %d", spec.Name.Name, s.Fields.NumFields(), limit)
	}
}

func checkNode(info *types.Info, n ast.Node, report report) {
	switch n := n.(type) {
	case *ast.GoStmt:
		report(n, "go statement: the core runs in its caller's goroutine")
	case *ast.SelectStmt:
		report(n, "select: the core waits for nothing")
	case *ast.RangeStmt:
		if tv, ok := info.Types[n.X]; ok {
			if _, isMap := tv.Type.Underlying().(*types.Map); isMap {
				report(n, "range over a map: its order is not the same twice")
			}
		}
	case *ast.ChanType:
		report(n, "channel: the core talks in events and outputs")
	case *ast.Ident:
		checkUse(info, n, report)
	}
}

// checkUse checks names of other packages, and built-in functions, against the lists.
func checkUse(info *types.Info, id *ast.Ident, report report) {
	obj := info.Uses[id]
	if obj == nil {
		return
	}
	if b, ok := obj.(*types.Builtin); ok && (b.Name() == "print" || b.Name() == "println") {
		report(id, "%s: the core prints nothing", b.Name())
	}
	if obj.Pkg() == nil || obj.Parent() != obj.Pkg().Scope() {
		return // not a package-level name
	}
	if names := coreImports[obj.Pkg().Path()]; names != nil && !slices.Contains(names, obj.Name()) {
		report(id, "%s.%s is not on the core's list", obj.Pkg().Name(), obj.Name())
	}
	if _, isChan := obj.Type().Underlying().(*types.Chan); isChan {
		report(id, "%s is a channel", obj.Name())
	}
}

// lineCount returns the number of lines of a node.
func lineCount(fset *token.FileSet, n ast.Node) int {
	return fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
}

// packageFiles lists the Go files of the package in dir that the go command compiles on this system, without the tests.
func packageFiles(t *testing.T, dir string) []string {
	t.Helper()
	return strings.Fields(goCommand(t, dir, "list", "-f", `{{join .GoFiles " "}}`, "."))
}

// exportImporter imports packages from the export data in the build cache, as the compiler does. This is quick.
func exportImporter(t *testing.T, fset *token.FileSet, paths []string) types.Importer {
	t.Helper()
	files := map[string]string{}
	var wanted []string
	for _, path := range paths {
		if path != "unsafe" {
			wanted = append(wanted, path)
		}
	}
	if len(wanted) > 0 {
		args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}, wanted...)
		for _, line := range strings.Fields(goCommand(t, ".", args...)) {
			path, file, _ := strings.Cut(line, "=")
			files[path] = file
		}
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		file, ok := files[path]
		if !ok {
			return nil, fmt.Errorf("no export data for %q", path)
		}
		return os.Open(file)
	})
}

// goCommand runs the go command in dir and returns its output.
func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go %s: %s", strings.Join(args, " "), stderr.String())
	return string(out)
}
