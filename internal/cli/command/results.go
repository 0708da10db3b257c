package command

import "io"

// Results is standard output: it keeps the first error of a write, for the many that write lines and do not look.
type Results struct {
	io.Writer

	Err error
}

func (r *Results) Write(p []byte) (int, error) {
	n, err := r.Writer.Write(p)
	if r.Err == nil {
		r.Err = err
	}
	return n, err
}

// Raw is what is below Results: a terminal is drawn on, and other programs get it.
func Raw(w io.Writer) io.Writer {
	if r, ok := w.(*Results); ok {
		return r.Writer
	}
	return w
}
