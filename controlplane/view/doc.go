// Package view is the read model of the store: what this instance knows of it, decoded,
// indexed and consistent at one revision.
//
// State follows a mirror of etcd. Read gives a View, which is valid only while the function
// runs that receives it; data for longer work is copied out. A package that wants to know what
// a refresh has changed subscribes; view imports none of its subscribers. It is a cache: each
// decision that is taken from it is committed by a transaction that compares the record it was
// taken for.
package view
