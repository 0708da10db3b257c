// Package runbook has tests that do what docs/operations.md and docs/debugging.md say, as they say it: their blocks are
// run in a shell, on machines of their own. Its table says of each block of a page which test runs it.
package runbook
