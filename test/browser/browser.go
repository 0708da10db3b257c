package browser

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/oscarfed/oscarfed/test/await"
)

// patience is how long a browser may take for anything: the machine may be busy.
const patience = await.Limit

// Browser is a Chromium with one tab and a profile of its own.
type Browser struct {
	t   testing.TB
	ctx context.Context // chromedp keeps the browser in it
	// shown are the documents that were loaded, oldest first.
	shown chan Document
}

// Document is what a browser shows.
type Document struct {
	URL    string
	Status int64
}

// Open starts a browser; it ends with the test.
func Open(t testing.TB) *Browser {
	t.Helper()
	program, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	alloc, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()),
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(patience),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
	)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		// It ends before its profile is removed.
		if err := chromedp.Cancel(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		cancel()
		stop()
	})
	b := &Browser{t: t, ctx: ctx, shown: make(chan Document, 1000)}
	came := map[cdp.LoaderID]Document{} // events come one after another
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventResponseReceived:
			if e.Type == network.ResourceTypeDocument {
				came[e.LoaderID] = Document{URL: e.Response.URL, Status: e.Response.Status}
			}
		case *page.EventLifecycleEvent:
			if d, ok := came[e.LoaderID]; ok && e.Name == "load" {
				b.shown <- d
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, page.SetLifecycleEventsEnabled, page.SetLifecycleEventsEnabledParams{Enabled: true})
	return b
}

// call sends one command to the tab.
func call[P, R any](b *Browser, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// Visit opens an address, and gives the first document that is shown then whose address
// begins with until: the one that was asked for, or where its page leads.
func (b *Browser) Visit(address, until string) Document {
	b.t.Helper()
	if went := call(b, page.Navigate, page.NavigateParams{URL: address}); went.ErrorText != "" {
		b.t.Fatalf("%s: %s", address, went.ErrorText)
	}
	return b.Visited(until)
}

// Visited gives the first document that is shown from now on whose address begins with until.
func (b *Browser) Visited(until string) Document {
	b.t.Helper()
	for late := time.After(patience); ; {
		select {
		case d := <-b.shown:
			if strings.HasPrefix(d.URL, until) {
				return d
			}
		case <-late:
			b.t.Fatalf("%s is not shown", until)
		}
	}
}

// Shown is the text of the document that is shown, as it is now, and the attributes of
// its elements. No script is needed to read it.
func (b *Browser) Shown() (text string, attributes map[string]string) {
	b.t.Helper()
	attributes = map[string]string{}
	var read func(n *cdp.Node)
	read = func(n *cdp.Node) {
		text += n.NodeValue
		for i := 0; i+1 < len(n.Attributes); i += 2 {
			attributes[n.Attributes[i]] = n.Attributes[i+1]
		}
		for _, child := range n.Children {
			read(child)
		}
	}
	read(call(b, dom.GetDocument, dom.GetDocumentParams{Depth: new(int64(-1))}).Root) // all of it
	return text, attributes
}

// installed finds the browser under the names that tools/browser.sh knows.
func installed() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no chromium: run `make browser` as root on Debian, or install Chromium")
}
