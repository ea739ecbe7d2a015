// Package vast simulates vast.ai as far as muster speaks to it: instances, offers, keys, limits, and the secrets that stand in its rows.
package vast

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/gateway/internal/kit/cloudsim"
)

// Endpoints, as a cloudsim.Fault names them.
const (
	List    = "list"
	Show    = "show"
	Manage  = "manage"
	Update  = "update"
	Destroy = "destroy"
	Create  = "create"
	Search  = "search"
	Models  = "models"
)

// Scopes of keys.
const (
	Read  = "instance_read"
	Write = "instance_write"
	Misc  = "misc"
)

// Secret is in each row of an instance, and nowhere may it come to light.
const Secret = "5ecret-0f-vast"

// Host is a machine that somebody rents out, all of it at once.
type Host struct {
	ID     int64 // machine_id
	GPU    string
	GPUs   int
	MiB    int64 // of one GPU
	Price  int64 // of its GPUs, millionths of a dollar an hour
	MinBid int64 // the same for an interruptible instance; 0: there are none
	Disk   int64 // of a GB, millionths of a dollar an hour
	Place  string
	Broken bool // containers do not start on it
	Hidden bool // it is not offered
}

// Sim is a simulated vast.ai. It is an http.Handler.
type Sim struct {
	*cloudsim.Sim
	mux   *http.ServeMux
	hosts []*Host
}

// New makes a Sim with these hosts.
func New(c cloudsim.Config, hosts ...Host) *Sim {
	s := &Sim{Sim: cloudsim.New(c, rate), mux: http.NewServeMux()}
	for _, h := range hosts {
		s.hosts = append(s.hosts, &h)
	}
	for _, e := range []struct {
		pattern, name, scope string
		every                time.Duration
		do                   func(*cloudsim.Call, time.Time) cloudsim.Answer
	}{
		{"GET /api/v1/instances/{$}", List, Read, time.Second, s.list},
		{"GET /api/v0/instances/{id}/{$}", Show, Read, 2 * time.Second, s.show},
		{"PUT /api/v0/instances/{id}/{$}", Manage, Write, time.Second, s.manage},
		{"PUT /api/v0/instances/update_template/{id}/{$}", Update, Write, time.Second, s.update},
		{"DELETE /api/v0/instances/{id}/{$}", Destroy, Write, 3 * time.Second, s.destroy},
		{"PUT /api/v0/asks/{id}/{$}", Create, Write, 4500 * time.Millisecond, s.create},
		{"POST /api/v0/bundles/{$}", Search, Misc, 6 * time.Second, s.search},
		{"GET /api/v0/gpu_names/unique/{$}", Models, Misc, 0, s.models},
	} {
		s.mux.HandleFunc(e.pattern, s.Handle(e.name, func(c *cloudsim.Call) cloudsim.Answer {
			if no := s.refuses(c, e.name, e.scope, e.every); no != nil {
				return *no
			}
			var answer cloudsim.Answer
			s.With(func(now time.Time) { answer = e.do(c, now) })
			return answer
		}))
	}
	s.mux.HandleFunc("GET /api/v0/instances/{$}", s.Handle("", func(*cloudsim.Call) cloudsim.Answer {
		return fails(http.StatusGone, "deprecated_endpoint", "This endpoint is deprecated.")
	}))
	return s
}

// ServeHTTP answers as vast.ai does.
func (s *Sim) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// rate is what is charged for a machine: its disk always, its GPUs while it runs.
func rate(m *cloudsim.Machine) int64 {
	if m.State == cloudsim.Running {
		return m.Running
	}
	return m.Storage
}

// fails is an answer that says no.
func fails(status int, code, msg string) cloudsim.Answer {
	return cloudsim.Answer{Status: status, Body: map[string]any{"success": false, "error": code, "msg": msg}}
}

func noSuch() cloudsim.Answer {
	return fails(http.StatusNotFound, "no_such_instance", "Instance not found")
}

var done = map[string]any{"success": true}

