package record

// New is an empty record of a kind, as a pointer; nil for KindUnknown.
func New(kind Kind) any {
	switch kind {
	case KindMeta:
		return new(Meta)
	case KindInstance:
		return new(Instance)
	case KindCluster:
		return new(Cluster)
	case KindFence:
		return new(Fence)
	case KindElapsed:
		return new(Elapsed)
	case KindFederation:
		return new(Federation)
	case KindName:
		return new(Name)
	case KindHistory:
		return new(History)
	case KindSecrets:
		return new(Secrets)
	case KindRequest:
		return new(Request)
	case KindDeleted:
		return new(Deleted)
	case KindDesiredCluster:
		return new(DesiredCluster)
	case KindDesiredService:
		return new(Desired)
	case KindSpec:
		return new(Spec)
	case KindPart:
		return new(Part)
	case KindOwner:
		return new(Owner)
	case KindTokens:
		return new(Tokens)
	case KindHold:
		return new(Hold)
	case KindHolding:
		return new(Holding)
	case KindTokenAsk:
		return new(TokenAsk)
	case KindGrant, KindGranted:
		return new(Grant)
	case KindWant:
		return new(Want)
	case KindReading:
		return new(Reading)
	case KindAudit:
		return new(Audit)
	case KindObservedCluster:
		return new(ObservedCluster)
	case KindObservedService:
		return new(Observed)
	case KindSession:
		return new(Session)
	case KindAsk:
		return new(Ask)
	case KindShown:
		return new(Shown)
	case KindJoin:
		return new(Join)
	case KindJob:
		return new(Job)
	case KindEvent, KindAssignedEvent, KindOfferedEvent:
		return new(Event)
	case KindDecision:
		return new(Decision)
	case KindReserved:
		return new(Reserved)
	case KindAssignment:
		return new(Assignment)
	case KindJobReport:
		return new(JobReport)
	case KindOffer:
		return new(Offer)
	case KindOfferAnswer:
		return new(OfferAnswer)
	case KindCapacity:
		return new(Capacity)
	case KindUnknown:
	}
	return nil
}
