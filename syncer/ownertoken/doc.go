// Package ownertoken owns the access tokens that users' services are made and called with.
//
// A token comes from one of three places: it was delivered with a request of the owner, the
// cluster that holds the owner's refresh token has granted it, or this cluster is the holder
// and exchanges the refresh token itself (package token). As the holder, this cluster also
// grants tokens to other members, and reports each use of a refresh token.
package ownertoken