// refuses is an answer to who may not call, or calls too soon; nil: the call goes on. A search tells of a bad key with 404.
func (s *Sim) refuses(c *cloudsim.Call, endpoint, scope string, every time.Duration) *cloudsim.Answer {
	key := strings.TrimPrefix(c.Header.Get("Authorization"), "Bearer ")
	known, may := s.May(key, scope)
	var no cloudsim.Answer
	switch {
	case !known && scope == Misc:
		no = fails(http.StatusNotFound, "auth_error", "Invalid user key")
	case !known || !may:
		no = fails(http.StatusUnauthorized, "auth_error", "Invalid user key")
	case s.TooSoon(endpoint, every):
		no = cloudsim.Answer{Status: http.StatusTooManyRequests, Text: "API requests too frequent"}
	default:
		return nil
	}
	return &no
}

// show gives one instance, or null.
func (s *Sim) show(c *cloudsim.Call, _ time.Time) cloudsim.Answer {
	if m := s.Find(c.PathValue("id")); m != nil {
		return cloudsim.Answer{Body: map[string]any{"instances": s.row(m)}}
	}
	return cloudsim.Answer{Body: map[string]any{"instances": nil}}
}

// manage starts and stops. A start waits where somebody else has the GPUs.
func (s *Sim) manage(c *cloudsim.Call, now time.Time) cloudsim.Answer {
	var asked struct {
		State string `json:"state"`
	}
	m := s.Find(c.PathValue("id"))
	switch err := c.Read(&asked); {
	case err != nil || asked.State != "running" && asked.State != "stopped":
		return fails(http.StatusBadRequest, "invalid_args", "Invalid state")
	case m == nil:
		return noSuch()
	case c.Fault.Kind == cloudsim.Nothing:
	case asked.State == "stopped":
		s.Stop(m, now)
	case s.taken(m.Host, m):
		m.Wanted = cloudsim.Running
	default:
		s.Start(m, now)
	}
	return cloudsim.Answer{Body: done}
}

// update makes an instance's container again.
func (s *Sim) update(c *cloudsim.Call, now time.Time) cloudsim.Answer {
	var asked struct {
		Onstart string `json:"onstart"`
	}
	m := s.Find(c.PathValue("id"))
	switch err := c.Read(&asked); {
	case err != nil || len(asked.Onstart) > 4096:
		return fails(http.StatusBadRequest, "invalid_args", "Invalid onstart")
	case m == nil:
		return noSuch()
	case c.Fault.Kind != cloudsim.Nothing:
		m.Script = asked.Onstart
		m.Disk++
		s.Restart(m, now)
	}
	return cloudsim.Answer{Body: map[string]any{"success": true, "updated_instance": s.row(m)}}
}

// destroy ends an instance.
func (s *Sim) destroy(c *cloudsim.Call, now time.Time) cloudsim.Answer {
	m := s.Find(c.PathValue("id"))
	if m == nil {
		return noSuch()
	}
	if c.Fault.Kind != cloudsim.Nothing {
		s.Destroy(m, now)
	}
	return cloudsim.Answer{Body: done}
}

// taken is true for a host whose GPUs somebody else has.
func (s *Sim) taken(host string, but *cloudsim.Machine) bool {
	return slices.ContainsFunc(s.Live(), func(m *cloudsim.Machine) bool {
		return m != but && m.Host == host && m.State != cloudsim.Stopped
	})
}

// Hide has a host be offered no more, or again.
func (s *Sim) Hide(host int64, hidden bool) {
	s.With(func(time.Time) {
		for _, h := range s.hosts {
			if h.ID == host {
				h.Hidden = hidden
			}
		}
	})
}

// offerID is that of a host's offer.
func (h *Host) offerID() int64 { return 500_000 + h.ID }

