package backupfile

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Names in the archive. The manifest comes first, the database last.
const (
	manifestName = "backup.json"
	// Database is the snapshot of etcd with its SHA-256 at the end, as etcdutl reads it.
	Database = "etcd.db"
	// Witness is what an instance had seen in the store before the snapshot was made.
	Witness = "witness.json"
	// Authority is the certificate of the authority of etcd's users, in PEM.
	Authority = "ca.crt"
	// Keys are private keys, as a tar archive that is encrypted with age.
	Keys = "keys.age"
)

// parts are what may stand before the database, in this order.
func parts() []string { return []string{Witness, Authority, Keys} }

// version of the archive's form.
const version = 1

// MaxPart bounds each thing in the archive besides the database, in bytes.
const MaxPart = 1 << 20

// blockSize is that of tar.
const blockSize = 512

// manifest says what is in an archive.
type manifest struct {
	V      int       `json:"v"`
	MadeAt time.Time `json:"made_at"`
	// SHA256 of each file but the database, in hex.
	SHA256 map[string]string `json:"sha256"`
}

// File is a backup. The database is read from it in place.
type File struct {
	// Parts are Witness, Authority and Keys, as far as they are there.
	Parts map[string][]byte
	// Database may be read once.
	Database io.Reader
	file     *os.File
}

// Write writes an archive from the beginning of a file. The snapshot may be of any size: its header is
// written when the size is known.
func Write(f *os.File, with map[string][]byte, now time.Time, snapshot func(io.Writer) error) error {
	m := manifest{V: version, MadeAt: now.UTC().Truncate(time.Second), SHA256: map[string]string{}}
	for name, data := range with {
		if len(data) > MaxPart {
			return fmt.Errorf("%s is larger than %d bytes", name, MaxPart)
		}
		m.SHA256[name] = sum(data)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	if err := put(w, manifestName, append(text, '\n'), now); err != nil {
		return err
	}
	for _, name := range parts() {
		if data, ok := with[name]; ok {
			if err := put(w, name, data, now); err != nil {
				return err
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	at, err := f.Seek(blockSize, io.SeekCurrent) // the header's place
	if err != nil {
		return err
	}
	if err := snapshot(f); err != nil {
		return err
	}
	end, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	var head bytes.Buffer
	if err := tar.NewWriter(&head).WriteHeader(header(Database, end-at, now)); err != nil {
		return err
	}
	if head.Len() != blockSize {
		return fmt.Errorf("the header of the database takes %d bytes", head.Len())
	}
	if _, err := f.WriteAt(head.Bytes(), at-blockSize); err != nil {
		return err
	}
	// The last file is padded to a block, and two blocks of zeros end the archive.
	_, err = f.Write(make([]byte, (blockSize-(end-at)%blockSize)%blockSize+2*blockSize))
	return err
}

func header(name string, size int64, now time.Time) *tar.Header {
	return &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: size, ModTime: now.Truncate(time.Second), Format: tar.FormatGNU}
}

func put(w *tar.Writer, name string, data []byte, now time.Time) error {
	if err := w.WriteHeader(header(name, int64(len(data)), now)); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func sum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:])
}

// Open reads a backup, or a bare snapshot. Whether the database is whole is for its reader to
// say, by the hash at its end.
func Open(path string) (b *File, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s is damaged, or no backup: %w", path, err), f.Close())
		}
	}()
	b = &File{Parts: map[string][]byte{}, file: f}
	archive := tar.NewReader(f)
	first, err := archive.Next()
	if err != nil || first.Name != manifestName {
		// A database begins with the number of its first page.
		_, err := f.Seek(0, io.SeekStart)
		b.Database = f
		return b, err
	}
	m := manifest{}
	text, err := small(archive, first)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	if m.V != version {
		return nil, fmt.Errorf("its form is of version %d; this program reads %d", m.V, version)
	}
	for {
		next, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it holds no database")
		}
		if err != nil {
			return nil, err
		}
		if next.Name == Database {
			break
		}
		if !slices.Contains(parts(), next.Name) {
			continue // a later release may add something
		}
		data, err := small(archive, next)
		if err != nil {
			return nil, err
		}
		if m.SHA256[next.Name] != sum(data) {
			return nil, fmt.Errorf("the hash of %s is not that of its bytes", next.Name)
		}
		b.Parts[next.Name] = data
	}
	for _, name := range parts() {
		if _, ok := b.Parts[name]; !ok && m.SHA256[name] != "" {
			return nil, fmt.Errorf("%s is missing", name)
		}
	}
	b.Database = archive
	return b, nil
}

// Bare says that the file is a snapshot and nothing else.
func (b *File) Bare() bool { return b.Database == io.Reader(b.file) }

// Close ends the reading.
func (b *File) Close() error { return b.file.Close() }

func small(r io.Reader, h *tar.Header) ([]byte, error) {
	if h.Size > MaxPart {
		return nil, fmt.Errorf("%s is larger than %d bytes", h.Name, MaxPart)
	}
	return io.ReadAll(r)
}

// Pack puts files into an archive that can be sealed.
func Pack(files map[string][]byte, now time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, data := range files {
		if err := put(w, name, data, now); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Unpack is the inverse of Pack.
func Unpack(data []byte) (map[string][]byte, error) {
	out := map[string][]byte{}
	archive := tar.NewReader(bytes.NewReader(data))
	for {
		next, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if out[next.Name], err = small(archive, next); err != nil {
			return nil, err
		}
	}
}
