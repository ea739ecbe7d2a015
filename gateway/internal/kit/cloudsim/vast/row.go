package vast

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"muster/gateway/internal/kit/cloudsim"
)

// perPage is how many rows a page has at most.
const perPage = 25

// words are vast.ai's: actual_status and cur_state of each state.
var words = map[string][2]any{
	cloudsim.Loading: {"loading", "running"},
	cloudsim.Running: {"running", "running"},
	cloudsim.Stopped: {"stopped", "stopped"},
	cloudsim.Exited:  {"exited", "running"},
	cloudsim.Offline: {"offline", "running"},
	cloudsim.Ending:  {nil, "unloaded"},
}

// row is an instance as vast.ai shows it, with its secrets.
func (s *Sim) row(m *cloudsim.Machine) map[string]any {
	id, host := number(m.ID), number(m.Host)
	msg := "success, running " + m.Image
	if m.Stuck {
		msg = "Error response from daemon: failed to create task: OCI runtime create failed"
	}
	now := m.Storage
	if m.State == cloudsim.Running {
		now = m.Running
	}
	row := map[string]any{
		"id": id, "machine_id": host, "host_id": host + 1, "label": orNull(m.Name), "actual_status": words[m.State][0],
		"cur_state": words[m.State][1], "next_state": m.Wanted, "intended_status": m.Wanted, "status_msg": msg, "gpu_name": m.GPU,
		"num_gpus": m.GPUs, "gpu_ram": m.MiB, "gpu_util": nil, "disk_space": m.DiskGB, "disk_usage": -1, "image_uuid": m.Image,
		"ssh_host": "ssh5.vast.invalid", "ssh_port": 10000 + id%50000, "public_ipaddr": "127.0.0.1", "start_date": seconds(m.CreatedAt),
		"end_date": seconds(m.EndsAt), "is_bid": m.Bid, "dph_base": dollars(m.Running - m.Storage), "dph_total": dollars(m.Running),
		"storage_total_cost": dollars(m.Storage), "geolocation": m.Region, "verification": "verified",
		"instance": prices(now, m.Storage), "search": prices(m.Running, m.Storage),
		"onstart": m.Script + Secret, "extra_env": [][]string{{"HF_TOKEN", Secret}}, "jupyter_token": Secret, "jupyter_url": Secret,
		"instance_api_key": Secret, "ssh_key": Secret,
	}
	for field, value := range m.Spoilt {
		row[field] = value
	}
	return row
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func seconds(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return float64(t.UnixMilli()) / 1e3
}

func dollars(millionths int64) float64 { return float64(millionths) / 1e6 }

func prices(total, disk int64) map[string]any {
	return map[string]any{
		"gpuCostPerHour": dollars(total - disk), "diskHour": dollars(disk), "totalHour": dollars(total), "discountTotalHour": 0,
		"discountedTotalPerHour": dollars(total),
	}
}

// token is where a page ends.
type token struct {
	Values struct {
		ID int64 `json:"id"`
	} `json:"values"`
}

// list gives a page of instances whose ids are higher than the token's.
func (s *Sim) list(c *cloudsim.Call, _ time.Time) cloudsim.Answer {
	query := c.URL.Query()
	var after token
	if text := query.Get("after_token"); text != "" {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || json.Unmarshal(raw, &after) != nil {
			return fails(http.StatusBadRequest, "invalid_token", "Invalid after_token")
		}
	}
	columns := []string{"*"}
	if text := query.Get("select_cols"); text != "" && json.Unmarshal([]byte(text), &columns) != nil {
		return fails(http.StatusBadRequest, "invalid_request", "Error in query parameters: select_cols")
	}
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit > perPage {
		limit = perPage
	} else if limit <= 0 {
		limit = 5
	}
	all := s.Live()
	rest := slices.DeleteFunc(slices.Clone(all), func(m *cloudsim.Machine) bool { return number(m.ID) <= after.Values.ID })
	var next any
	if len(rest) > limit {
		rest = rest[:limit]
		after.Values.ID = number(rest[limit-1].ID)
		raw, _ := json.Marshal(after)
		next = base64.StdEncoding.EncodeToString(raw)
	}
	rows := []map[string]any{}
	for _, m := range rest {
		rows = append(rows, selected(s.row(m), columns))
	}
	if n := len(rows); n > 0 && c.Fault.Kind == cloudsim.Short {
		rows = rows[:n-1]
	} else if n > 0 && c.Fault.Kind == cloudsim.Twice {
		rows = append(rows, rows[n-1])
	}
	return cloudsim.Answer{Body: map[string]any{
		"success": true, "instances_found": len(rows), "total_instances": len(all), "label_counts": map[string]int{"": len(all)},
		"next_token": next, "instances": rows,
	}}
}

// number is an id as vast.ai writes it.
func number(id string) int64 {
	n, _ := strconv.ParseInt(id, 10, 64)
	return n
}

// selected are the columns of a row that were asked for. Those that nobody knows are null.
func selected(row map[string]any, columns []string) map[string]any {
	if slices.Contains(columns, "*") {
		return row
	}
	some := map[string]any{}
	for _, column := range columns {
		some[column] = row[column]
	}
	return some
}
