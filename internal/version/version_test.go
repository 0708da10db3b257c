package version

import (
	"runtime/debug"
	"testing"
)

func TestFill(t *testing.T) {
	build := func(version string, kv ...string) *debug.BuildInfo {
		b := &debug.BuildInfo{}
		b.Main.Version = version
		for i := 0; i < len(kv); i += 2 {
			b.Settings = append(b.Settings, debug.BuildSetting{Key: kv[i], Value: kv[i+1]})
		}
		return b
	}
	tests := []struct {
		name            string
		release         string
		build           *debug.BuildInfo
		version, commit string
	}{
		{"nothing known", "", build("(devel)"), "", "unknown"},
		{"module version", "", build("v0.3.0"), "v0.3.0", "unknown"},
		{"the linker wins", "v1.0.0", build("v0.3.0"), "v1.0.0", "unknown"},
		{"commit", "", build("", "vcs.revision", "abc", "vcs.modified", "false"), "", "abc"},
		{"changed source", "", build("", "vcs.modified", "true", "vcs.revision", "abc"), "", "abc-dirty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			info := Info{Version: tt.release, Commit: "unknown"}
			fill(&info, tt.build)
			if info.Version != tt.version || info.Commit != tt.commit {
				t.Fatalf("got %+v", info)
			}
		})
	}
}

func TestGetIsNeverEmpty(t *testing.T) {
	if got := Get(); got.Version == "" || got.Commit == "" || got.Go == "" || got.Arch == "" {
		t.Fatalf("got %+v", got)
	}
}
