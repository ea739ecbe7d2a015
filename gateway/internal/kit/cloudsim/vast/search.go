package vast

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"muster/gateway/internal/kit/cloudsim"
)

// asked is what is understood of a search.
type asked struct {
	GPU     within[string] `json:"gpu_name"`
	GPUs    bound          `json:"num_gpus"`
	RAM     bound          `json:"gpu_ram"`
	Price   bound          `json:"dph_total"`
	Machine within[int64]  `json:"machine_id"`
	Place   within[string] `json:"geolocation"`
	Disk    float64        `json:"allocated_storage"`
	Type    string         `json:"type"`
	Limit   int            `json:"limit"`
}

type within[T any] struct {
	In    []T `json:"in"`
	NotIn []T `json:"notin"`
}

type bound struct {
	Least *float64 `json:"gte"`
	Most  *float64 `json:"lte"`
}

func (b bound) has(v float64) bool {
	return (b.Least == nil || v >= *b.Least) && (b.Most == nil || v <= *b.Most)
}

// models are the names of GPUs.
func (s *Sim) models(*cloudsim.Call, time.Time) cloudsim.Answer {
	names := []string{}
	for _, h := range s.hosts {
		names = append(names, h.GPU)
	}
	slices.Sort(names)
	return cloudsim.Answer{Body: map[string]any{"gpu_names": slices.Compact(names)}}
}

// search gives the offers of hosts whose GPUs nobody has, the cheapest first.
func (s *Sim) search(c *cloudsim.Call, now time.Time) cloudsim.Answer {
	a := asked{Disk: 8, Limit: 64}
	if err := c.Read(&a); err != nil || a.Type != "on-demand" && a.Type != "bid" {
		return fails(http.StatusBadRequest, "invalid_request", "Invalid json body")
	}
	type offer = map[string]any
	offers := []offer{}
	for _, h := range s.hosts {
		if o := h.offer(a, now); !h.Hidden && !s.taken(h.host(), nil) && o != nil {
			offers = append(offers, o)
		}
	}
	slices.SortFunc(offers, func(x, y offer) int { return cmp.Compare(x["dph_total"].(float64), y["dph_total"].(float64)) })
	return cloudsim.Answer{Body: map[string]any{"offers": offers[:min(len(offers), a.Limit)]}}
}

// offer is the host as vast.ai offers it; nil: it is not what is asked for.
func (h *Host) offer(a asked, now time.Time) map[string]any {
	gpus := h.Price
	if a.Type == "bid" {
		gpus = h.MinBid
	}
	disk := h.Disk * int64(a.Disk)
	total := dollars(gpus + disk)
	_, country, _ := strings.Cut(h.Place, ", ")
	if gpus == 0 || !slices.Contains(a.GPU.In, h.GPU) || !a.GPUs.has(float64(h.GPUs)) || !a.RAM.has(float64(h.MiB)) ||
		!a.Price.has(total) || slices.Contains(a.Machine.NotIn, h.ID) || a.Place.In != nil && !slices.Contains(a.Place.In, country) {
		return nil
	}
	return map[string]any{
		"id": h.offerID(), "ask_contract_id": h.offerID(), "machine_id": h.ID, "host_id": h.ID + 1, "gpu_name": h.GPU, "num_gpus": h.GPUs,
		"gpu_ram": h.MiB, "dph_base": dollars(gpus), "dph_total": total, "min_bid": dollars(h.MinBid), "storage_cost": 0.1,
		"reliability2": 0.9987, "duration": 864000.5, "end_date": seconds(now.Add(240 * time.Hour)), "cpu_arch": "amd64",
		"geolocation": h.Place, "verification": "verified", "rentable": true, "rented": false,
	}
}
