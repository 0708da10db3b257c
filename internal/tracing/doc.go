// Package tracing follows requests through the processes of a federation, as traces of OpenTelemetry.
//
// The id of a traced request is its trace: <trace id>-<span id>, both in hexadecimal as in W3C's
// traceparent, behind the id that a caller chose and a dot. Records carry the id of the request
// that made them, so a process that goes on with a record goes on with its trace: no record needs a
// field for it, and a log line with a request_id names its trace.
//
// A nil Tracer makes no spans. Nor does anything else here without one.
package tracing
