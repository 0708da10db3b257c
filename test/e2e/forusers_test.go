package e2e_test

import (
	"net"
	"testing"

	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/world"
)

// The page for users of an OSCAR shows what its commands print.
func TestThePageForUsersOfAnOSCARRuns(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := world.New(t, world.Options{Issuer: issuer.Serve(t, l, "")})
	w.AddUser(ann)
	w.AwaitStreams(w.CP)
	ran := runPage(t, "for-oscar-users.md", t.TempDir(), "API="+w.API, "TOKEN="+w.Token(ann, nil))
	if len(ran) < 8 {
		t.Fatalf("only %d commands", len(ran))
	}
}
