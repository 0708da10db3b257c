// Package exit owns the statuses that commands end with, and which status an error means.
package exit
