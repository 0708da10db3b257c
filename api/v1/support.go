package v1

// The archive that GET /system/support answers with: its media type, and the file that it ends with. One
// that does not is not whole.
const (
	SupportType = "application/x-tar"
	SupportEnd  = "control-plane.json"
)
