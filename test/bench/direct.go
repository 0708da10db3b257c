package main

import (
	"bytes"
	"io"
	"net/http"
)

// direct is an HTTP transport that calls a handler, without a connection.
type direct struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	out := answer{header: http.Header{}}
	d.handler.ServeHTTP(&out, in)
	if out.status == 0 {
		out.status = http.StatusOK
	}
	return &http.Response{
		StatusCode: out.status, Status: http.StatusText(out.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: out.header, Body: io.NopCloser(&out.body), ContentLength: int64(out.body.Len()), Request: r,
	}, nil
}

// answer implements http.ResponseWriter.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}