// create rents an offer.
func (s *Sim) create(c *cloudsim.Call, now time.Time) cloudsim.Answer {
	var asked struct {
		Image   string  `json:"image"`
		Label   string  `json:"label"`
		Onstart string  `json:"onstart"`
		Disk    int64   `json:"disk"`
		Price   float64 `json:"price"`
	}
	if err := c.Read(&asked); err != nil || asked.Image == "" || len(asked.Onstart) > 4096 || len(asked.Label) > 256 || asked.Disk < 8 {
		return fails(http.StatusBadRequest, "invalid_args", "Invalid args")
	}
	id := c.PathValue("id")
	i := slices.IndexFunc(s.hosts, func(h *Host) bool { return strconv.FormatInt(h.offerID(), 10) == id })
	if i < 0 {
		return fails(http.StatusNotFound, "invalid_args", "error 404/3603: no_such_ask Instance type by id "+id+" is not available.")
	}
	h, bid := s.hosts[i], int64(asked.Price*1e6+0.5)
	if h.Hidden || s.taken(h.host(), nil) || bid > 0 && h.MinBid == 0 {
		return fails(http.StatusGone, "no_such_ask", "error 410/3907: no_such_ask Instance type "+id+" is no longer available.")
	}
	if c.Fault.Kind == cloudsim.Nothing {
		return cloudsim.Answer{Body: map[string]any{"success": true, "new_contract": 999_999}}
	}
	m := h.machine(asked.Label, asked.Image, asked.Onstart, int(asked.Disk))
	m.Offer = id
	low := false
	if bid > 0 {
		m.Bid, m.Running, low = true, bid+m.Storage, bid < h.MinBid
	}
	if low {
		m.Wanted = cloudsim.Stopped
	}
	s.place(m, now)
	return created(c, m, low)
}

// place begins an instance's life, and tells it who it is.
func (s *Sim) place(m *cloudsim.Machine, now time.Time) {
	m.ID, m.Env = s.NextID(), map[string]string{}
	m.Env["CONTAINER_ID"] = m.ID
	m.Env["VAST_CONTAINERLABEL"] = "C." + m.ID
	m.Env["CONTAINER_API_KEY"] = Secret
	m.Env["GPU_COUNT"] = strconv.Itoa(m.GPUs)
	m.Env["PUBLIC_IPADDR"] = "127.0.0.1"
	s.Place(m, now)
}

// created is the answer to a create. One that fails may name what it made.
func created(c *cloudsim.Call, m *cloudsim.Machine, low bool) cloudsim.Answer {
	id := number(m.ID)
	answer := map[string]any{"success": true, "new_contract": id, "instance_api_key": Secret}
	status := http.StatusOK
	switch {
	case low:
		answer = map[string]any{"success": false, "error": "invalid_price", "msg": "bid is too low", "new_contract": id}
	case c.Fault.Kind == cloudsim.Half && c.Fault.Status != 0:
		return cloudsim.Answer{Status: c.Fault.Status, Body: map[string]any{}}
	case c.Fault.Kind == cloudsim.Half:
		status, answer = http.StatusBadRequest, map[string]any{"success": false, "error": "internal", "msg": "failed", "new_contract": id}
	}
	return cloudsim.Answer{Status: status, Body: answer}
}

// host is how an instance names its host.
func (h *Host) host() string { return strconv.FormatInt(h.ID, 10) }

// machine is an instance on the host.
func (h *Host) machine(label, image, script string, disk int) *cloudsim.Machine {
	storage := h.Disk * int64(disk)
	return &cloudsim.Machine{
		Name: label, Image: image, Script: script, Host: h.host(), Region: h.Place, GPU: h.GPU, GPUs: h.GPUs, MiB: h.MiB, DiskGB: disk,
		Running: h.Price + storage, Storage: storage, Stuck: h.Broken,
	}
}

// Rent places an instance on a host as somebody else would, who has the same account. It gives its id.
func (s *Sim) Rent(host int64, label string) (id string, err error) {
	i := slices.IndexFunc(s.hosts, func(h *Host) bool { return h.ID == host })
	if i < 0 {
		return "", fmt.Errorf("there is no host %d", host)
	}
	s.With(func(now time.Time) {
		m := s.hosts[i].machine(label, "ubuntu", "", 16)
		s.place(m, now)
		id = m.ID
	})
	return id, nil
}
