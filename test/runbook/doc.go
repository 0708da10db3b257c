// Package runbook has tests that do what docs/operations.md says, as it says it: its blocks are run in a shell, on
// machines of their own.
package runbook
