package docs_test

import (
	"os"
	"strings"
	"testing"
)

// TestThePageOfTheCommandsIsThatOfTheCode: cli.md has the commands with the texts of the code.
// `go test ./docs -update` writes it.
func TestThePageOfTheCommandsIsThatOfTheCode(t *testing.T) {
	var out strings.Builder
	out.WriteString("# The command line\n\n" +
		"Made from the commands by `go test ./docs -update`; a test holds it. `oscarfed man DIR` writes man pages, and\n" +
		"`oscarfed completion bash|zsh|fish` the completion of a shell. Settings, contexts and exit statuses:\n" +
		"[configuration.md](configuration.md#oscarfed). `dev`, `backup`, `restore` and those of `etcd` say theirs with\n" +
		"`--help`.\n")
	out.WriteString(manual())
	if *update {
		if err := os.WriteFile("cli.md", []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if page(t, "cli.md") != out.String() {
		t.Error("cli.md is not what the code says: go test ./docs -update")
	}
}
