// Package constants lists the constants of an enumeration from the source, for tests that check that a list has them all.
package constants

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Of returns the constants of that type in the Go package of a directory, by name. It fails the test if there are none.
func Of(t testing.TB, dir, typeName string) map[string]int {
	t.Helper()
	all := In(t, dir)[typeName]
	if len(all) == 0 {
		t.Fatalf("no constant of type %s in %s", typeName, dir)
	}
	return all
}

// In returns the constants of each named type in the Go package of a directory. It knows numbers, iota, and iota plus or
// minus a number.
func In(t testing.TB, dir string) map[string]map[string]int {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	all := map[string]map[string]int{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				declared(g, all)
			}
		}
	}
	return all
}

// declared adds the constants of a declaration. One without type and value has those of the one before it.
func declared(g *ast.GenDecl, all map[string]map[string]int) {
	var kind ast.Expr
	var value ast.Expr
	for i, s := range g.Specs {
		spec := s.(*ast.ValueSpec)
		if len(spec.Values) == 1 {
			kind, value = spec.Type, spec.Values[0]
		}
		named, ok := kind.(*ast.Ident)
		if !ok || len(spec.Names) != 1 || spec.Names[0].Name == "_" {
			continue
		}
		if n, ok := evaluate(value, i); ok {
			if all[named.Name] == nil {
				all[named.Name] = map[string]int{}
			}
			all[named.Name][spec.Names[0].Name] = n
		}
	}
}

func evaluate(e ast.Expr, iota int) (n int, ok bool) {
	switch e := e.(type) {
	case *ast.Ident:
		return iota, e.Name == "iota"
	case *ast.BasicLit:
		v, err := strconv.ParseInt(e.Value, 0, 0)
		return int(v), err == nil
	case *ast.BinaryExpr:
		x, known := evaluate(e.X, iota)
		y, too := evaluate(e.Y, iota)
		if e.Op == token.SUB {
			y = -y
		}
		return x + y, known && too && (e.Op == token.ADD || e.Op == token.SUB)
	}
	return 0, false
}
