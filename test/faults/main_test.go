package faults_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/oscarfed/oscarfed/test/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

func writeFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
