package docs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/docs"
)

func TestBlocksAreThoseBelowAHeading(t *testing.T) {
	all, err := docs.Blocks("operations.md", "")
	if err != nil {
		t.Fatal(err)
	}
	var below []docs.Block
	for _, b := range all {
		if b.Heading == "An external etcd" {
			below = append(below, b)
		}
	}
	got, err := docs.Blocks("operations.md", "An external etcd")
	if err != nil || len(got) != 3 || !slices.Equal(got, below) {
		t.Fatalf("%v and %v, %v", got, below, err)
	}
	if got[1].Language != "text" || !strings.HasPrefix(got[1].Text, "--client-cert-auth ") {
		t.Errorf("the second block is %+v", got[1])
	}
	if got[2].Language != "sh" || !strings.HasSuffix(got[2].Text, " --ca-out /etc/oscarfed/etcd-users\n") {
		t.Errorf("the third block is %+v", got[2])
	}
}

func TestAPageOrAHeadingThatIsNotThereHasNoBlocks(t *testing.T) {
	for _, at := range [][2]string{{"operation.md", ""}, {"operations.md", "Backups"}, {"operations.md", "on every member"}} {
		if got, err := docs.Blocks(at[0], at[1]); err == nil {
			t.Errorf("%v: %v", at, got)
		}
	}
}
