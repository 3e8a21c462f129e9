package node

import (
	"runtime/debug"
	"strings"
	"testing"

	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

func TestRelease_IsTheOneThatTheBuildHasRecorded(t *testing.T) {
	app := debug.Module{Path: "example.com/app", Version: "v7.0.0"}
	for _, row := range []struct {
		rule string
		info debug.BuildInfo
		want string
	}{
		{"of the library, not of the program", debug.BuildInfo{Main: app, Deps: []*debug.Module{{Path: modulePath, Version: "v0.2.0"}}}, "v0.2.0"},
		{"its own commands are the library", debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "v0.2.0+dirty"}}, "v0.2.0+dirty"},
		{"another one takes its place", debug.BuildInfo{Main: app, Deps: []*debug.Module{
			{Path: modulePath, Version: "v0.2.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v0.2.1"}}}}, "v0.2.1"},
		{"a directory takes its place", debug.BuildInfo{Main: app, Deps: []*debug.Module{
			{Path: modulePath, Version: "v0.2.0", Replace: &debug.Module{Path: "../raft"}}}}, ""},
		{"built without a version", debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "(devel)"}}, ""},
		{"no part of the program", debug.BuildInfo{Main: app}, ""},
		{"a version of any length", debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: strings.Repeat("v", 99)}}, strings.Repeat("v", raft.ReleaseBytesMax)},
	} {
		expect.Equal(t, row.want, releaseIn(&row.info), row.rule)
	}
}
