package seal

// Purposes of envelopes. One that is sealed for a purpose opens for no other.
const (
	// PurposeSpec is that of a spec: a merge patch with the service token and the secrets.
	PurposeSpec = "spec"
	// PurposeDefinition is that of the secrets of a generation.
	PurposeDefinition = "submitted"
	// PurposePart is that of a part of a definition, whose name is the uid; one of several says which of how
	// many it is. PurposeSpecChanges and PurposeDefinitionChanges are those of what a spec and a generation
	// have besides their parts.
	PurposePart              = "part"
	PurposeSpecChanges       = "spec changes"
	PurposeDefinitionChanges = "submitted changes"
	// PurposeBare is that of a service with nothing but its marks and its token.
	PurposeBare = "bare service"
	// PurposeEvent is that of a job's event.
	PurposeEvent = "job_event"
	// PurposeAccessToken is that of an access token that came with its owner's request, and
	// PurposeGrantedToken that of one that a holder has granted.
	PurposeAccessToken  = "access_token"
	PurposeGrantedToken = "granted_token"
	PurposeRefreshToken = "refresh_token"
	// PurposeShown is that of a service that was asked for after a restore.
	PurposeShown = "shown"
	// PurposeRelay is that of the proof that a syncer opens a stream with.
	PurposeRelay = "relay"
)
