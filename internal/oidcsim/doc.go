// Package oidcsim owns an OpenID provider in one process, for `oscarfed dev` and for tests: discovery,
// keys, userinfo, the authorization code flow with PKCE (RFC 7636), the device flow (RFC 8628),
// refresh tokens and their revocation (RFC 7009), with switches for what a real one does wrong.
//
// It is for one machine: whoever reaches it can be any user who has no password. It answers only
// requests that name its own host, and redirects only to the loopback.
package oidcsim
