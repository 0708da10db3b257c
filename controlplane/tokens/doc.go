// Package tokens makes the tokens of services, seals the access tokens of users to the
// clusters that need them, and passes refresh tokens and what was exchanged for them between
// the clusters that hold them and those that want one. No other package sees a token of a
// user in the clear.
package tokens
