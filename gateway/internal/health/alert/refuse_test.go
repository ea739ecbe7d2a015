package alert_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/health/alert"
)

// TestOneMessage: a receiver that does not take one alert still gets the others at once.
func TestOneMessage(t *testing.T) {
	a, b := gpu("gpu-1"), gpu("gpu-2")
	h := newHouse(t, a, b, gpu("gpu-3"))
	k := newHook(t)
	k.answers(func(w http.ResponseWriter, r *http.Request) {
		if all := k.all(); all[len(all)-1].alert["node"] == "gpu-1" {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	h.receiver(alert.KindWebhook, "ops", k)
	stale(a)
	stale(b)
	h.pass(70 * time.Second)
	if r := h.contact("ops"); r.Waiting != 1 || r.SentAt == nil || len(k.all()) < 2 {
		t.Errorf("%+v after %d requests", r, len(k.all()))
	}
}

// TestRefusals: what does not take an alert is no delivery, and says what to do.
func TestRefusals(t *testing.T) {
	away := newHook(t)
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		want   string // in the error; empty: it is taken
	}{
		"created": {status(http.StatusCreated), ""},
		"a page": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<html>log in</html>")
		}, "a page for people"},
		"another host": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, away.URL, http.StatusTemporaryRedirect)
		}, "status 307: it sends callers to another place"},
		"see other": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				http.Redirect(w, r, "/other", http.StatusSeeOther)
			}
		}, "status 303"},
		"same host": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/moved" {
				http.Redirect(w, r, "/moved", http.StatusPermanentRedirect)
			}
		}, ""},
		"in a circle": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}, "status 307"},
		"a bad address": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://[::1/path-9f8e7d")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "no connection to"},
		"huge": {func(w http.ResponseWriter, _ *http.Request) {
			for range 2000 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, ""},
		"a huge header": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, "no connection to"},
		"unauthorized":  {status(http.StatusUnauthorized), "does not let the gateway in"},
		"gone":          {status(http.StatusGone), "nothing takes alerts there"},
		"broken":        {status(http.StatusBadGateway), "it is broken"},
		"refused":       {status(http.StatusBadRequest), "does not take this message"},
		"cut":           {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "no connection to"},
	} {
		h := newHouse(t)
		k := newHook(t)
		k.answers(c.answer)
		h.receiver(alert.KindWebhook, "ops", k)
		tried, err := h.desk.Test(t.Context(), "ops", h.by)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if (c.want == "") != (tried.Error == "") || !strings.Contains(tried.Error, c.want) || (tried.Error == "") != (tried.Next == "") ||
			strings.Contains(tried.Error+tried.Next, "9f8e7d") {
			t.Errorf("%s: %+v", name, tried)
		}
	}
	if len(away.all()) != 0 {
		t.Error("another host got it")
	}
}
