package outage

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"muster/store"
)

// TestWatch: a database takes writes until an outage is told, and again when its end is told.
func TestWatch(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	w := &Watch{}
	if !w.Writable() {
		t.Error("before anything was told")
	}
	w.note(&store.Outage{}, log)
	if w.Writable() || !strings.Contains(text.String(), "takes no writes") {
		t.Errorf("in an outage: %v, the log is %s", w.Writable(), &text)
	}
	since, _, lasts := w.Lasts()
	w.note(&store.Outage{}, log)
	if again, _, _ := w.Lasts(); !lasts || since.IsZero() || again != since {
		t.Errorf("it lasts since %s, and after a second reason since %s", since, again)
	}
	w.note(nil, log)
	if _, _, lasts = w.Lasts(); lasts {
		t.Error("it lasts after its end")
	}
	if !w.Writable() || !strings.Contains(text.String(), "takes writes again") {
		t.Errorf("after it: %v, the log is %s", w.Writable(), &text)
	}
}
