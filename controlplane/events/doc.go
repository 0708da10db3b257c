// Package events owns what has happened lately: to what, where, when, why, and what to do. Events
// are derived from the records that a refresh of the state has replaced; none is written to the
// store. Each instance keeps the newest of each account in memory, within bounds, and says since
// when it knows. It decides nothing.
package events
