package client

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

const (
	// archiveType is the media type of what Support reads.
	archiveType = "application/x-tar"
	// maxSupport in bytes of one archive, which the control plane keeps far smaller.
	maxSupport = 512 << 20
	// lastOfSupport is the file that an archive ends with.
	lastOfSupport = "control-plane.json"
)

// ErrBrokenOff says that an answer ended before it was whole.
var ErrBrokenOff = errors.New("the answer was broken off")

// Support reads what an instance of the control plane gives to who helps, and calls fn with each file, which
// may be up to 64 MiB: its name, without folders, and what is in it. Only ctx bounds it. It ends with fn's
// error, or with ErrBrokenOff.
func (c *Client) Support(ctx context.Context, fn func(name string, content io.Reader) error) error {
	in := call{method: http.MethodGet, path: "/system/support"}
	resp, err := c.send(ctx, in, archiveType+", "+v1.ProblemType, &atomic.Bool{})
	if err != nil {
		return c.noAnswer(ctx, in, true, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != archiveType {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return c.noAnswer(ctx, in, true, err)
		}
		return answerError(in.method, in.path, resp, body)
	}
	archive, last := tar.NewReader(io.LimitReader(resp.Body, maxSupport)), ""
	for {
		file, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF) && last == lastOfSupport:
			return nil
		case errors.Is(err, io.EOF):
			return ErrBrokenOff
		case err != nil:
			return fmt.Errorf("%w: %w", ErrBrokenOff, err)
		case file.Size > maxAnswer:
			return fmt.Errorf("%s: %w", file.Name, errTooLarge)
		}
		if err := fn(file.Name, archive); err != nil {
			return err
		}
		last = file.Name
	}
}
