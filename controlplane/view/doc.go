// Package view is the read model of the store: what this instance knows of it, decoded,
// indexed and consistent at one revision.
//
// State follows a mirror of etcd. Read gives a View, which is good for as long as the
// function runs that it is given to; what needs long work is copied out of it. Whoever
// wants to know what a refresh has changed subscribes. The package imports none of its
// subscribers. It is a cache: each decision that is taken from it is committed by a
// transaction that compares the record it was taken for.
package view
