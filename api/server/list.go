package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/listing"
)

// maxSelector bounds ?label= in bytes.
const maxSelector = 1 << 10

// listQuery reads ?limit=, ?continue= and ?label=, which all lists have, and ?cluster_id=.
func (p *params) listQuery() listing.Query {
	q := listing.Query{
		Limit: p.limit(), Continue: p.query.Get("continue"), ClusterID: p.query.Get("cluster_id"),
	}
	if len(q.Continue) > listing.MaxToken {
		p.violate("?continue", oscar.RuleMaxLength, len(q.Continue), fmt.Sprintf("a token has %d bytes at most", listing.MaxToken))
		q.Continue = ""
	}
	text := p.query.Get("label")
	switch selector, err := labels.Parse(text); {
	case text == "":
	case len(text) > maxSelector:
		p.violate("?label", oscar.RuleMaxLength, len(text), fmt.Sprintf("a selector has %d bytes at most", maxSelector))
	case err != nil:
		p.violate("?label", oscar.RuleType, respond.Cut(text, 40), "it is no selector of labels, such as site=upv,tier in (edge,cloud): "+err.Error())
	default:
		q.Labels = selector
	}
	return q
}

// ownedQuery is listQuery for what has an owner and one of some phases.
func (p *params) ownedQuery(phases []string) listing.Query {
	q := p.listQuery()
	q.Owner, q.Phases = p.query.Get("owner"), p.anyOf("phase", phases)
	return q
}

// limit reads ?limit=, from 1 to what a page holds; absent gives 0.
func (p *params) limit() int {
	text := p.query.Get("limit")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > v1.MaxPage {
		p.violate("?limit", oscar.RuleQuantity, respond.Cut(text, 40), fmt.Sprintf("give a number from 1 to %d", v1.MaxPage))
		return 0
	}
	return n
}

// writePage answers with a page as an array, one element after the other, and with the token that
// continues it.
func writePage[T any](s *Server, w http.ResponseWriter, r *http.Request, list *listWriter, page *listing.Page[T], wire func(T) (any, error)) error {
	if page.Next != "" {
		w.Header().Set(v1.ContinueHeader, page.Next)
	}
	err := page.Each(func(one T) error {
		element, err := wire(one)
		if err != nil {
			return err
		}
		return list.add(element)
	})
	switch {
	case err == nil:
		list.end()
		return nil
	case list.begun:
		s.log.Warn("a list was broken off", "request_id", respond.StateOf(r).ID, "error", err)
		panic(http.ErrAbortHandler) // it is not taken for a whole one
	}
	w.Header().Del(v1.ContinueHeader)
	return err
}

// listFlush is how much of a list is collected before it is sent. A shorter one is
// sent whole, so that an error can still be its answer.
const listFlush = 256 << 10

// listWriter sends a JSON array as its elements come: in the form of respond.OSCAR, or in that of
// respond.JSON.
type listWriter struct {
	w http.ResponseWriter
	// oscar says that HTML is escaped.
	oscar bool
	buf   bytes.Buffer
	// any says that there was an element, and begun that some of them are sent.
	any, begun bool
}

// add fails when an element cannot be encoded, or when the caller has gone.
func (l *listWriter) add(v any) error {
	before := l.buf.Len()
	l.separate()
	enc := json.NewEncoder(&l.buf)
	enc.SetEscapeHTML(l.oscar)
	if err := enc.Encode(v); err != nil {
		l.buf.Truncate(before)
		return err
	}
	l.buf.Truncate(l.buf.Len() - 1) // the newline that Encode ends with
	if l.buf.Len() >= listFlush {
		return l.send()
	}
	return nil
}

func (l *listWriter) separate() {
	if l.any {
		l.buf.WriteByte(',')
		return
	}
	l.any = true
	l.buf.WriteByte('[')
}

// end sends what is left.
func (l *listWriter) end() {
	if !l.any {
		l.buf.WriteByte('[')
	}
	l.buf.WriteByte(']')
	if !l.begun {
		respond.Body(l.w, http.StatusOK, respond.MediaJSON, l.buf.Bytes())
		return
	}
	_ = l.send() // the caller has gone: the error has no reader
}

func (l *listWriter) send() error {
	if !l.begun {
		l.begun = true
		respond.Header(l.w, respond.MediaJSON)
		l.w.WriteHeader(http.StatusOK)
	}
	_, err := l.w.Write(l.buf.Bytes())
	l.buf.Reset()
	return err
}
