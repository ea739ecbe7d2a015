package inside_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"muster/gateway/internal/console/inside"
)

// asks calls a handler by the transport.
func asks(t *testing.T, handler http.HandlerFunc) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://console/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := inside.Transport{Handler: handler}.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestInside: an answer comes while its handler still writes, whatever is changed in its header later, and who leaves ends the handler.
func TestInside(t *testing.T) {
	left := make(chan error)
	answer := asks(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-A", "1")
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-A", "2")
		w.WriteHeader(http.StatusOK)
		piece := bytes.Repeat([]byte("x"), 1<<20)
		for {
			if _, err := w.Write(piece); err != nil {
				left <- err
				return
			}
		}
	})
	some := make([]byte, 3<<20)
	if _, err := io.ReadFull(answer.Body, some); err != nil || answer.StatusCode != http.StatusTeapot || answer.Header.Get("X-A") != "1" {
		t.Errorf("%d %v, %v", answer.StatusCode, answer.Header, err)
	}
	answer.Body.Close()
	if err := <-left; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the handler hears %v", err)
	}
	if answer := asks(t, func(http.ResponseWriter, *http.Request) {}); answer.StatusCode != http.StatusOK {
		t.Errorf("without a word: %d", answer.StatusCode)
	}
}

// TestInsideBreaks: an answer that breaks off does not look whole, and a panic reaches who reads.
func TestInsideBreaks(t *testing.T) {
	answer := asks(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	})
	if text, err := io.ReadAll(answer.Body); string(text) != "half" || err == nil || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("got %q, %v", text, err)
	}
	answer = asks(t, func(http.ResponseWriter, *http.Request) { panic("a fault") })
	defer func() {
		if got := recover(); got != "a fault" {
			t.Errorf("got %v", got)
		}
	}()
	_, err := io.ReadAll(answer.Body)
	t.Errorf("it was read: %v", err)
}
