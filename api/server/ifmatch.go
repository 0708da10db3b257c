package server

import (
	"strconv"
	"strings"

	"github.com/oscarfed/oscarfed/controlplane/fault"
)

const ifMatchHeader = "If-Match"

// ifMatch reads the revision that a change is bound to: "<revision>" in quotes,
// also as a weak tag, since proxies make weak ones of ours. 0 binds to none: the
// header is absent, or it is *, which everything that exists matches. A tag that
// no federation can have is a conflict, and never taken for no tag.
func (p *params) ifMatch() (int64, error) {
	values := p.r.Header.Values(ifMatchHeader)
	if len(values) == 0 {
		return 0, nil
	}
	if len(values) > 1 || strings.Contains(values[0], ",") {
		p.violate(ifMatchHeader, "unique", nil, "several entity tags are given; a change is bound to one")
		return 0, nil
	}
	v := strings.TrimSpace(values[0])
	if v == "*" {
		return 0, nil
	}
	tag := strings.TrimPrefix(v, "W/")
	if len(tag) < 2 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		p.violate(ifMatchHeader, "type", nil, `it is no entity tag; send the ETag of an answer as it is, for example "4711" with the quotes, or *`)
		return 0, nil
	}
	revision, err := strconv.ParseInt(tag[1:len(tag)-1], 10, 64)
	if err != nil || revision <= 0 || etag(revision) != tag {
		return 0, errorf(fault.CodeConflict, "no revision of a federation has the entity tag %s; GET it again and decide anew", cut(v, 40))
	}
	return revision, nil
}
