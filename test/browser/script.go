package browser

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Eval evaluates an expression in the page, awaits it when it is a promise, and decodes its JSON
// into out, unless that is nil. The policy of the page does not hold for it.
func (b *Browser) Eval(expression string, out any) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	yes := true
	got, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{Expression: expression, AwaitPromise: &yes, ReturnByValue: &yes, UserGesture: &yes})
	if err != nil {
		var text string
		if shown, failed := chromedp.Call(b.ctx, runtime.Evaluate, runtime.EvaluateParams{Expression: "document.body.innerText", ReturnByValue: &yes}); failed == nil && shown.Result != nil {
			text = string(shown.Result.Value)
		}
		b.t.Fatalf("%s: %v; the page shows %s", expression, err, text)
	}
	if got.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, describe(got.ExceptionDetails))
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(got.Result.Value, out); err != nil {
		b.t.Fatalf("%s gave %s: %v", expression, got.Result.Value, err)
	}
}

func describe(e *runtime.ExceptionDetails) string {
	if e.Exception != nil {
		return e.Text + " " + e.Exception.Description
	}
	return e.Text
}

// Until waits until an expression is true. It is asked again whenever the document changes.
func (b *Browser) Until(expression string) {
	b.t.Helper()
	b.Eval(fmt.Sprintf(`new Promise((done) => {
		const ask = () => { if (!(%s)) return false; observer.disconnect(); done(true); return true; };
		const observer = new MutationObserver(ask);
		if (!ask()) observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
	})`, expression), nil)
}

// Fill types a text into the first element of a selector, and Click clicks one when it is there
// and can be clicked.
func (b *Browser) Fill(selector, text string) {
	b.t.Helper()
	b.Until(fmt.Sprintf("document.querySelector(%q)", selector))
	b.Eval(fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.focus();
		e.value = %q;
		e.dispatchEvent(new Event('input', {bubbles: true}));
		e.dispatchEvent(new Event('change', {bubbles: true}));
	})()`, selector, text), nil)
}

// Click clicks the first button or link with this text, as soon as it is there and enabled.
func (b *Browser) Click(text string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll('dialog[open] button, dialog[open] a, button, a')].find((e) => e.textContent.trim() === %q && !e.disabled)`, text)
	b.Until(find)
	b.Eval(find+".click()", nil)
}

// Look is how a page is looked at.
type Look struct {
	Width, Height int64
	Dark          bool
	// Motion says that the reader has not asked for less of it.
	Motion bool
}

// Look changes the size of the window and the scheme of colours.
func (b *Browser) Look(l Look) {
	b.t.Helper()
	scheme, motion := "light", "reduce"
	if l.Dark {
		scheme = "dark"
	}
	if l.Motion {
		motion = "no-preference"
	}
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.Width, Height: l.Height, DeviceScaleFactor: 1})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
	}})
}

// Heap is what the page's scripts keep, in bytes, and how many nodes its documents have, once
// what is not needed any more is gone.
func (b *Browser) Heap() (bytes, nodes int64) {
	b.t.Helper()
	call(b, heapprofiler.CollectGarbage, cdp.Empty{})
	used := call(b, runtime.GetHeapUsage, cdp.Empty{})
	counters := call(b, memory.GetDOMCounters, cdp.Empty{})
	return int64(used.UsedSize), counters.Nodes
}

// Screenshot is what the window shows, as a PNG.
func (b *Browser) Screenshot() []byte {
	b.t.Helper()
	return call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
}

// Choose gives a file of this machine to the first element of a selector, as the browser's own
// dialog does.
func (b *Browser) Choose(selector, file string) {
	b.t.Helper()
	b.Until(fmt.Sprintf("document.querySelector(%q)", selector))
	root := call(b, dom.GetDocument, dom.GetDocumentParams{}).Root
	found := call(b, dom.QuerySelector, dom.QuerySelectorParams{NodeID: root.NodeID, Selector: selector})
	call(b, dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: []string{file}, NodeID: found.NodeID})
}
