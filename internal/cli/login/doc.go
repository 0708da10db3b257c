// Package login owns how a person logs in at an OpenID provider from the command line, and the file
// that the login is kept in: the device flow (RFC 8628) and the authorization code flow with PKCE and
// a redirect to the loopback (RFC 7636, RFC 8252). It renews tokens, revokes them (RFC 7009), and
// takes accounts of oscar-cli and oidc-agent. It knows no command, and of the API only its address:
// a login is for one API, and goes to no other.
package login
