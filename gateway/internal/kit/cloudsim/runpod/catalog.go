package runpod

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"muster/gateway/internal/kit/cloudsim"
)

// price is that of one GPU in a tier; 0: there is none.
func (g *GPU) price(tier string) float64 {
	if tier == "COMMUNITY" {
		return g.Community
	}
	return g.Secure
}

// room is a model, and the first of these data centers that has so many GPUs left; empty: none. No data center means any.
func (s *Sim) room(id string, count int, centers []string) (*GPU, string) {
	i := slices.IndexFunc(s.gpus, func(g GPU) bool { return g.ID == id })
	if i < 0 {
		return &GPU{}, ""
	}
	g := &s.gpus[i]
	if len(centers) == 0 {
		centers = g.centers()
	}
	for _, at := range centers {
		if g.Free[at] >= count && count <= g.Most {
			return g, at
		}
	}
	return g, ""
}

// end destroys a pod, and gives its GPUs back.
func (s *Sim) end(m *cloudsim.Machine, now time.Time) {
	if m.State == cloudsim.Ending {
		return
	}
	g, _ := s.room(m.GPU, 1, nil)
	g.Free[m.Region] += m.GPUs
	s.Destroy(m, now)
}

func (g *GPU) centers() []string {
	var all []string
	for at := range g.Free {
		all = append(all, at)
	}
	slices.Sort(all)
	return all
}

// catalog lists models with what is left of them, for pods with so many GPUs.
func (s *Sim) catalog(c *cloudsim.Call) cloudsim.Answer {
	query := c.URL.Query()
	if query.Get("include") == "AVAILABILITY" != (query.Get("product") != "") {
		return problem(http.StatusBadRequest, "availability needs a product, and a product availability")
	}
	count, _ := strconv.Atoi(cmp.Or(query.Get("count"), "1"))
	types := []any{}
	s.With(func(time.Time) {
		for i := range s.gpus {
			types = append(types, s.gpus[i].row(query.Get("cloud"), count))
		}
	})
	return cloudsim.Answer{Body: map[string]any{"gpus": c.Rows(types)}}
}

// row is a model as RunPod writes it.
func (g *GPU) row(tier string, count int) map[string]any {
	centers, stock := []any{}, "NONE"
	for _, at := range g.centers() {
		here := "NONE"
		if g.Free[at] >= count && g.price(tier) > 0 {
			here, stock = "HIGH", "HIGH"
		}
		centers = append(centers, map[string]any{"id": at, "name": at, "availability": here})
	}
	return map[string]any{
		"id": g.ID, "name": g.Name, "pool": nil, "manufacturer": "NVIDIA", "memory": g.Memory,
		"secure": g.Secure > 0, "community": g.Community > 0,
		"price":    map[string]any{"secure": g.Secure, "community": g.Community},
		"maxCount": map[string]any{"secure": g.Most, "community": g.Most}, "availability": stock, "dataCenters": centers,
	}
}
