// Package docs owns the pages for people. What a program shows, and a test runs, of them is embedded.
package docs

import _ "embed"

// FDL is the page on definitions, which `oscarfed explain` reads.
//
//go:embed fdl.md
var FDL string
