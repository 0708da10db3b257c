package fdl

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// readBack writes a service as an FDL, and reads that from standard input.
func readBack(s *oscar.Service) (*oscar.Service, string, error) {
	var fdl bytes.Buffer
	if err := Write(&fdl, []*oscar.Service{s}); err != nil {
		return nil, "", err
	}
	text := fdl.String()
	services, err := Read(Stdin, &fdl)
	if err != nil {
		return nil, text, err
	}
	return services[0].Service, text, nil
}

func TestAScriptThatNamesAFileReadsBackAsText(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "id_rsa")
	if err := os.WriteFile(secret, []byte("a private key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{secret, "id_rsa", "./" + secret, "echo hi", "123", "~", "x\t", "- x", "#", "%YAML", "---", "..."} {
		s, text, err := readBack(&oscar.Service{Name: "s", Script: script})
		if err != nil || s.Script != script {
			t.Errorf("%q reads back as %v, %v; the FDL:\n%s", script, s, err, text)
		}
	}
}

// It is applied to what has got some since, and has to say that there were none.
func TestTheAbsenceOfSecretsAndMembersIsWritten(t *testing.T) {
	s, text, err := readBack(&oscar.Service{Name: "s", Script: "x"})
	if err != nil || s.Environment.Secrets == nil || s.Federation == nil {
		t.Errorf("%v; the FDL:\n%s", err, text)
	}
}

func TestWhatIsWrittenReadsBack(t *testing.T) {
	printable := rapid.StringMatching(`([ \t]{0,2}(/|\./|~/)?[a-z0-9é#:'"%&*!|>@-]{0,5}[ \t\r]?\n?){0,3}`)
	text := rapid.OneOf(rapid.String(), printable)
	rapid.Check(t, func(t *rapid.T) {
		s := &oscar.Service{Name: "s", Script: text.Draw(t, "script")}
		s.Environment.Variables = map[string]string{"V": printable.Draw(t, "variable")}
		back, fdl, err := readBack(s)
		if err != nil {
			t.Fatalf("%v; the FDL:\n%s", err, fdl)
		}
		// A line that no block can hold gets a line break.
		script := back.Script == s.Script || back.Script == s.Script+"\n" && !strings.Contains(s.Script, "\n")
		if !script || back.Environment.Variables["V"] != s.Environment.Variables["V"] {
			t.Fatalf("%q and %q are %q and %q; the FDL:\n%s", s.Script, s.Environment.Variables["V"], back.Script, back.Environment.Variables["V"], fdl)
		}
	})
}
