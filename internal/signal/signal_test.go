package signal_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/internal/signal"
)

func TestSignalIsKeptOnce(t *testing.T) {
	s := signal.New()
	s.Send()
	s.Send()
	<-s
	select {
	case <-s:
		t.Error("two that were sent before the receiver looked wake it twice")
	default:
	}
}
