package httpserver_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"muster/gateway/internal/httpserver"
)

// upload takes a body as the registry does. With ?busy it does something else for longer than a Stall after the first bytes.
func upload(w http.ResponseWriter, r *http.Request) {
	body := httpserver.PatientBody(w, r)
	n, err := body.Read(make([]byte, 1))
	if r.URL.RawQuery == "busy" {
		<-time.After(1500 * time.Millisecond)
	}
	if err == nil {
		var rest int64
		rest, err = io.Copy(io.Discard, body)
		n += int(rest)
	}
	switch {
	case err == nil || errors.Is(err, io.EOF):
		fmt.Fprint(w, n)
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.WriteHeader(http.StatusRequestTimeout)
	default:
		w.WriteHeader(http.StatusBadRequest)
	}
}

// slowly is a body that comes in pieces with a pause before each.
type slowly struct {
	pieces, size int
	pause        *time.Ticker
}

func (s *slowly) Read(p []byte) (int, error) {
	if s.pieces == 0 {
		return 0, io.EOF
	}
	<-s.pause.C
	s.pieces--
	return copy(p, bytes.Repeat([]byte("a"), s.size)), nil
}

// TestUploads: a large body may take many times as long as a usual one, by HTTP/1 and HTTP/2, and the server too may take its time. A peer
// that sends next to nothing is cut off.
func TestUploads(t *testing.T) {
	for _, c := range []struct {
		name, query  string
		pieces, size int
		want         int
	}{
		{"slow and steady", "", 20, 8 << 10, 200},
		{"the server is busy", "?busy", 4, 8 << 10, 200},
		{"byte by byte", "", 100, 1, 408},
	} {
		for _, second := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", c.name, second), func(t *testing.T) {
				t.Parallel()
				limits := quick()
				limits.Stall = time.Second // on a busy machine, the client may pause for long
				h := newHouse(t, limits)
				url := "http://" + h.plain
				client := &http.Client{Transport: &http.Transport{}}
				if second {
					client = h.tls.Client()
					url = h.tls.URL
				}
				defer client.CloseIdleConnections()
				body := &slowly{pieces: c.pieces, size: c.size, pause: time.NewTicker(40 * time.Millisecond)}
				defer body.pause.Stop()
				answer, err := client.Post(url+"/upload"+c.query, "", body)
				if err != nil && c.want == http.StatusRequestTimeout {
					return // the connection was cut before its answer was read
				}
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				got, _ := io.ReadAll(answer.Body)
				if answer.StatusCode != c.want || c.want == 200 && string(got) != fmt.Sprint(c.pieces*c.size) {
					t.Errorf("got %d %s", answer.StatusCode, got)
				}
				if second != strings.HasPrefix(answer.Proto, "HTTP/2") {
					t.Errorf("by %s", answer.Proto)
				}
			})
		}
	}
}

// TestPatientCopies: what is copied to a patient writer arrives whole, from a reader with a bound and from one without.
func TestPatientCopies(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // more than one piece
	for name, from := range map[string]func() io.Reader{
		"bounded":           func() io.Reader { return io.LimitReader(bytes.NewReader(content), int64(len(content))) },
		"unbounded":         func() io.Reader { return struct{ io.Reader }{bytes.NewReader(content)} },
		"shorter than said": func() io.Reader { return io.LimitReader(bytes.NewReader(content), 1<<40) },
	} {
		w := httptest.NewRecorder()
		n, err := io.Copy(httpserver.Patient(w), from())
		if err != nil || n != int64(len(content)) || !bytes.Equal(w.Body.Bytes(), content) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
	fault := errors.New("the disk")
	if n, err := io.Copy(httpserver.Patient(httptest.NewRecorder()), io.MultiReader(strings.NewReader("half"), iotest.ErrReader(fault))); n != 4 ||
		!errors.Is(err, fault) {
		t.Errorf("%d bytes, %v", n, err)
	}
}
