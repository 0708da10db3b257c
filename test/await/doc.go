// Package await owns how everything below test/ waits: for an event, by looking
// again and again, and with a limit that only a hang reaches, however busy the
// machine is.
package await
