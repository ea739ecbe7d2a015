package asset_test

import (
	"testing"
	"testing/fstest"

	"muster/gateway/internal/console/asset"
)

// TestRead: each file is there by its own name, and its kind follows from how that ends.
func TestRead(t *testing.T) {
	files := fstest.MapFS{"a/x.css": {Data: []byte("x")}, "a/b/x.js": {Data: []byte("y")}, "a/x.svg": {}, "a/x": {}, "other": {}}
	got := asset.Read(files, "a")
	for name, kind := range map[string]string{"x.css": "text/css; charset=utf-8", "x.js": "text/javascript; charset=utf-8",
		"x.svg": "image/svg+xml",
		"x":     "application/octet-stream"} {
		if got[name].Kind != kind {
			t.Errorf("%s is %q", name, got[name].Kind)
		}
	}
	if len(got) != 4 {
		t.Errorf("got %d files", len(got))
	}
	defer func() {
		if recover() == nil {
			t.Error("a folder that is not there was read")
		}
	}()
	asset.Read(files, "none")
}
