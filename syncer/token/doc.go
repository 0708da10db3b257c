// Package token owns the refresh tokens that a cluster holds for its users: where they
// rest, how they are exchanged for access tokens at their issuers, and how they end.
// It knows nothing of etcd: whom an access token is for is the syncer's to check.
//
// An issuer may rotate: with each access token it gives a new refresh token, and takes
// a second use of the old one for theft, upon which it revokes the whole family. So
//
//   - there is one exchange of a token at a time, and its access token serves all
//     requests until it is nearly over;
//   - that an exchange begins is written to where the token rests, and what it brought
//     is stored there before the access token is used. Both are
//     compare-and-swap: of two holders, say of an old pod and its successor, one
//     finds the other's mark, and neither uses a token that the other has used;
//   - what the issuer refuses for good is lost and never tried again.
//
// What remains: a holder that dies after the issuer's answer and before it is stored,
// which is one write of a Secret. The next holder finds the mark and can only try the
// token that rests there. An issuer that does not rotate, or lets the last token be
// used twice within a grace time, gives another one; one that does not revokes the
// family, and the user has to give a new token.
package token
