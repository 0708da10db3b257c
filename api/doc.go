// Package api owns the description of the HTTP API: openapi.yaml. The folders
// below it own the types on the wire (oscar, v1), the server that answers and
// the client that asks.
package api
