// Package etcdlog owns the bridge from the zap loggers that etcd's packages
// demand to the slog logger of this process.
package etcdlog
