package client

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// maxSupport in bytes of one archive, which the control plane keeps far smaller.
const maxSupport = 512 << 20

// ErrBrokenOff says that an answer ended before it was whole.
var ErrBrokenOff = errors.New("the answer was broken off")

// Support reads what an instance of the control plane gives to who helps, and calls fn with each file, which
// may be up to 64 MiB: its name, without folders, and what is in it. Only ctx bounds it. It ends with fn's
// error, or with ErrBrokenOff.
func (c *Client) Support(ctx context.Context, fn func(name string, content io.Reader) error) error {
	resp, err := c.stream(ctx, call{method: http.MethodGet, path: "/system/support"}, v1.SupportType)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	archive, last := tar.NewReader(io.LimitReader(resp.Body, maxSupport)), ""
	for {
		file, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF) && last == v1.SupportEnd:
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
