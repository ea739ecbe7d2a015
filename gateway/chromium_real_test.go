//go:build real

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// chromium is a browser that a test drives by WebDriver.
type chromium struct {
	t       *testing.T
	session string // URL
	http    *http.Client
}

// newChromium starts Debian's chromium. With CI set it must be there.
func newChromium(t *testing.T) *chromium {
	t.Helper()
	driver, err := exec.LookPath("chromedriver")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("chromium-driver is not installed")
		}
		t.Skip("not tried: chromium-driver is not installed here")
	}
	port := freePort(t)
	start(t, "chromedriver", []string{"HOME=" + t.TempDir()}, driver, fmt.Sprintf("--port=%d", port))
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	c := &chromium{t: t, http: &http.Client{Timeout: 2 * time.Minute}}
	c.await("chromedriver", func() bool {
		answer, err := c.http.Get(base + "/status")
		if err == nil {
			answer.Body.Close()
		}
		return err == nil
	})
	options := map[string]any{"args": []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--user-data-dir=" + t.TempDir()}}
	var made struct{ SessionID string }
	c.session = base + "/session"
	c.call("POST", "", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{"browserName": "chrome",
		"acceptInsecureCerts": true, "goog:chromeOptions": options, "goog:loggingPrefs": map[string]string{"browser": "ALL"}}}}, &made)
	c.session += "/" + made.SessionID
	t.Cleanup(func() { c.call("DELETE", "", nil, nil) })
	return c
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// call makes one call of WebDriver.
func (c *chromium) call(method, path string, in, out any) {
	c.t.Helper()
	body, err := json.Marshal(in)
	if in == nil {
		body = nil
	}
	var r *http.Request
	if err == nil {
		r, err = http.NewRequest(method, c.session+path, bytes.NewReader(body))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		c.t.Fatalf("%s %s: %d %.500s, %v", method, path, answer.StatusCode, text, err)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(text, &struct{ Value any }{out}); err != nil {
		c.t.Fatalf("%s %s: %v in %.500s", method, path, err, text)
	}
}

func (c *chromium) open(url string) {
	c.t.Helper()
	c.call("POST", "/url", map[string]string{"url": url}, nil)
}

// eval gives what an expression of JavaScript says.
func (c *chromium) eval(expression string) any {
	c.t.Helper()
	var value any
	c.call("POST", "/execute/sync", map[string]any{"script": "return " + expression, "args": []any{}}, &value)
	return value
}

// await polls: the browser is another process.
func (c *chromium) await(what string, ok func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if ok() {
			return
		}
	}
	c.t.Fatalf("not within a minute: %s", what)
}

// see waits until an expression is true.
func (c *chromium) see(expression string) {
	c.t.Helper()
	c.await(expression, func() bool { return c.eval(expression) == true })
}

// press sends keys to the page.
func (c *chromium) press(keys string) {
	c.t.Helper()
	var actions []map[string]string
	for _, key := range keys {
		actions = append(actions, map[string]string{"type": "keyDown", "value": string(key)}, map[string]string{"type": "keyUp",
			"value": string(key)})
	}
	c.call("POST", "/actions", map[string]any{"actions": []any{map[string]any{"type": "key", "id": "k", "actions": actions}}}, nil)
}

// devtools calls the browser's own protocol.
func (c *chromium) devtools(command string, params map[string]any) {
	c.t.Helper()
	c.call("POST", "/goog/cdp/execute", map[string]any{"cmd": command, "params": params}, nil)
}

// looks sets the size of the window and its colours.
func (c *chromium) looks(width, height int, scheme string) {
	c.t.Helper()
	c.devtools("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1,
		"mobile": width < 500})
	c.devtools("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": "prefers-color-scheme",
		"value": scheme}}})
}

// shot keeps a picture in the build folder.
func (c *chromium) shot(name string) {
	c.t.Helper()
	var coded string
	c.call("GET", "/screenshot", nil, &coded)
	picture, err := base64.StdEncoding.DecodeString(coded)
	dir := filepath.Join("..", "bin", "console")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// complaints are what the console of the browser has said since the last call, but for the refusals that a test provokes.
func (c *chromium) complaints() []string {
	c.t.Helper()
	var entries []struct{ Level, Message string }
	c.call("POST", "/se/log", map[string]string{"type": "browser"}, &entries)
	var all []string
	for _, e := range entries {
		if e.Level == "SEVERE" || strings.Contains(e.Message, "Content Security Policy") {
			all = append(all, e.Message)
		}
	}
	return all
}
