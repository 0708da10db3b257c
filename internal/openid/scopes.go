package openid

// LoginScopes say who a user is and give a refresh token (OpenID Connect Core 1.0, 5.4 and 11), as far as the issuer
// says that it has them.
func LoginScopes() []string { return []string{"openid", "profile", "email", "offline_access"} }

// GroupScopes have an issuer tell the groups of a user: each one has a name of its own for that.
func GroupScopes() []string { return []string{"groups", "entitlements", "eduperson_entitlement"} }
