package docs_test

import (
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
	if err != nil || len(got) != 2 || len(below) != 2 || got[0] != below[0] || got[1] != below[1] {
		t.Fatalf("%v and %v, %v", got, below, err)
	}
	if got[0].Language != "text" || !strings.HasPrefix(got[0].Text, "--quota-backend-bytes ") {
		t.Errorf("the first block is %+v", got[0])
	}
	if got[1].Language != "sh" || !strings.HasSuffix(got[1].Text, "# --dry-run shows what it would do\n") {
		t.Errorf("the second block is %+v", got[1])
	}
}

func TestAPageOrAHeadingThatIsNotThereHasNoBlocks(t *testing.T) {
	for _, at := range [][2]string{{"operation.md", ""}, {"operations.md", "Backups"}, {"operations.md", "on every member"}} {
		if got, err := docs.Blocks(at[0], at[1]); err == nil {
			t.Errorf("%v: %v", at, got)
		}
	}
}
