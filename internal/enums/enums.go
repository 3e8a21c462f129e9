// Package enums lists the constants of enumerations as the source declares them. It serves tests that must not forget a
// constant.
package enums

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// Of returns the constants of an integer type that the Go files of a directory declare, by name. The test fails if there are
// no such constants.
func Of(t testing.TB, dir, typ string) map[string]int {
	t.Helper()
	numbers := In(t, dir)[typ]
	if len(numbers) == 0 {
		t.Fatalf("enums: %s declares no constant of type %s", dir, typ)
	}
	return numbers
}

// In returns the constants of all integer types that a directory declares, by type and by name.
func In(t testing.TB, dir string) map[string]map[string]int {
	t.Helper()
	numbers := map[string]map[string]int{}
	for typ, values := range all(t, dir) {
		for name, v := range values {
			if n, exact := constant.Int64Val(constant.ToInt(v)); exact {
				if numbers[typ] == nil {
					numbers[typ] = map[string]int{}
				}
				numbers[typ][name] = int(n)
			}
		}
	}
	return numbers
}

// Texts is like Of, for a string type.
func Texts(t testing.TB, dir, typ string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for name, v := range all(t, dir)[typ] {
		texts[name] = constant.StringVal(v)
	}
	if len(texts) == 0 {
		t.Fatalf("enums: %s declares no constant of type %s", dir, typ)
	}
	return texts
}

// all returns the constants of each type that the directory declares, by type and by name.
func all(t testing.TB, dir string) map[string]map[string]constant.Value {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset, files := token.NewFileSet(), []*ast.File{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	// Constants need no imports, so unresolved names do not matter.
	config := types.Config{IgnoreFuncBodies: true, Error: func(error) {}}
	pkg, _ := config.Check(dir, fset, files, nil)
	all := map[string]map[string]constant.Value{}
	for _, name := range pkg.Scope().Names() {
		c, isConst := pkg.Scope().Lookup(name).(*types.Const)
		if !isConst {
			continue
		}
		named, isNamed := c.Type().(*types.Named)
		if !isNamed || named.Obj().Pkg() != pkg {
			continue
		}
		typ := named.Obj().Name()
		if all[typ] == nil {
			all[typ] = map[string]constant.Value{}
		}
		all[typ][name] = c.Val()
	}
	return all
}
