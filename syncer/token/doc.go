// Package token owns the refresh tokens that a cluster holds for its users: it stores them,
// exchanges them for access tokens at their issuers, and revokes and deletes them. It knows
// nothing of etcd; the syncer checks who may have an access token.
//
// An issuer may rotate tokens: with each access token it gives a new refresh token. It takes a
// second use of the old one for theft, and then revokes all tokens of the family. So
//
//   - a Keeper makes one exchange of a token at a time, and gives the access token to all
//     callers until it has nearly expired;
//   - it marks the stored token before an exchange, and stores the new refresh token before it
//     gives the access token out. Both writes are compare-and-swap: of two holders, such as an
//     old pod and its successor, one finds the other's mark, and neither uses a token that the
//     other has used;
//   - a token that the issuer refuses for good is lost and never tried again.
//
// One gap remains: a holder may die after the issuer's answer and before the write of the
// Secret that stores it. The next holder finds the mark and can only try the stored token. An
// issuer that does not rotate, or accepts the last token twice within a grace time, gives
// another one. Any other issuer revokes the family, and the user has to give a new token.
package token
