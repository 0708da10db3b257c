package pki

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// Files is a certificate with its key in two files, read again when they change:
// certificates are renewed while the server runs.
type Files struct {
	certFile, keyFile string
	log               *slog.Logger
	present           atomic.Pointer[loaded]
	// said is what was last said of the certificate's end.
	said saidEnd
}

// saidEnd is what was said of a certificate's end, and on which day of the year.
type saidEnd struct {
	over bool
	day  int
}

// loaded is what was read, and of which files it was.
type loaded struct {
	cert  *tls.Certificate
	stamp [2]stamp
}

type stamp struct {
	changed time.Time
	size    int64
}

// stampOf is zero for a file that is not there.
func stampOf(file string) (stamp, error) {
	info, err := os.Stat(file)
	if err != nil {
		return stamp{}, err
	}
	return stamp{info.ModTime(), info.Size()}, nil
}

// OpenFiles reads a certificate and its key.
func OpenFiles(certFile, keyFile string, log *slog.Logger) (*Files, error) {
	f := &Files{certFile: certFile, keyFile: keyFile, log: log}
	next, err := f.read()
	if err != nil {
		return nil, err
	}
	f.present.Store(next)
	f.sayEnd(time.Now())
	return f, nil
}

// GetCertificate is for tls.Config.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.present.Load().cert, nil
}

// Times are when the certificate in use begins and ends.
func (f *Files) Times() (begins, ends time.Time) {
	leaf := f.present.Load().cert.Leaf
	return leaf.NotBefore, leaf.NotAfter
}

// Watch looks at the files once in an interval until ctx ends. A pair that cannot be
// used, such as one of which a half is new, is not taken over: the present one goes on.
func (f *Files) Watch(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.look()
			f.sayEnd(time.Now())
		}
	}
}

func (f *Files) look() {
	now, err := f.stamps()
	if err == nil && now == f.present.Load().stamp {
		return
	}
	var next *loaded
	if err == nil {
		next, err = f.read()
	}
	if err != nil {
		f.log.Warn("a changed certificate cannot be used; the present one goes on", "file", f.certFile, "error", err,
			"ends", f.present.Load().cert.Leaf.NotAfter)
		return
	}
	f.present.Store(next)
	f.log.Info("a changed certificate is in use", "file", f.certFile, "ends", next.cert.Leaf.NotAfter)
}

// sayEnd says once a day that the certificate in use is over, or has a sixth of its life left: whoever
// verifies it is kept out, and the server sees no more of that than broken handshakes.
func (f *Files) sayEnd(now time.Time) {
	leaf := f.present.Load().cert.Leaf
	left := leaf.NotAfter.Sub(now)
	if left > leaf.NotAfter.Sub(leaf.NotBefore)/6 {
		return
	}
	over := left <= 0
	if f.said == (saidEnd{over, now.YearDay()}) {
		return
	}
	f.said = saidEnd{over, now.YearDay()}
	if over {
		f.log.Error("the certificate is over: nobody who verifies it can connect", "file", f.certFile, "ended", leaf.NotAfter)
		return
	}
	f.log.Warn("the certificate ends soon; it is read again when its files change", "file", f.certFile, "ends", leaf.NotAfter)
}

// read takes the stamps before the contents: a change in between is seen next time.
func (f *Files) read() (*loaded, error) {
	stamps, err := f.stamps()
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", f.certFile, f.keyFile, err)
	}
	return &loaded{&cert, stamps}, nil
}

func (f *Files) stamps() (out [2]stamp, err error) {
	for i, path := range []string{f.certFile, f.keyFile} {
		if out[i], err = stampOf(path); err != nil {
			return out, err
		}
	}
	return out, nil
}
