package vast

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
)

// columns are what a list is asked for.
const columns = `["id","machine_id","label","actual_status","cur_state","intended_status","status_msg","gpu_name","num_gpus","gpu_ram",` +
	`"geolocation","ssh_host","ssh_port","start_date","end_date","is_bid","dph_total","storage_total_cost","instance","search"]`

// row is what is read of an instance.
type row struct {
	ID       word   `json:"id"`
	Machine  word   `json:"machine_id"`
	Label    word   `json:"label"`
	Actual   word   `json:"actual_status"`   // of the container; null: there is none yet
	Contract word   `json:"cur_state"`       // running, stopped or unloaded
	Intended word   `json:"intended_status"` // what the renter wants
	Msg      word   `json:"status_msg"`
	GPU      word   `json:"gpu_name"`
	GPUs     number `json:"num_gpus"`
	GPURAM   number `json:"gpu_ram"` // of one GPU, MB by its name, and MiB by its numbers: an H200 has 143771
	Place    word   `json:"geolocation"`
	SSHHost  word   `json:"ssh_host"`
	SSHPort  number `json:"ssh_port"`
	Start    number `json:"start_date"` // seconds since 1970
	End      number `json:"end_date"`
	Bid      word   `json:"is_bid"`
	Total    number `json:"dph_total"` // dollars an hour while it runs
	Disk     number `json:"storage_total_cost"`
	Now      hour   `json:"instance"` // as it is charged now
	Run      hour   `json:"search"`   // as it is charged while it runs
}

// hour is what an hour costs, in dollars.
type hour struct{ total, disk number }

// UnmarshalJSON takes anything. What is no price is not known.
func (h *hour) UnmarshalJSON(b []byte) error {
	var v struct {
		Disk       number `json:"diskHour"`
		Total      number `json:"totalHour"`
		Discounted number `json:"discountedTotalPerHour"`
	}
	if json.Unmarshal(b, &v) != nil {
		return nil
	}
	h.total, h.disk = firstOf(v.Discounted, v.Total), v.Disk
	return nil
}

// number is a number, maybe as text. What is none is not known.
type number struct {
	value float64
	known bool
}

// UnmarshalJSON takes anything.
func (n *number) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*n = number{v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)}
	return nil
}

// firstOf is the first that is more than nothing.
func firstOf(all ...number) number {
	i := slices.IndexFunc(all, func(n number) bool { return n.known && n.value > 0 })
	if i < 0 {
		return number{}
	}
	return all[i]
}

// price is a number of dollars an hour.
func (n number) price() *cloud.Money {
	if !n.known {
		return nil
	}
	return cloud.PerHour(n.value)
}

// whole is a number from 0 to a most; 0: it is none.
func (n number) whole(most float64) int64 {
	if !n.known || n.value < 0 || n.value > most {
		return 0
	}
	return int64(n.value)
}

// at is a moment; nil: it is none.
func (n number) at() *time.Time {
	const lastSecond = 253402300799 // of the year 9999
	seconds := n.whole(lastSecond)
	if seconds == 0 {
		return nil
	}
	t := time.Unix(seconds, 0).UTC()
	return &t
}

// word is a text; null: an empty one. Anything else is its JSON, which no table has.
type word string

// UnmarshalJSON takes anything.
func (w *word) UnmarshalJSON(b []byte) error {
	var text *string
	switch err := json.Unmarshal(b, &text); {
	case err != nil:
		*w = word(wire.Head(string(b), 100))
	case text == nil:
		*w = ""
	default:
		*w = word(*text)
	}
	return nil
}

// states are what actual_status means.
var states = map[word]string{
	"":          cloud.Starting, // it is placed
	"loading":   cloud.Starting,
	"created":   cloud.Starting,
	"rebooting": cloud.Starting,
	"running":   cloud.Running,
	"frozen":    cloud.Running, // it stands still, and its GPUs are charged
	"stopped":   cloud.Stopped,
	"exited":    cloud.Broken, // its process died
	"offline":   cloud.Broken, // its host is gone
	"unknown":   cloud.Unknown,
}

// fatal are words of status_msg after which a container never starts, unless it says that it tries again.
var fatal = []string{"oci runtime create failed", "manifest unknown", "error response from daemon", "pull access denied", "no such image"}

// state is that of a row.
func (r *row) state() string {
	state, known := states[r.Actual]
	switch msg := strings.ToLower(string(r.Msg)); {
	case !known:
		return cloud.Unknown
	case state == cloud.Running && r.Contract != "running" && r.Contract != "":
		return cloud.Unknown // it says both
	case state != cloud.Running && r.Contract == "stopped" && r.Intended == "stopped":
		return cloud.Stopped
	case state == cloud.Starting && !strings.Contains(msg, "retrying") &&
		slices.ContainsFunc(fatal, func(words string) bool { return strings.Contains(msg, words) }):
		return cloud.Broken
	}
	return state
}

