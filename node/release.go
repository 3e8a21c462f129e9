package node

import (
	"runtime/debug"
	"strings"
	"sync"

	"github.com/coxswain/raft"
)

// modulePath is the path of this library's module.
const modulePath = "github.com/coxswain/raft"

// Release returns the release of this library that the program contains, as the build recorded it. It returns "" if the build
// has not recorded a release, as in a test. The value equals MemberStatus.Release of this member. Any goroutine may call
// Release.
func Release() string { return release() }

var release = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return releaseIn(info)
})

func releaseIn(info *debug.BuildInfo) string {
	version := ""
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == modulePath {
			version = m.Version
			if m.Replace != nil {
				version = m.Replace.Version
			}
		}
	}
	if version == "(devel)" || strings.ContainsFunc(version, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return version[:min(len(version), raft.ReleaseBytesMax)]
}
