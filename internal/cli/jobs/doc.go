// Package jobs owns the commands about jobs: submit, list, get, logs, explain, cancel, replay,
// resolve and webhook.
package jobs
