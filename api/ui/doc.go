// Package ui owns the web page of the control plane: its source in TypeScript (src), and what is
// built of it (dist), which is committed and embedded, so that `go build` needs no Node.js.
// `make ui` builds dist. The package serves nothing: api/server does.
package ui
