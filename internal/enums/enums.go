// Package enums lists the constants of enumerations as the source declares them, for tests that must not forget one.
package enums

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
)

// Of returns the constants of a type of integers that is declared in the Go files of a directory, by name.
func Of(dir, typ string) (map[string]int64, error) {
	numbers := map[string]int64{}
	return numbers, each(dir, typ, func(name string, v constant.Value) { numbers[name], _ = constant.Int64Val(v) })
}

// Texts is Of for a type of strings.
func Texts(dir, typ string) (map[string]string, error) {
	texts := map[string]string{}
	return texts, each(dir, typ, func(name string, v constant.Value) { texts[name] = constant.StringVal(v) })
}

func each(dir, typ string, f func(name string, v constant.Value)) error {
	all, err := All(dir)
	if err == nil && len(all[typ]) == 0 {
		err = fmt.Errorf("enums: %s declares no constant of type %s", dir, typ)
	}
	for name, value := range all[typ] {
		f(name, value)
	}
	return err
}

// All returns the constants of each type that the directory declares, by type and by name.
func All(dir string) (map[string]map[string]constant.Value, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	fset, files := token.NewFileSet(), []*ast.File{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	// Constants need no import, so what cannot be resolved does not matter.
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
	return all, nil
}
