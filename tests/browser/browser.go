// Package browser opens pages in a headless Chromium and looks for faults of their layout.
package browser

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Browser is a running Chromium, which speaks the DevTools protocol over pipes.
type Browser struct {
	to      io.WriteCloser
	from    *bufio.Reader
	last    int         // id of the last command
	session string      // of the open page, "": none
	heard   func(event) // hears each event of the page; nil: nobody
}

// names are the names that Chromium may have.
var names = []string{"chromium", "chromium-browser", "google-chrome"}

// Open starts a Chromium that ends with the test. Without one the test is skipped.
func Open(t *testing.T) *Browser {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("no pipes of another process's own on Windows")
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return start(t, path)
		}
	}
	t.Skip("no chromium")
	return nil
}

// patience is how long the browser may take for everything.
const patience = 3 * time.Minute

func start(t *testing.T, path string) *Browser {
	t.Helper()
	dir, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--user-data-dir="+dir, "--remote-debugging-pipe", "--hide-scrollbars", "--force-device-scale-factor=1", "about:blank")
	c.ExtraFiles = []*os.File{in, out} // it reads 3 and writes 4
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	late := time.AfterFunc(patience, func() { c.Process.Kill() })
	b := &Browser{to: to, from: bufio.NewReader(from)}
	t.Cleanup(func() {
		b.command("Browser.close", nil, nil) // an error is that it is gone
		late.Stop()
		gone := time.AfterFunc(10*time.Second, func() { c.Process.Kill() })
		c.Wait()
		gone.Stop()
		to.Close()
		from.Close()
		os.RemoveAll(dir) // best effort: a late child may still write
	})
	return b
}

// message is what Chromium sends: the answer to a command, or an event.
type message struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
	event
}

type event struct {
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Session string          `json:"sessionId"`
}

// command sends a command and waits for its answer; events before it are heard.
func (b *Browser) command(method string, params map[string]any, out any) error {
	b.last++
	send := map[string]any{"id": b.last, "method": method}
	if params != nil {
		send["params"] = params
	}
	if b.session != "" && !strings.HasPrefix(method, "Target.") && !strings.HasPrefix(method, "Browser.") {
		send["sessionId"] = b.session
	}
	data, err := json.Marshal(send)
	if err != nil {
		return err
	}
	if _, err := b.to.Write(append(data, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		m, err := b.read()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", method, err)
		case m.ID != b.last:
			continue
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case out == nil:
			return nil
		}
		return json.Unmarshal(m.Result, out)
	}
}

// read returns the next message. An event of the page is heard before.
func (b *Browser) read() (m message, err error) {
	data, err := b.from.ReadBytes(0)
	if err != nil {
		return m, fmt.Errorf("chromium is gone: %w", err)
	}
	if err := json.Unmarshal(data[:len(data)-1], &m); err != nil {
		return m, err
	}
	if m.Method != "" && b.heard != nil && m.Session == b.session {
		b.heard(m.event)
	}
	return m, nil
}

// View is how a page is looked at.
type View struct {
	Width, Height int  // of the window, in pixels
	Dark          bool // the user prefers dark pages
}

func (v View) String() string {
	if v.Dark {
		return fmt.Sprintf("%d dark", v.Width)
	}
	return fmt.Sprintf("%d light", v.Width)
}

// Seen is what was found on a page.
type Seen struct {
	Faults   []string // of the layout, of scripts, and each request to anywhere
	Headings []string
	Shot     []byte // a PNG of the whole page as it opens
}

//go:embed faults.js
var faults string

// Look opens the page in a file. Of what can be opened and closed, all is opened after the picture was taken.
func (b *Browser) Look(t *testing.T, path string, v View) (s Seen) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatalf("%s, %v: %v", path, v, err)
		}
	}
	var made struct{ TargetID, SessionID string }
	must(b.command("Target.createTarget", map[string]any{"url": "about:blank"}, &made))
	target := made.TargetID
	must(b.command("Target.attachToTarget", map[string]any{"targetId": target, "flatten": true}, &made))
	b.session = made.SessionID
	loaded := false
	b.heard = func(e event) {
		loaded = loaded || e.Method == "Page.loadEventFired"
		if fault := faultOf(e); fault != "" {
			s.Faults = append(s.Faults, fault)
		}
	}
	defer func() {
		b.heard, b.session = nil, ""
		b.command("Target.closeTarget", map[string]any{"targetId": target}, nil)
	}()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		must(b.command(domain+".enable", nil, nil))
	}
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	must(b.command("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil))
	must(b.command("Emulation.setDeviceMetricsOverride", map[string]any{"width": v.Width, "height": v.Height, "deviceScaleFactor": 1, "mobile": false}, nil))
	must(b.command("Page.navigate", map[string]any{"url": "file://" + path}, nil))
	for !loaded {
		_, err := b.read()
		must(err)
	}
	must(b.eval("document.fonts.ready.then(() => true)", nil))
	var shot struct{ Data []byte }
	must(b.command("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot))
	s.Shot = shot.Data
	var found struct{ Faults, Headings []string }
	must(b.eval(faults, &found))
	s.Faults, s.Headings = append(s.Faults, found.Faults...), found.Headings
	return s
}

// eval evaluates a script in the page and decodes its value.
func (b *Browser) eval(script string, out any) error {
	var r struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		ExceptionDetails json.RawMessage `json:"exceptionDetails"`
	}
	if err := b.command("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &r); err != nil {
		return err
	}
	if r.ExceptionDetails != nil {
		return fmt.Errorf("the script of the test failed: %s", r.ExceptionDetails)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(r.Result.Value, out)
}

// faultOf says what an event tells against the page, "": nothing.
func faultOf(e event) string {
	var p struct {
		Type    string
		Request struct{ URL string }
		Args    []struct{ Value any }
		Entry   struct{ Level, Text string }
		Details struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	if err := json.Unmarshal(e.Params, &p); err != nil {
		return "" // an event with fields of other types is none of those below
	}
	switch e.Method {
	case "Network.requestWillBeSent":
		if u := p.Request.URL; !strings.HasPrefix(u, "data:") && (p.Type != "Document" || !strings.HasPrefix(u, "file:")) {
			return "asks for " + u
		}
	case "Runtime.consoleAPICalled":
		return fmt.Sprintf("console, %s: %v", p.Type, p.Args)
	case "Runtime.exceptionThrown":
		return "script: " + p.Details.Text + " " + p.Details.Exception.Description
	case "Log.entryAdded":
		return "console, " + p.Entry.Level + ": " + p.Entry.Text
	}
	return ""
}
