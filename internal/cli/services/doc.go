// Package services owns the commands about services and their federations: apply, plan, diff, get,
// describe, graph, wait, history, rollback, pause, delete, replicas, tokens, and what a restore has
// left apart.
package services
