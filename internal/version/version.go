// Package version owns what a binary of this project says of its own build.
package version

import (
	"runtime"
	"runtime/debug"
)

// OSCAR is the version of the OSCAR Manager whose API ours is compatible with.
// Clients compare it with v4.1.0 to choose the form of a service definition.
const OSCAR = "v4.1.2"

// release is set by the linker: -ldflags "-X <this package>.release=v1.2.3".
var release string

// Info is one build.
type Info struct {
	// Version is the release, the module version, or devel.
	Version string
	// Commit is the revision of the source, with -dirty when it was changed; it
	// is unknown when the build did not record one.
	Commit string
	// Go is the version of the toolchain.
	Go string
	// Arch is GOARCH.
	Arch string
}

// Get reads the build information of the running binary.
func Get() Info {
	info := Info{Version: release, Commit: "unknown", Go: runtime.Version(), Arch: runtime.GOARCH}
	if build, ok := debug.ReadBuildInfo(); ok {
		fill(&info, build)
	}
	if info.Version == "" {
		info.Version = "devel"
	}
	return info
}

// UserAgent is what this build's program calls itself in a request.
func UserAgent(program string) string { return program + "/" + Get().Version }

func fill(info *Info, build *debug.BuildInfo) {
	if v := build.Main.Version; info.Version == "" && v != "(devel)" {
		info.Version = v
	}
	dirty := false
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty {
		info.Commit += "-dirty"
	}
}
