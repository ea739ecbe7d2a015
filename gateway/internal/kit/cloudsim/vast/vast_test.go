package vast_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/gateway/internal/kit/cloudsim"
	"muster/gateway/internal/kit/cloudsim/vast"
)

// ask calls the simulator. It gives the status and the JSON.
func ask(t *testing.T, s *vast.Sim, method, path, body string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer key")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s answers %q: %v", method, path, w.Body, err)
	}
	return w.Code, answer
}

// TestWireForms: what vast.ai is known to answer, beyond what muster's own client asks for.
func TestWireForms(t *testing.T) {
	t.Parallel()
	s := vast.New(cloudsim.Config{Keys: map[string][]string{"key": nil}}, vast.Host{ID: 1, GPUs: 1, Price: 1}, vast.Host{ID: 2, GPUs: 1,
		Price: 1})
	id, err := s.Rent(1, "mine")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rent(3, ""); err == nil {
		t.Error("a host that is not there was rented")
	}
	if _, err := s.Rent(2, "other"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		method, path, body string
		status             int
		has                string
	}{
		{"GET", "/api/v0/instances/", "", 410, `"deprecated_endpoint"`},
		{"GET", "/api/v1/instances/", "", 200, vast.Secret},
		{"GET", "/api/v1/instances/?limit=1", "", 200, `"instances_found":1`},
		{"GET", "/api/v1/instances/?limit=1", "", 200, `"total_instances":2`},
		{"GET", "/api/v1/instances/?limit=-1", "", 200, `"next_token":null`},
		{"GET", "/api/v1/instances/?after_token=x", "", 400, `"invalid_token"`},
		{"GET", "/api/v1/instances/?select_cols=x", "", 400, `"invalid_request"`},
		{"GET", `/api/v1/instances/?select_cols=["id","no"]`, "", 200, `"no":null`},
		{"GET", "/api/v0/instances/1/", "", 200, `"instances":null`},
		{"PUT", "/api/v0/instances/" + id + "/", `{"state":"asleep"}`, 400, `"invalid_args"`},
		{"PUT", "/api/v0/instances/1/", `{"state":"stopped"}`, 404, `"no_such_instance"`},
		{"PUT", "/api/v0/instances/update_template/" + id + "/", `{`, 400, `"invalid_args"`},
		{"DELETE", "/api/v0/instances/1/", `{}`, 404, `"no_such_instance"`},
		{"PUT", "/api/v0/asks/500001/", `{"image":"i","disk":8}`, 410, "no_such_ask"},
		{"PUT", "/api/v0/asks/7/", `{"image":"i","disk":8}`, 404, "no_such_ask"},
		{"PUT", "/api/v0/asks/500001/", `{"image":"i","disk":7}`, 400, "invalid_args"},
		{"POST", "/api/v0/bundles/", `{"type":"gift"}`, 400, "invalid_request"},
	} {
		status, answer := ask(t, s, test.method, test.path, test.body)
		text, err := json.Marshal(answer)
		if status != test.status || !strings.Contains(string(text), test.has) || err != nil {
			t.Errorf("%s %s answers %d %s, want %d with %s", test.method, test.path, status, text, test.status, test.has)
		}
	}
}

// TestStartWaits: a stopped instance whose GPUs somebody else has is wanted, and does not run.
func TestStartWaits(t *testing.T) {
	t.Parallel()
	s := vast.New(cloudsim.Config{Keys: map[string][]string{"key": nil}}, vast.Host{ID: 1, GPUs: 1, Price: 1})
	mine, _ := s.Rent(1, "mine")
	ask(t, s, "PUT", "/api/v0/instances/"+mine+"/", `{"state":"stopped"}`)
	other, _ := s.Rent(1, "other")
	for _, want := range []string{cloudsim.Stopped, cloudsim.Running} {
		ask(t, s, "PUT", "/api/v0/instances/"+mine+"/", `{"state":"running"}`)
		if m := s.Machines()[0]; m.State != want || m.Wanted != cloudsim.Running {
			t.Errorf("it is %s and wanted %s, want %s", m.State, m.Wanted, want)
		}
		s.Remove(other)
	}
}

// TestBroken: an instance on a broken host never runs, and says why. A hidden host is not offered.
func TestBroken(t *testing.T) {
	t.Parallel()
	s := vast.New(cloudsim.Config{Keys: map[string][]string{"key": nil}}, vast.Host{ID: 1, GPU: "X", GPUs: 1, Price: 1, Broken: true})
	search := func() int {
		_, answer := ask(t, s, "POST", "/api/v0/bundles/", `{"type":"on-demand","gpu_name":{"in":["X"]}}`)
		return len(answer["offers"].([]any))
	}
	if search() != 1 {
		t.Error("a broken host is not offered")
	}
	s.Hide(1, true)
	if search() != 0 {
		t.Error("a hidden host is offered")
	}
	s.Hide(1, false)
	id, _ := s.Rent(1, "mine")
	if _, answer := ask(t, s, "GET", "/api/v0/instances/"+id+"/", ""); answer["instances"].(map[string]any)["actual_status"] != "loading" ||
		!strings.Contains(answer["instances"].(map[string]any)["status_msg"].(string), "OCI runtime create failed") {
		t.Errorf("it is %v", answer)
	}
}
