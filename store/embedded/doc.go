// Package embedded owns an etcd server inside this process: its settings, its
// data directory, its start and its end.
//
// It is the default store of oscarfed. Nothing in it is special to oscarfed but
// the settings: any etcd client can connect to Endpoint.
package embedded
