package backupfile_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/backupfile"
)

// written is an archive with a database of a size.
func written(t *testing.T, parts map[string][]byte, size int) (path string, database []byte) {
	t.Helper()
	database = make([]byte, size)
	_, _ = rand.Read(database)
	path = filepath.Join(t.TempDir(), "backup")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	err = backupfile.Write(f, parts, time.Now(), func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(database))
		return err
	})
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return path, database
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, 1 << 20} {
		parts := map[string][]byte{backupfile.Witness: []byte("{}"), backupfile.Authority: []byte("a"), backupfile.Keys: bytes.Repeat([]byte("k"), 600)}
		path, database := written(t, parts, size)
		b, err := backupfile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(b.Database)
		if err != nil || !bytes.Equal(got, database) || !maps.EqualFunc(b.Parts, parts, bytes.Equal) {
			t.Errorf("%d bytes: %d, %v, %v", size, len(got), b.Parts, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Operators of an external etcd take the database out with tar.
func TestTarTakesABackupApart(t *testing.T) {
	path, database := written(t, map[string][]byte{backupfile.Witness: []byte("{}")}, 70_000)
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-C", dir, "-xf", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := os.ReadFile(filepath.Join(dir, backupfile.Database))
	if err != nil || !bytes.Equal(got, database) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := os.Stat(filepath.Join(dir, backupfile.Witness)); err != nil {
		t.Error(err)
	}
}

func TestADamagedArchiveIsRefused(t *testing.T) {
	path, _ := written(t, map[string][]byte{backupfile.Witness: []byte(`{"v":1}`)}, 1000)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(bytes.Clone(data), []byte(`{"v":1}`), []byte(`{"v":2}`), 1)
	newer := bytes.Replace(bytes.Clone(data), []byte(`"v": 1`), []byte(`"v": 9`), 1)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"a changed witness":      {changed, "the hash of witness.json"},
		"of a later form":        {newer, "version 9"},
		"cut before the witness": {data[:1024], "no database"},
		"cut in the witness":     {data[:1540], "unexpected EOF"},
	} {
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := backupfile.Open(bad); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cut := filepath.Join(t.TempDir(), "cut")
	if err := os.WriteFile(cut, data[:len(data)-1600], 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := backupfile.Open(cut)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(b.Database); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a database that was cut: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestKeysArePacked(t *testing.T) {
	want := map[string][]byte{"identity.age": []byte("one"), "pki/ca.key": []byte("two")}
	packed, err := backupfile.Pack(want, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	got, err := backupfile.Unpack(packed)
	if err != nil || !maps.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("%v, %v", got, err)
	}
}
