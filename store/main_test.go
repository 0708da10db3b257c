package store_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain looks for goroutines that were left behind. The members of a cluster end
// their connections to each other a moment after they are closed, so it looks more
// than once.
func TestMain(m *testing.M) {
	status := m.Run()
	var left error
	for range 30 {
		if left = goleak.Find(); left == nil || status != 0 {
			break
		}
		<-time.After(time.Second)
	}
	if left != nil && status == 0 {
		fmt.Fprintln(os.Stderr, left)
		status = 1
	}
	os.Exit(status)
}
