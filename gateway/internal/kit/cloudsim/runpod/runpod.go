// Package runpod is a simulator of RunPod's REST API v2, in the forms of its specification. What a machine runs at its start (Script) is
// its command, with MUSTER_START in its environment.
//
// A field of a pod that is spoilt works too: cluster makes the pod a member of one, and locked locks it.
package runpod

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/gateway/internal/kit/cloudsim"
)

// Endpoints, as faults name them.
const (
	List    = "list"
	Create  = "create"
	Show    = "show"
	Change  = "change"
	Act     = "act"
	Delete  = "delete"
	Catalog = "catalog"
)

// Scopes of keys.
const (
	Read  = "read"
	Write = "write"
)

// GPU is a model in the catalogue.
type GPU struct {
	ID, Name  string
	Memory    int     // GB
	Secure    float64 // dollars an hour, of one; 0: RunPod has none itself
	Community float64
	Most      int            // in one machine
	Free      map[string]int // GPUs that are left in a data center
}

// Sim is a RunPod. Its API is at /v2.
type Sim struct {
	*cloudsim.Sim
	gpus   []GPU
	lastID int
	mux    http.ServeMux
}

// New makes a Sim with these models.
func New(c cloudsim.Config, gpus ...GPU) *Sim {
	s := &Sim{Sim: cloudsim.New(c, rate), gpus: gpus}
	for route, e := range map[string]struct {
		name, scope string
		do          func(*cloudsim.Call) cloudsim.Answer
	}{
		"GET /v2/pods":              {List, Read, s.list},
		"POST /v2/pods":             {Create, Write, s.create},
		"GET /v2/pods/{id}":         {Show, Read, s.show},
		"PATCH /v2/pods/{id}":       {Change, Write, s.change},
		"DELETE /v2/pods/{id}":      {Delete, Write, s.delete},
		"POST /v2/pods/{id}/action": {Act, Write, s.act},
		"GET /v2/catalog/gpus":      {Catalog, Read, s.catalog},
	} {
		s.mux.HandleFunc(route, s.Handle(e.name, func(c *cloudsim.Call) cloudsim.Answer { return s.allowed(c, e.scope, e.do) }))
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"message":"no such page"}`, http.StatusNotFound)
	})
	return s
}

// ServeHTTP answers a call.
func (s *Sim) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// rate is what a machine costs. A container that dies is started again, so that it is charged on. A host that is gone is not.
func rate(m *cloudsim.Machine) int64 {
	switch m.State {
	case cloudsim.Stopped:
		return m.Storage
	case cloudsim.Offline:
		return 0
	}
	return m.Running
}

// allowed does what a key may do.
func (s *Sim) allowed(c *cloudsim.Call, scope string, do func(*cloudsim.Call) cloudsim.Answer) cloudsim.Answer {
	key, _ := strings.CutPrefix(c.Header.Get("Authorization"), "Bearer ")
	switch known, may := s.May(key, scope); {
	case !known:
		return problem(http.StatusUnauthorized, "invalid bearer token")
	case !may:
		return problem(http.StatusForbidden, "access denied")
	case s.TooSoon("", time.Second):
		return problem(http.StatusTooManyRequests, "rate limit exceeded")
	}
	return do(c)
}

func problem(status int, detail string) cloudsim.Answer {
	return cloudsim.Answer{Status: status, Body: map[string]any{"title": http.StatusText(status), "status": status, "detail": detail}}
}

// broken is the answer to a call that says that it failed, and did not.
func broken() cloudsim.Answer { return problem(http.StatusInternalServerError, "oops") }

// pod does something with the pod of a call.
func (s *Sim) pod(c *cloudsim.Call, do func(m *cloudsim.Machine, now time.Time) cloudsim.Answer) (answer cloudsim.Answer) {
	s.With(func(now time.Time) {
		if m := s.Find(c.PathValue("id")); m != nil {
			answer = do(m, now)
			return
		}
		answer = problem(http.StatusNotFound, "pod not found")
	})
	return answer
}

func (s *Sim) list(c *cloudsim.Call) cloudsim.Answer {
	pods := []any{}
	s.With(func(time.Time) {
		for _, m := range s.Live() {
			if m.Spoilt["cluster"] == nil || c.URL.Query().Get("includeClusterPods") == "true" {
				pods = append(pods, row(m))
			}
		}
	})
	return cloudsim.Answer{Body: map[string]any{"pods": c.Rows(pods)}}
}

func (s *Sim) show(c *cloudsim.Call) cloudsim.Answer {
	return s.pod(c, func(m *cloudsim.Machine, _ time.Time) cloudsim.Answer { return cloudsim.Answer{Body: row(m)} })
}

// words are RunPod's for a state, and what it allows then.
var words = map[string]struct {
	status  string
	actions []string
}{
	cloudsim.Loading: {"PROVISIONING", []string{"stop", "terminate"}},
	cloudsim.Running: {"RUNNING", []string{"stop", "restart", "terminate"}},
	cloudsim.Exited:  {"RUNNING", []string{"stop", "restart", "terminate"}},
	cloudsim.Ending:  {"RUNNING", []string{"terminate"}},
	cloudsim.Stopped: {"EXITED", []string{"start", "terminate"}},
	cloudsim.Offline: {"ERROR", []string{"start", "terminate"}},
}

// row is a pod as RunPod writes it.
func row(m *cloudsim.Machine) map[string]any {
	word, ssh, started := words[m.State], any(nil), any(nil)
	cost := float64(0)
	if rate(m) == m.Running {
		cost = float64(m.Running-disk(m.DiskGB)) / 1e6
	}
	if m.State == cloudsim.Running {
		ssh = map[string]any{"host": "127.0.0.1", "port": 34446, "username": "root", "command": "ssh root@127.0.0.1 -p 34446"}
	}
	if !m.StartedAt.IsZero() {
		started = m.StartedAt.UTC().Format(time.RFC3339)
	}
	pod := map[string]any{
		"id": m.ID, "name": m.Name, "image": m.Image, "args": m.Script, "disk": m.DiskGB, "ports": []string{"22/tcp"}, "env": m.Env,
		"registry": nil, "status": word.status, "actions": word.actions, "mounts": map[string]any{}, "cloud": strings.ToUpper(m.Offer),
		"gpu": map[string]any{"id": m.GPU, "count": m.GPUs}, "dataCenterId": m.Region, "cudaVersion": "12.8",
		"ssh": map[string]any{"proxy": nil, "direct": ssh}, "template": nil, "cost": cost, "locked": false, "runtime": nil,
		"globalNetworking": map[string]any{"enabled": false}, "createdAt": m.CreatedAt.UTC().Format(time.RFC3339), "startedAt": started,
	}
	maps.Copy(pod, m.Spoilt)
	return pod
}

// disk is what a container's disk costs an hour, in millionths of a dollar: 10 cents a GB and month.
func disk(gb int) int64 { return int64(gb) * 100_000 / 730 }

func (s *Sim) delete(c *cloudsim.Call) cloudsim.Answer {
	return s.pod(c, func(m *cloudsim.Machine, now time.Time) cloudsim.Answer {
		if m.Spoilt["cluster"] != nil {
			return problem(http.StatusConflict, "pod belongs to a cluster")
		}
		return c.Do(func() { s.end(m, now) }, cloudsim.Answer{Status: http.StatusNoContent}, broken())
	})
}

// act changes a pod's state, if the state that it is in allows that.
func (s *Sim) act(c *cloudsim.Call) cloudsim.Answer {
	var body struct{ Action string }
	if c.Read(&body) != nil {
		return problem(http.StatusUnprocessableEntity, "no such action")
	}
	return s.pod(c, func(m *cloudsim.Machine, now time.Time) cloudsim.Answer {
		locked := m.Spoilt["cluster"] != nil || m.Spoilt["locked"] == true && body.Action != "start"
		if locked || !slices.Contains(words[m.State].actions, body.Action) {
			return problem(http.StatusConflict, "action not valid for current pod status")
		}
		do := map[string]func(*cloudsim.Machine, time.Time){"start": s.Start, "stop": s.Stop, "restart": s.Restart, "terminate": s.end}
		answer := c.Do(func() { do[body.Action](m, now) }, cloudsim.Answer{}, broken())
		if answer.Status == 0 {
			answer.Body = row(m)
		}
		return answer
	})
}

// change sets a pod's environment, from its next start on.
func (s *Sim) change(c *cloudsim.Call) cloudsim.Answer {
	var body struct{ Env map[string]string }
	if c.Read(&body) != nil || body.Env == nil {
		return problem(http.StatusUnprocessableEntity, "nothing to change")
	}
	return s.pod(c, func(m *cloudsim.Machine, _ time.Time) cloudsim.Answer {
		if m.Spoilt["cluster"] != nil {
			return problem(http.StatusConflict, "pod belongs to a cluster")
		}
		answer := c.Do(func() { m.Env = environment(m, body.Env) }, cloudsim.Answer{}, broken())
		if answer.Status == 0 {
			answer.Body = row(m)
		}
		return answer
	})
}

// environment is what the processes of a pod have: what was set, and what RunPod adds.
func environment(m *cloudsim.Machine, set map[string]string) map[string]string {
	env := map[string]string{"RUNPOD_POD_ID": m.ID, "RUNPOD_DC_ID": m.Region, "RUNPOD_GPU_COUNT": strconv.Itoa(m.GPUs)}
	maps.Copy(env, set)
	return env
}

// create places a pod where there is room for it.
func (s *Sim) create(c *cloudsim.Call) cloudsim.Answer {
	var o struct {
		Name, Image, Args, Cloud string
		Disk                     int
		Env                      map[string]string
		DataCenterIDs            []string
		GPU                      struct {
			ID    string
			Count int
		}
	}
	if c.Read(&o) != nil || o.Name == "" || o.Image == "" || o.GPU.Count < 1 || o.Disk < 1 {
		return problem(http.StatusUnprocessableEntity, "request validation failed")
	}
	var answer cloudsim.Answer
	s.With(func(now time.Time) {
		g, center := s.room(o.GPU.ID, o.GPU.Count, o.DataCenterIDs)
		price := g.price(o.Cloud)
		if center == "" || price == 0 {
			answer = problem(http.StatusBadRequest, "there are no longer any instances available with the requested specifications")
			return
		}
		s.lastID++
		m := &cloudsim.Machine{
			ID: fmt.Sprintf("pod%05d", s.lastID), Name: o.Name, Offer: cmp.Or(strings.ToLower(o.Cloud), "secure"), Script: o.Args, Image: o.Image,
			Region: center, GPU: g.ID, GPUs: o.GPU.Count, MiB: int64(g.Memory) << 10, DiskGB: o.Disk,
			Running: int64(math.Round(price*1e6))*int64(o.GPU.Count) + disk(o.Disk),
		}
		m.Env = environment(m, o.Env)
		answer = c.Do(func() { s.Place(m, now); g.Free[center] -= m.GPUs }, cloudsim.Answer{Status: http.StatusCreated}, broken())
		if answer.Status == http.StatusCreated {
			answer.Body = row(m)
		}
	})
	return answer
}
