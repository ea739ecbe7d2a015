package post

import (
	"net/http"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// TestRetryAfter: seconds or a date, and never longer than is allowed.
func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "-1": 0, "x": 0, "999999999": time.Hour,
		"99999999999999999999": 0, start.Add(time.Minute).Format(http.TimeFormat): time.Minute,
		start.Add(-time.Minute).Format(http.TimeFormat): 0, start.Add(1000 * time.Hour).Format(http.TimeFormat): time.Hour} {
		if got := RetryAfter(text, start, time.Hour); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Sun, 22 Nov 2026 12:00:00 GMT")
	f.Fuzz(func(t *testing.T, text string) {
		if got := RetryAfter(text, start, time.Hour); got < 0 || got > time.Hour {
			t.Errorf("%q: %s", text, got)
		}
	})
}
