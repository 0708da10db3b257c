package signal

// Signal wakes one goroutine that receives from it now or later. Several that are sent before it
// receives wake it once.
type Signal chan struct{}

// New makes a Signal.
func New() Signal { return make(Signal, 1) }

// Send never blocks.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
