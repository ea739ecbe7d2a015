package remote

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
)

// roundTrip answers requests without a network, so that time is the test's own.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func bubbleClient(f roundTrip) *client.Client {
	return &client.Client{BaseURL: "http://gateway", HTTP: &http.Client{Transport: f}}
}

func jsonAnswer(r *http.Request, status int, text string) *http.Response {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.WriteString(text)
	answer := w.Result()
	answer.Request = r
	return answer
}

// TestBeat: an end whose reader takes its time goes on to be heard, well before the gateway gives it up.
func TestBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var beats atomic.Int64
		c := bubbleClient(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get(pipe.ParamAt) == "0" && r.Method == http.MethodPost {
				beats.Add(1)
				return jsonAnswer(r, 200, `{"next":0}`), nil
			}
			return jsonAnswer(r, 201, `{"id":"s-1","node_id":"n"}`), nil
		})
		s, err := Open(t.Context(), c, "gpu-1", api.SessionAsk{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * wire.SessionBridge)
		synctest.Wait()
		if got := beats.Load(); got < 10 || got > 40 {
			t.Errorf("it was heard %d times in ten times the bridge", got)
		}
		s.Close()
	})
}

// TestPatience: a request that nobody answers ends a little after the gateway would have answered.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWay(bubbleClient(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), api.Session{ID: "s-1", NodeID: "n"})
		began := time.Now()
		if _, err := w.Fetch(t.Context(), pipe.Main, 0, nil); err == nil {
			t.Error("nobody answered, and that is no error")
		}
		if took := time.Since(began); took <= wire.PieceWait || took > wire.PieceWait+10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestTroubleIsToldOnce: what heals at once is no news, and one outage is told once, whatever the directions say.
func TestTroubleIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []error
		s := &Session{Trouble: func(err error) { told = append(told, err) }}
		s.trouble(errors.New("blip"))
		time.Sleep(troubleTime / 2)
		s.trouble(nil)
		s.trouble(errors.New("down"))
		if len(told) != 0 {
			t.Fatalf("told: %v", told)
		}
		time.Sleep(troubleTime)
		s.trouble(errors.New("down"))
		s.trouble(errors.New("down for the other direction"))
		if len(told) != 1 || told[0] == nil {
			t.Fatalf("told: %v", told)
		}
		s.trouble(nil)
		s.trouble(nil)
		if len(told) != 2 || told[1] != nil {
			t.Errorf("told: %v", told)
		}
		(&Session{}).trouble(errors.New("nobody listens"))
	})
}
