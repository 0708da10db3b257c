package identity

import "slices"

// Admin is the owner that OSCAR gives to what its administrator makes.
const Admin = "cluster_admin"

// Caller is somebody whose credentials were accepted.
type Caller struct {
	// Subject is the owner of what the caller makes: cluster_admin for the
	// administrator, the token's sub for a user.
	Subject string
	// Administrator may read, change and delete everything.
	Administrator bool
}

// MayChange says whether the caller may change or delete what owner owns.
func (c Caller) MayChange(owner string) bool {
	return c.Administrator || c.Subject != "" && c.Subject == owner
}

// MayRead follows OSCAR's visibility: public is for everybody, restricted for
// the owner and the allowed users, everything else for the owner.
func (c Caller) MayRead(owner, visibility string, allowed []string) bool {
	switch {
	case c.MayChange(owner), visibility == "public":
		return true
	case visibility == "restricted":
		return slices.Contains(allowed, c.Subject)
	}
	return false
}
