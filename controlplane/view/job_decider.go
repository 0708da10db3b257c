package view

// Nudge wakes the reader of a channel that has room for one signal.
func Nudge(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
