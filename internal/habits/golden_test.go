package habits

import (
	"cmp"
	"fmt"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/golden"
)

const (
	module = "github.com/coxswain/raft"
	remedy = "make fix, and say it in CHANGELOG.md"
)

// The modules that an importer compiles are a promise: each new dependency needs a line in
// docs/decisions/0001-dependencies.md.
func TestGolden_TheModulesAnImporterCompiles(t *testing.T) {
	atRoot(t)
	var b strings.Builder
	b.WriteString("# The modules that an importer of each package compiles.\n")
	for _, pkg := range []string{".", "./handshake", "./forward", "./joining", "./node", "./storage", "./transport", "./member", "./admin", "./rafttest"} {
		modules := map[string]bool{}
		for _, system := range []string{"linux", "darwin", "windows"} {
			cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", pkg)
			cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
			out, err := cmd.Output()
			require.NoError(t, err)
			for _, path := range strings.Fields(string(out)) {
				modules[path] = true
			}
		}
		fmt.Fprintf(&b, "\n%s\n", pkg)
		for _, path := range sortedKeys(modules) {
			b.WriteString("  " + path + "\n")
		}
	}
	golden.Check(t, "testdata/golden/modules.txt", b.String(), remedy)
}

// The exported API changes only on purpose. When you review a change, read the diff of api.txt first.
func TestGolden_TheExportedAPI(t *testing.T) {
	atRoot(t)
	paths := []string{module}
	for _, name := range []string{"handshake", "forward", "joining", "node", "storage", "storage/storagetest", "transport", "transport/transporttest",
		"member", "session", "boltfsm", "rafttest", "metrics", "admin"} {
		paths = append(paths, module+"/"+name)
	}
	imp := exportImporter(t, token.NewFileSet(), paths)
	var b strings.Builder
	b.WriteString("# The exported API, a name a line.\n")
	for _, path := range paths {
		pkg, err := imp.Import(path)
		require.NoError(t, err)
		fmt.Fprintf(&b, "\npackage %s\n", path)
		for _, line := range apiLines(pkg) {
			b.WriteString(line + "\n")
		}
	}
	golden.Check(t, "testdata/golden/api.txt", b.String(), remedy)
}

func TestGolden_EveryKindOfNameIsInTheList(t *testing.T) {
	atRoot(t)
	s := parseSource(t, map[string]string{"p.go": `
		import "io"
		const N int = 3
		const Loose = 4
		var ErrX error
		type T struct { A int; b int; io.Reader }
		func (*T) M(n int) error { return nil }
		func (*T) L() {}
		func (T) m() {}
		type I interface { Do(x ...string); Error() string; hidden() }
		type U uint8
		type G[K comparable] map[K]io.Reader
		type F func(T) bool
		func Make[K comparable](k K) *G[K] { return nil }
		func internal() {}
		type Alias = T`})
	pkg, _, problems := s.check(t)
	require.Empty(t, problems)
	assert.Equal(t, []string{
		"const Loose untyped int = 4",
		"const N int = 3",
		"var ErrX error",
		"func Make[K comparable](k K) *G[K]",
		"type Alias = T",
		"type F func(T) bool",
		"type G[K comparable] map[K]io.Reader",
		"type I interface, Do(x ...string)",
		"type I interface, Error() string",
		"type I interface, unexported methods",
		"type T struct, A int",
		"type T struct, embedded io.Reader",
		"func (*T) L()",
		"func (*T) M(n int) error",
		"type U uint8",
	}, apiLines(pkg))
}

// apiLines prints the exported names of a package: constants, variables, functions, then the types,
// each with its exported fields and methods.
func apiLines(pkg *types.Package) []string {
	a := api{func(other *types.Package) string {
		if other == pkg {
			return ""
		}
		return other.Name()
	}}
	var names []types.Object
	for _, name := range pkg.Scope().Names() {
		if token.IsExported(name) {
			names = append(names, pkg.Scope().Lookup(name))
		}
	}
	slices.SortStableFunc(names, func(x, y types.Object) int { return cmp.Compare(kindOrder(x), kindOrder(y)) })
	var lines []string
	for _, obj := range names {
		lines = append(lines, a.object(obj)...)
	}
	return lines
}

func kindOrder(obj types.Object) int {
	switch obj.(type) {
	case *types.Const:
		return 0
	case *types.Var:
		return 1
	case *types.Func:
		return 2
	}
	return 3
}

// api prints names relative to one package.
type api struct{ from types.Qualifier }

func (a api) object(obj types.Object) []string {
	switch obj := obj.(type) {
	case *types.Const:
		return []string{fmt.Sprintf("const %s %s = %s", obj.Name(), a.typ(obj.Type()), obj.Val().ExactString())}
	case *types.TypeName:
		return a.typeName(obj)
	}
	return []string{types.ObjectString(obj, a.from)}
}

func (a api) typ(t types.Type) string { return types.TypeString(t, a.from) }

func (a api) typeName(obj *types.TypeName) []string {
	if obj.IsAlias() {
		return []string{"type " + obj.Name() + " = " + a.typ(types.Unalias(obj.Type()))}
	}
	named := obj.Type().(*types.Named)
	head := "type " + a.typ(named)
	var lines []string
	switch u := named.Underlying().(type) {
	case *types.Struct:
		lines = a.members(head+" struct", a.fields(u))
	case *types.Interface:
		lines = a.members(head+" interface", a.interfaceMethods(u))
	default:
		lines = []string{head + " " + a.typ(u)}
	}
	var methods []*types.Func
	for m := range named.Methods() {
		if m.Exported() {
			methods = append(methods, m)
		}
	}
	slices.SortFunc(methods, func(x, y *types.Func) int { return cmp.Compare(x.Name(), y.Name()) })
	for _, m := range methods {
		lines = append(lines, a.method(m))
	}
	return lines
}

// members puts each member on its own line, with its type, so that a diff can be read without context.
func (a api) members(head string, members []string) []string {
	if len(members) == 0 {
		return []string{head}
	}
	var lines []string
	for _, m := range members {
		lines = append(lines, head+", "+m)
	}
	return lines
}

func (a api) fields(s *types.Struct) []string {
	var lines []string
	for f := range s.Fields() {
		switch {
		case !f.Exported():
		case f.Embedded():
			lines = append(lines, "embedded "+a.typ(f.Type()))
		default:
			lines = append(lines, f.Name()+" "+a.typ(f.Type()))
		}
	}
	return lines
}

func (a api) interfaceMethods(i *types.Interface) []string {
	var lines []string
	unexported := false
	for m := range i.Methods() {
		if m.Exported() {
			lines = append(lines, m.Name()+strings.TrimPrefix(a.typ(m.Type()), "func"))
		}
		unexported = unexported || !m.Exported()
	}
	if unexported {
		lines = append(lines, "unexported methods")
	}
	return lines
}

func (a api) method(m *types.Func) string {
	s := m.Type().(*types.Signature)
	return fmt.Sprintf("func (%s) %s%s", a.typ(s.Recv().Type()), m.Name(), strings.TrimPrefix(a.typ(s), "func"))
}

func sortedKeys(m map[string]bool) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
