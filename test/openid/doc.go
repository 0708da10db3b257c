// Package openid runs a real OpenID provider for tests, node-oidc-provider, and logs
// users in at it as a browser would. The provider is installed by `make openid`, which
// `make test` does by itself.
//
// It shows that what oscarfed takes from an issuer is what an issuer gives: discovery,
// keys, userinfo, rotated refresh tokens whose reuse ends the grant, revocation. Its
// endpoints have a Keycloak's paths, and its access tokens are JWTs that userinfo
// accepts. What is done wrong by an issuer is played by package issuer.
package openid
