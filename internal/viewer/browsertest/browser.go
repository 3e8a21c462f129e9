// Package browsertest opens pages in a headless Chromium. Only tests use it.
package browsertest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is the time limit of a test of a page. It is ample for a slow and busy machine.
const patience = 4 * time.Minute

// Page is an open page.
type Page struct {
	t        *testing.T
	ctx      context.Context
	received atomic.Int64
}

// Open writes a page to a file and opens the file. scheme is light or dark. Without Chromium, Open skips the test. An error
// fails the test if the page's scripts do not catch it, or if they write it to the console.
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
	return Show(t, "file://"+path+fragment, scheme)
}

// Show opens the page of a URL, and waits until its scripts say that it is ready. It is as Open otherwise.
func Show(t *testing.T, url, scheme string) *Page {
	t.Helper()
	p := &Page{t: t, ctx: tab(t)}
	p.do(chromedp.EmulateViewport(1400, 900))
	err := chromedp.Listen(p.ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page failed: %+v", e.ExceptionDetails)
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError {
				t.Errorf("the page logs an error: %+v", e)
			}
		case *network.EventDataReceived:
			p.received.Add(e.EncodedDataLength)
		case *network.EventResponseReceived:
			p.received.Add(int64(e.Response.EncodedDataLength))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Scheme(scheme)
	p.do(chromedp.Navigate(url))
	p.Wait(`document.documentElement.dataset.ready === "yes"`)
	return p
}

// Received returns how many bytes the page has received so far over the network, headers included.
func (p *Page) Received() int64 { return p.received.Load() }

// Scheme makes the browser ask for a light or a dark page.
func (p *Page) Scheme(scheme string) {
	p.t.Helper()
	theme := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: theme}); err != nil {
		p.t.Fatal(err)
	}
}

// Visit opens the page of a URL. Hosts in the domain "example" resolve to this machine. Without Chromium, Visit skips the
// test.
func Visit(t *testing.T, url string) *Page {
	t.Helper()
	p := &Page{t: t, ctx: tab(t)}
	p.do(chromedp.Navigate(url))
	return p
}

// browser is shared by all tests of a package, because its start takes longer than a test.
var browser struct {
	once sync.Once
	ctx  context.Context
	err  error
	end  func()
}

var errNone = errors.New("there is no Chromium on this machine: the page is not tested")

// Main runs the tests of a package, and then ends the browser. Call it from TestMain.
func Main(m *testing.M) int {
	defer func() {
		if browser.end != nil {
			browser.end()
		}
	}()
	return m.Run()
}

// launch starts the browser in its own directory.
func launch() error {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return errNone
	}
	dir, err := os.MkdirTemp("", "browsertest")
	if err != nil {
		return err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1"), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.WSURLReadTimeout(patience))
	allocator, cancelAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	browser.ctx = ctx
	browser.end = func() {
		_ = chromedp.Cancel(ctx) // waits for its end
		cancel()
		cancelAllocator()
		_ = os.RemoveAll(dir)
	}
	return chromedp.Do(ctx)
}

// tab opens a tab for one test.
func tab(t *testing.T) context.Context {
	t.Helper()
	browser.once.Do(func() { browser.err = launch() })
	if errors.Is(browser.err, errNone) {
		t.Skip(browser.err)
	}
	if browser.err != nil {
		t.Fatal(browser.err)
	}
	ctx, cancel := chromedp.NewContext(browser.ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, patience)
	t.Cleanup(cancel)
	return ctx
}

func (p *Page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// polling uses a timer. The default polls once per frame. It fails for a hidden page, because a hidden page may draw no
// frames.
var polling = []chromedp.PollOption{chromedp.WithPollingInterval(20 * time.Millisecond), chromedp.WithPollingTimeout(patience)}

// Wait waits until an expression of JavaScript is true.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Poll[bool](expression, polling...)); err != nil {
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

// Resize changes the size of the page.
func (p *Page) Resize(width, height int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height))
}

// Screenshot writes a picture of the page to a file.
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
