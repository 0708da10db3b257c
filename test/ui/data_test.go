package ui_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/test/world"
)

// TestDataThatTheAdministratorMayNotSee says what to do.
func TestDataThatTheAdministratorMayNotSee(t *testing.T) {
	w := world.New(t, world.Options{Names: []string{"grayify"}})
	w.AwaitStreams(w.CP)
	s := open(t, w)
	s.admin()
	s.goTo("/data", "Data")
	s.Until("document.querySelector('.note.bad')")
	s.accessible("no data")
	s.look("data-none")
}
