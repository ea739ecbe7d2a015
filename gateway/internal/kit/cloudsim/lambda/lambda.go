// Package lambda is a simulator of Lambda Cloud's API v1, in the forms of its specification.
package lambda

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"muster/gateway/internal/kit/cloudsim"
)

// Endpoints, as faults name them.
const (
	List      = "list"
	Show      = "show"
	Types     = "types"
	Launch    = "launch"
	Terminate = "terminate"
)

// Type is a type of instance.
type Type struct {
	Name  string // such as gpu_8x_h100_sxm5
	GPU   string // such as H100 (80 GB SXM5)
	GPUs  int
	Cents int            // an hour
	Free  map[string]int // instances that there is room for in a region
}

// Sim is a Lambda Cloud. Its API is at /api/v1. Any name is that of an ssh key.
type Sim struct {
	*cloudsim.Sim
	types  []Type
	lastID int
	tags   map[string]any // of instances, by their ids; under the lock of With
	mux    http.ServeMux
}

// New makes a Sim with these types.
func New(c cloudsim.Config, types ...Type) *Sim {
	charged := func(m *cloudsim.Machine) int64 { return m.Running } // until it is gone
	s := &Sim{Sim: cloudsim.New(c, charged), types: types, tags: map[string]any{}}
	for route, e := range map[string]struct {
		name  string
		every time.Duration
		do    func(*cloudsim.Call) cloudsim.Answer
	}{
		"GET /api/v1/instances":                      {List, time.Second, s.list},
		"GET /api/v1/instances/{id}":                 {Show, time.Second, s.show},
		"GET /api/v1/instance-types":                 {Types, time.Second, s.offers},
		"POST /api/v1/instance-operations/launch":    {Launch, 12 * time.Second, s.launch},
		"POST /api/v1/instance-operations/terminate": {Terminate, time.Second, s.terminate},
	} {
		s.mux.HandleFunc(route, s.Handle(e.name, func(c *cloudsim.Call) cloudsim.Answer { return s.allowed(c, e.name, e.every, e.do) }))
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"message":"no such page"}`, http.StatusNotFound)
	})
	return s
}

// ServeHTTP answers a call.
func (s *Sim) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// allowed does what a key may do. Lambda's keys have no scopes. A launch counts apart from the rest.
func (s *Sim) allowed(c *cloudsim.Call, name string, every time.Duration, do func(*cloudsim.Call) cloudsim.Answer) cloudsim.Answer {
	key, _ := strings.CutPrefix(c.Header.Get("Authorization"), "Bearer ")
	if known, _ := s.May(key, ""); !known {
		return problem(http.StatusUnauthorized, "global/invalid-api-key", "API key was invalid, expired, or deleted.")
	}
	if name != Launch {
		name = ""
	}
	if s.TooSoon(name, every) {
		return problem(http.StatusTooManyRequests, "global/too-many-requests", "slow down")
	}
	return do(c)
}

func problem(status int, code, message string) cloudsim.Answer {
	return cloudsim.Answer{Status: status, Body: map[string]any{"error": map[string]any{"code": code, "message": message, "suggestion": ""}}}
}

// broken is the answer to a call that says that it failed, and did not.
func broken() cloudsim.Answer {
	return problem(http.StatusInternalServerError, "global/internal-error", "oops")
}

func data(body any) cloudsim.Answer { return cloudsim.Answer{Body: map[string]any{"data": body}} }

func (s *Sim) list(c *cloudsim.Call) cloudsim.Answer {
	all := []any{}
	s.With(func(time.Time) {
		for _, m := range s.Live() {
			all = append(all, s.row(m))
		}
	})
	return data(c.Rows(all))
}

func (s *Sim) show(c *cloudsim.Call) (answer cloudsim.Answer) {
	s.With(func(time.Time) {
		answer = absent()
		if m := s.Find(c.PathValue("id")); m != nil {
			answer = data(s.row(m))
		}
	})
	return answer
}

func absent() cloudsim.Answer {
	return problem(http.StatusNotFound, "global/object-does-not-exist", "Specified instance does not exist.")
}

// words are Lambda's for a state. It does not see a process that dies.
var words = map[string]string{
	cloudsim.Loading: "booting", cloudsim.Running: "active", cloudsim.Exited: "active", cloudsim.Offline: "unhealthy",
	cloudsim.Stopped: "preempted", cloudsim.Ending: "terminating",
}

// row is an instance as Lambda writes it.
func (s *Sim) row(m *cloudsim.Machine) map[string]any {
	ends := map[string]any{"available": m.State != cloudsim.Ending}
	if m.State == cloudsim.Ending {
		ends["reason_code"] = "vm-is-terminating"
	}
	row := map[string]any{
		"id": m.ID, "name": m.Name, "status": words[m.State], "ssh_key_names": []string{"k"}, "file_system_names": []string{},
		"region": map[string]any{"name": m.Region, "description": m.Region}, "instance_type": s.typeOf(m.Offer).row(), "hostname": m.ID,
		"jupyter_token": "jupyter-secret", "jupyter_url": "https://jupyter.example/?token=jupyter-secret", "is_reserved": false,
		"actions": map[string]any{"terminate": ends}, "tags": s.tags[m.ID],
	}
	if m.State != cloudsim.Loading {
		row["ip"], row["private_ip"] = "127.0.0.1", "127.0.0.1"
	}
	maps.Copy(row, m.Spoilt)
	return row
}

func (s *Sim) typeOf(name string) *Type {
	i := slices.IndexFunc(s.types, func(t Type) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &s.types[i]
}

func (t *Type) row() map[string]any {
	return map[string]any{
		"name": t.Name, "description": fmt.Sprintf("%dx %s", t.GPUs, t.GPU), "gpu_description": t.GPU, "price_cents_per_hour": t.Cents,
		"specs": map[string]any{"vcpus": 26, "memory_gib": 200, "storage_gib": 512, "gpus": t.GPUs},
	}
}

func (s *Sim) offers(*cloudsim.Call) cloudsim.Answer {
	all := map[string]any{}
	s.With(func(time.Time) {
		for i := range s.types {
			t, regions := &s.types[i], []any{}
			for _, at := range slices.Sorted(maps.Keys(t.Free)) {
				if t.Free[at] > 0 {
					regions = append(regions, map[string]any{"name": at, "description": at})
				}
			}
			all[t.Name] = map[string]any{"instance_type": t.row(), "regions_with_capacity_available": regions}
		}
	})
	return data(all)
}

// launch places an instance where there is room for it.
func (s *Sim) launch(c *cloudsim.Call) (answer cloudsim.Answer) {
	var o struct {
		Region string   `json:"region_name"`
		Type   string   `json:"instance_type_name"`
		Keys   []string `json:"ssh_key_names"`
		Name   string   `json:"name"`
		Script string   `json:"user_data"`
		Tags   []any    `json:"tags"`
	}
	if c.Read(&o) != nil || len(o.Keys) != 1 || len(o.Name) > 64 {
		return problem(http.StatusBadRequest, "global/invalid-parameters", "Invalid request data.")
	}
	s.With(func(now time.Time) {
		t := s.typeOf(o.Type)
		if t == nil {
			answer = problem(http.StatusNotFound, "global/object-does-not-exist", "there is no such type")
			return
		}
		if t.Free[o.Region] < 1 {
			answer = problem(http.StatusBadRequest, "instance-operations/launch/insufficient-capacity", "Not enough capacity.")
			return
		}
		s.lastID++
		m := &cloudsim.Machine{
			ID: fmt.Sprintf("%032x", s.lastID), Name: o.Name, Offer: t.Name, Script: o.Script, Region: o.Region, GPU: t.GPU, GPUs: t.GPUs,
			Running: int64(t.Cents) * 10_000,
		}
		launch := func() { t.Free[o.Region]--; s.tags[m.ID] = o.Tags; s.Place(m, now) }
		answer = c.Do(launch, data(map[string]any{"instance_ids": []string{m.ID}}), broken())
	})
	return answer
}

// terminate ends instances, and names those that it ends. One that ends already cannot end again.
func (s *Sim) terminate(c *cloudsim.Call) (answer cloudsim.Answer) {
	var o struct {
		IDs []string `json:"instance_ids"`
	}
	if c.Read(&o) != nil || len(o.IDs) == 0 {
		return problem(http.StatusBadRequest, "global/invalid-parameters", "Invalid request data.")
	}
	s.With(func(now time.Time) {
		ended := []any{}
		for _, id := range o.IDs {
			m := s.Find(id)
			if m == nil {
				answer = absent()
				return
			}
			if m.State == cloudsim.Ending {
				answer = problem(http.StatusConflict, "global/conflict", "The request conflicts with the current state of the resource.")
				return
			}
			if c.Fault.Kind != cloudsim.Nothing {
				s.Destroy(m, now)
				s.typeOf(m.Offer).Free[m.Region]++
				row := s.row(m)
				row["status"] = cmp.Or(words[m.State], "terminated")
				ended = append(ended, row)
			}
		}
		answer = data(map[string]any{"terminated_instances": ended})
		if c.Fault.Kind == cloudsim.Half {
			answer = broken()
		}
	})
	return answer
}
