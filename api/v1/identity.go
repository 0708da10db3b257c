package v1

// Login says how people log in: the answer of GET /system/login, which needs no credentials.
type Login struct {
	// Issuers whose users are let in; empty when there is only the administrator.
	Issuers []LoginIssuer `json:"issuers"`
}

// LoginIssuer is one OpenID provider.
type LoginIssuer struct {
	// Issuer is its URL, as it stands in its tokens.
	Issuer string `json:"issuer"`
	// ClientID is the public client that people log in with; empty when none is named.
	ClientID string `json:"client_id,omitempty"`
	// Scopes to ask for; empty leaves them to the client (package openid, LoginScopes).
	Scopes []string `json:"scopes,omitempty"`
}

// Rights of a caller, as GET /system/whoami names them.
const (
	// RightOwn: make, change and delete services and jobs of one's own.
	RightOwn = "own"
	// RightStorage: read and write one's own files, buckets and volumes.
	RightStorage = "storage"
	// RightAll: read, change and delete what everybody owns.
	RightAll = "all"
	// RightClusters: register, change and remove clusters, and resolve differences.
	RightClusters = "clusters"
)

// WhoAmI is the answer of GET /system/whoami: who the control plane takes the caller for.
type WhoAmI struct {
	// Subject is the token's sub, or cluster_admin.
	Subject string `json:"subject"`
	// Name is what the issuer calls the user; empty when it does not.
	Name          string `json:"name,omitempty"`
	Administrator bool   `json:"administrator"`
	// Owner is what stands as owner in the services that the caller makes.
	Owner string `json:"owner"`
	// Issuer and ClientID are those of the access token; empty for the administrator.
	Issuer   string `json:"issuer,omitempty"`
	ClientID string `json:"client_id,omitempty"`
	// Groups are those that the issuer tells of.
	Groups []string `json:"groups"`
	// Rights are the Right constants.
	Rights []string `json:"rights"`
	// TokenExpiresAt is null without an access token.
	TokenExpiresAt *Time `json:"token_expires_at"`
}