// instance is the row as muster has it.
func (r *row) instance() (cloud.Instance, error) {
	id, ok := idOf(string(r.ID))
	if !ok {
		return cloud.Instance{}, errors.New("an instance has no id")
	}
	i := cloud.Instance{
		ID: strconv.FormatInt(id, 10), Name: cloud.Words(string(r.Label)), Raw: cloud.Words(string(r.Actual)), State: r.state(),
		Why: call.Plain(string(r.Msg), ""), Region: cloud.Words(string(r.Place)), GPU: cloud.Words(string(r.GPU)),
		GPUs: int(r.GPUs.whole(1024)), StartedAt: r.Start.at(), EndsAt: r.End.at(),
		SSH: cloud.SSHAt(string(r.SSHHost), int(r.SSHPort.whole(math.MaxUint16)), "root"),
	}
	if r.Actual == "" {
		i.Raw = "null"
	}
	if cloud.ValidID(string(r.Machine)) {
		i.Host = string(r.Machine)
	}
	if mib := r.GPURAM.whole(math.MaxInt32); mib > 0 {
		i.GPUMiB = &mib
	}
	i.Outbid = r.Bid == "true" && r.Intended == "running" && (r.Contract == "stopped" || r.Actual == "stopped")
	i.Running = firstOf(r.Run.total, r.Total).price()
	i.Storage = firstOf(r.Now.disk, r.Run.disk, r.Disk).price()
	i.Price = r.Now.total.price()
	if i.Price == nil {
		i.Price = map[string]*cloud.Money{cloud.Running: i.Running, cloud.Stopped: i.Storage}[i.State]
	}
	return i, nil
}

// idOf reads the id of an instance or an offer.
func idOf(text string) (int64, bool) {
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil && id > 0
}

// page is one page of a list.
type page struct {
	rows    []cloud.Instance
	total   int    // instances that there are
	next    string // the token of the next page; empty: it is the last
	highest int64  // id
}

// refusal is an answer that hides a failure in a success.
type refusal struct{ verdict verdict }

func (r *refusal) Error() string { return "vast.ai says no" }

// readPage reads a page whose ids are higher than another.
func readPage(answer io.Reader, after int64) (page, error) {
	p := page{highest: after}
	others, err := call.List(answer, "instances", func(r row) error {
		i, err := r.instance()
		if err != nil {
			return err
		}
		id, _ := idOf(i.ID)
		if id <= p.highest {
			return fmt.Errorf("instance %d comes after %d", id, p.highest)
		}
		p.highest, p.rows = id, append(p.rows, i)
		return nil
	})
	if no := refused(others); no != nil {
		return page{}, no
	}
	if err != nil {
		return page{}, err
	}
	return p, p.finish(others)
}

// finish reads what stands beside the rows.
func (p *page) finish(others map[string]json.RawMessage) error {
	found, total := len(p.rows), -1
	if text := others["instances_found"]; text != nil && json.Unmarshal(text, &found) != nil || found != len(p.rows) {
		return fmt.Errorf("a page of %d instances has %d", found, len(p.rows))
	}
	if json.Unmarshal(others["total_instances"], &total) != nil || total < 0 {
		return errors.New("it does not say how many instances there are")
	}
	if text := others["next_token"]; text != nil && json.Unmarshal(text, &p.next) != nil {
		return errors.New("its next_token is none")
	}
	if p.next != "" && found == 0 {
		return errors.New("an empty page has one after it")
	}
	p.total = total
	return nil
}

// readOne reads the answer to Get; nil: there is no such instance.
func readOne(answer io.Reader, id string) (*cloud.Instance, error) {
	var all map[string]json.RawMessage
	if err := call.One(answer, &all); err != nil {
		return nil, err
	}
	if no := refused(all); no != nil {
		return nil, no
	}
	switch text := all["instances"]; {
	case text == nil:
		return nil, errors.New("it has no instances")
	case string(text) == "null":
		return nil, nil
	default:
		var r row
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, err
		}
		i, err := r.instance()
		if err == nil && i.ID != id {
			err = fmt.Errorf("instance %s came in place of %s", i.ID, id)
		}
		return &i, err
	}
}

// refused is not nil where the members of an answer say that there was no success.
func refused(members map[string]json.RawMessage) error {
	no, success := &refusal{}, false
	no.verdict.Success = &success
	_ = json.Unmarshal(members["error"], &no.verdict.Error) // words take anything, and leave what is missing
	_ = json.Unmarshal(members["msg"], &no.verdict.Msg)
	if string(members["success"]) != "false" && no.verdict.Error == "" {
		return nil
	}
	return no
}
