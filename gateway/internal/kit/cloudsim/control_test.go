package cloudsim_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/cloudsim"
)

// TestControl: a person kills a machine, and makes calls fail and work again.
func TestControl(t *testing.T) {
	t.Parallel()
	s := cloudsim.New(cloudsim.Config{}, rate)
	s.With(func(now time.Time) { s.Place(&cloudsim.Machine{ID: "7", Name: "mine"}, now) })
	server := httptest.NewServer(s.Control())
	defer server.Close()
	api := httptest.NewServer(s.Handle("one", func(*cloudsim.Call) cloudsim.Answer { return cloudsim.Answer{} }))
	defer api.Close()
	for _, step := range []struct {
		method, path, body string
		status             int
		state              string
		answers            int // what the company's API answers then
	}{
		{"POST", "/machines/7/kill", "", 200, cloudsim.Exited, 200},
		{"POST", "/machines/7/overbid", "", 404, cloudsim.Exited, 200}, // it is not interruptible
		{"POST", "/machines/7/dance", "", 404, cloudsim.Exited, 200},
		{"POST", "/machines/8/kill", "", 404, cloudsim.Exited, 200},
		{"POST", "/faults", `{"On":"one","Kind":"status","Status":503}`, 200, cloudsim.Exited, 503},
		{"POST", "/faults", `{`, 400, cloudsim.Exited, 503},
		{"DELETE", "/faults", "", 200, cloudsim.Exited, 200},
		{"POST", "/machines/7/recover", "", 200, cloudsim.Running, 200},
		{"POST", "/machines/7/lose", "", 200, cloudsim.Offline, 200},
		{"POST", "/machines/7/remove", "", 200, cloudsim.Gone, 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), step.method, server.URL+step.path, strings.NewReader(step.body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got.Body.Close()
		answers, _, err := get(api.URL)
		if state := s.Machines()[0].State; got.StatusCode != step.status || state != step.state || answers != step.answers || err != nil {
			t.Errorf("%s %s is %d, and then it is %s and the API answers %d, %v", step.method, step.path, got.StatusCode, state, answers, err)
		}
	}
	if _, body, err := get(server.URL + "/machines"); !strings.Contains(body, `"Name":"mine"`) || err != nil {
		t.Errorf("the machines are %s, %v", body, err)
	}
}
