package v1

// Upgrade answers POST /system/upgrade/finish.
type Upgrade struct {
	// Form is the newest form of records that is written now, as `instances/<uuid>` announce it.
	Form int `json:"form"`
}
