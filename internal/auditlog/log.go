package auditlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
)

// Log is the place where lines go. It is not safe for concurrent use.
type Log struct {
	path   string
	syslog io.WriteCloser
	head   Head
	file   *os.File
}

// Open opens a log in a file, and at a syslog if that is not nil, which it closes. How far it has come
// stands in path.head, so that the file itself may be moved away at any time.
func Open(path string, syslog io.WriteCloser) (*Log, error) {
	l := &Log{path: path, syslog: syslog}
	data, err := os.ReadFile(l.headPath())
	switch {
	case err == nil:
		if err := json.Unmarshal(data, &l.head); err != nil {
			return nil, fmt.Errorf("%s: %w", l.headPath(), err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := l.reopen(); err != nil {
		return nil, err
	}
	return l, l.catchUp()
}

// Head is how far the log has come.
func (l *Log) Head() Head { return l.head }

func (l *Log) headPath() string { return l.path + ".head" }

// Restart lets entries follow although their revisions are lower: the store was restored.
func (l *Log) Restart(revision int64) { l.head.Revision, l.head.IDs = revision, nil }

// Append writes the entries that the log does not have. After an error none of them may be
// there, or some: they are given again.
func (l *Log) Append(entries []Entry) error {
	var out bytes.Buffer
	head := l.head
	var lines [][]byte
	for _, e := range entries {
		if head.Has(e) {
			continue
		}
		text, next, err := head.next(e)
		if err != nil {
			return err
		}
		head = next
		lines = append(lines, text)
		out.Write(text)
	}
	if len(lines) == 0 {
		return nil
	}
	if err := l.reopen(); err != nil {
		return err
	}
	if err := l.write(out.Bytes()); err != nil {
		return err
	}
	l.head = head
	if l.syslog != nil {
		for _, text := range lines {
			if _, err := l.syslog.Write(bytes.TrimSuffix(text, []byte("\n"))); err != nil {
				// The file has it: what the syslog lacks is seen as a gap there.
				return errors.Join(fmt.Errorf("syslog: %w", err), l.keepHead())
			}
		}
	}
	return l.keepHead()
}

// write appends whole lines or nothing.
func (l *Log) write(text []byte) error {
	before, err := l.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err = l.file.Write(text); err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return errors.Join(err, l.file.Truncate(before))
	}
	return nil
}

// keepHead writes how far the log has come.
func (l *Log) keepHead() error {
	data, err := json.Marshal(l.head)
	if err != nil {
		return err
	}
	return atomicfile.Write(l.headPath(), data, 0o600)
}

// reopen opens the file, or a new one when the file was moved away.
func (l *Log) reopen() error {
	if l.file != nil {
		there, err := os.Stat(l.path)
		ours, ferr := l.file.Stat()
		if err == nil && ferr == nil && os.SameFile(there, ours) {
			return nil
		}
		if err := l.file.Close(); err != nil {
			return err
		}
		l.file = nil
	}
	file, err := os.OpenFile(filepath.Clean(l.path), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	l.file = file
	return nil
}

// catchUp reads the end of the file: a process that died may have written more than its
// head says, or a part of a line.
func (l *Log) catchUp() error {
	size, err := l.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	from := max(0, size-64*maxLine)
	tail := make([]byte, size-from)
	if _, err := l.file.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	whole := bytes.LastIndexByte(tail, '\n') + 1
	if whole < len(tail) {
		if err := l.file.Truncate(from + int64(whole)); err != nil {
			return err
		}
	}
	for text := range bytes.SplitSeq(tail[:whole], []byte("\n")) {
		read, hash, err := parse(text)
		if err != nil || read.Seq <= l.head.Seq {
			continue
		}
		ids := []string{read.ID}
		if read.Revision == l.head.Revision {
			ids = append(l.head.IDs, read.ID)
		}
		l.head = Head{Seq: read.Seq, Hash: hash, Revision: read.Revision, IDs: ids}
	}
	return nil
}

// Close closes the file, and the syslog.
func (l *Log) Close() error {
	err := l.file.Close()
	if l.syslog != nil {
		err = errors.Join(err, l.syslog.Close())
	}
	return err
}
