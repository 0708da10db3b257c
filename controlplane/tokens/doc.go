// Package tokens makes the tokens of services, seals the access tokens of users to the
// clusters that need them, and passes refresh tokens and what was exchanged for them between
// the clusters that hold them and those that want one. No other package writes a token of a
// user to the store: it is sealed here. Package identity has the caller's access token, and
// runs sends it to clusters.
package tokens
