package v1

// RefreshToken is how the refresh token of a federation's owner stands. The token
// itself is never shown.
type RefreshToken struct {
	// State is none, storing, stored, failing, lost, deleting or deleted.
	State string `json:"state"`
	// Holder is the cluster that holds it.
	Holder  string `json:"holder"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// GivenAt is when its owner gave it; RenewedAt when the issuer last gave another
	// one in its place, to within a day.
	GivenAt   *Time `json:"given_at,omitempty"`
	RenewedAt *Time `json:"renewed_at,omitempty"`
	// AgeS is how many seconds ago the later of the two was; Old says that it is to be
	// replaced.
	AgeS int64 `json:"age_s"`
	Old  bool  `json:"old"`
	// Revoked says of a deleted one that its issuer has confirmed the revocation.
	Revoked bool `json:"revoked"`
	// Waiting are the members, as cluster_id/service_name, that want an access token and
	// have none; only a Federation that is asked for by itself has them.
	Waiting []string `json:"waiting,omitempty"`
}

// MemberToken is what a member has of a refresh token.
type MemberToken struct {
	ClusterID   string `json:"cluster_id"`
	ServiceName string `json:"service_name"`
	// State is holds, idle, waits, granted or refused.
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Expires is when a granted access token does.
	Expires *Time `json:"expires,omitempty"`
}

// RefreshTokenStatus is the answer of /system/replicas/{service}/refresh-token.
type RefreshTokenStatus struct {
	GroupID string        `json:"group_id"`
	UID     string        `json:"uid"`
	Token   RefreshToken  `json:"refresh_token"`
	Members []MemberToken `json:"members"`
}
