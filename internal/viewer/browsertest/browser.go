// Package browsertest opens pages in a headless Chromium. Only tests use it.
package browsertest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is for a slow machine: nothing here takes as long where all is well.
const patience = 2 * time.Minute

// Page is an open page.
type Page struct {
	t   *testing.T
	ctx context.Context
}

// Open writes a page to a file and opens it. scheme is light or dark. Where there is no Chromium, the
// test is skipped. An error that the page's scripts do not catch fails the test.
func Open(t *testing.T, write func(*os.File) error, fragment, scheme string) *Page {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	file, err := os.Create(path)
	if err == nil {
		err = errors.Join(write(file), file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &Page{t, start(t)}
	p.do(chromedp.EmulateViewport(1400, 900))
	err = chromedp.Listen(p.ctx, func(event any) {
		if thrown, ok := event.(*runtime.EventExceptionThrown); ok {
			t.Errorf("the page failed: %+v", thrown.ExceptionDetails)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	theme := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: theme}); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.Navigate("file://" + path + fragment))
	p.Wait(`document.documentElement.dataset.ready === "yes"`)
	return p
}

// start starts a browser with a directory of its own, for one test.
func start(t *testing.T) context.Context {
	t.Helper()
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("there is no Chromium on this machine: the page is not tested")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browser), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.WSURLReadTimeout(patience))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the browser, whose directory is removed next
		cancel()
	})
	return ctx
}

func (p *Page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// Wait waits until an expression of JavaScript is true.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(patience))); err != nil {
		p.t.Fatalf("waiting for %s: %v", expression, err)
	}
}

// Keys presses keys.
func (p *Page) Keys(keys string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys))
}

// ShiftKeys presses keys with shift held down.
func (p *Page) ShiftKeys(keys string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys, chromedp.KeyModifiers(chromedp.ModifierShift)))
}

// Click clicks on the first element of a selector.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// Upload chooses files in a file picker.
func (p *Page) Upload(selector string, paths ...string) {
	p.t.Helper()
	p.do(chromedp.SetUploadFiles(chromedp.CSS(selector), paths, chromedp.NodeReady))
}

// Run runs JavaScript.
func (p *Page) Run(script string) {
	p.t.Helper()
	Eval[bool](p, "(() => {"+script+"; return true })()")
}

// Eval returns the value of an expression of JavaScript.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("evaluating %s: %v", expression, err)
	}
	return value
}

// Text returns the text of the first element of a selector.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	return Eval[string](p, "document.querySelector(`"+selector+"`).innerText")
}

// Screenshot writes what is seen to a file.
func (p *Page) Screenshot(path string) {
	p.t.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, picture, 0o600); err != nil {
		p.t.Fatal(err)
	}
}
