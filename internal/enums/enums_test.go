package enums_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/enums"
)

func TestOf_CountsAsTheCompilerDoes(t *testing.T) {
	deny := enums.Of(t, "../..", "DenyReason")
	assert.EqualValues(t, 0, deny["Granted"])
	assert.EqualValues(t, 1, deny["DeniedOldTerm"])
	assert.Equal(t, 9, enums.Of(t, "../..", "AnswerKind")["AnswerGivenUp"])
	assert.Equal(t, "joint", enums.Texts(t, "../..", "ChangeStage")["ChangeJoint"])
}

// The String or Error method of an enumeration names each constant. Without this test, a new constant could be reported under
// another name, or as a number.
func TestEnumerations_GiveEachConstantAText(t *testing.T) {
	dirs := []string{"../..", "../../node", "../../transport", "../../storage"}
	for _, dir := range dirs {
		all := enums.In(t, dir)
		for typ, named := range namesInMethods(t, dir) {
			for name := range all[typ] {
				assert.True(t, named[name], "%s: no method of %s names %s", dir, typ, name)
			}
		}
	}
}

// namesInMethods returns the identifiers used in the methods of each type that has a String or an Error method.
func namesInMethods(t *testing.T, dir string) map[string]map[string]bool {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	used, texts := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, isFunc := d.(*ast.FuncDecl)
			if !isFunc || f.Recv == nil {
				continue
			}
			of, byValue := f.Recv.List[0].Type.(*ast.Ident)
			if !byValue {
				continue
			}
			if used[of.Name] == nil {
				used[of.Name] = map[string]bool{}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					used[of.Name][id.Name] = true
				}
				return true
			})
			if f.Name.Name == "String" || f.Name.Name == "Error" {
				texts[of.Name] = used[of.Name]
			}
		}
	}
	return texts
}
