package region

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"muster/agent/wire"
)

// Machine is a machine as MAAS tells it. An empty or nil field is not known, or not there.
type Machine struct {
	ID        string // system_id; a machine that was enlisted again has another one
	Hostname  string
	Status    int    // MAAS's number, also one that the table of statuses has not
	Error     string // why it is broken, or its deployment failed
	Owner     string // user; empty: nobody
	Pool      string
	Zone      string
	Locked    *bool
	Power     string   // on, off, unknown, error; up to five minutes old
	Tags      []string // nil: not known
	MACs      []string
	UUID      string // of its firmware; MAAS drops it where two machines have the same
	CPUs      *int
	MemoryMiB *int64
	Series    string // of the system that is, or is to be, installed
}

// Filter says which machines are listed. Empty fields do not count.
type Filter struct {
	IDs       []string
	AgentName string // with which they were acquired: MAAS tells it of no machine, and finds machines by it
}

func (f Filter) query() url.Values {
	q := url.Values{"id": f.IDs}
	set(q, "agent_name", f.AgentName)
	return q
}

// Machines calls each with the machines, one after the other, in the order in which they came to MAAS. Only one is in memory. After an
// error, the machines that came before it are not the whole list. An error of each ends the list, and is returned unchanged.
func (c *Client) Machines(ctx context.Context, f Filter, each func(Machine) error) error {
	return c.do(ctx, request{path: pathMachines, query: f.query(), time: listTime}, rows(rawMachine.machine, each))
}

// Machine reads one machine.
func (c *Client) Machine(ctx context.Context, id string) (Machine, error) {
	return c.machine(ctx, id, request{})
}

// power is a power state. Words that nobody knows are unknown.
func power(text string) string {
	switch text {
	case "on", "off", "error":
		return text
	}
	return "unknown"
}

// to is a request about one machine.
func (c *Client) to(id string, r request) (request, error) {
	r.path = pathMachines + id + "/"
	if !systemID.MatchString(id) {
		return r, c.fail(request{op: r.op}, Unreached, 0, "this is no system_id")
	}
	return r, nil
}

// machine asks something of one machine, and reads what MAAS says of it afterwards.
func (c *Client) machine(ctx context.Context, id string, r request) (Machine, error) {
	r, err := c.to(id, r)
	if err != nil {
		return Machine{}, err
	}
	return c.answered(ctx, id, r)
}

// answered sends a request that MAAS answers with this machine.
func (c *Client) answered(ctx context.Context, id string, r request) (Machine, error) {
	var m Machine
	err := c.do(ctx, r, one(func(raw rawMachine) error {
		var err error
		if m, err = raw.machine(); err == nil && m.ID != id {
			err = errors.New("it is of another machine")
		}
		return err
	}))
	if err != nil {
		return Machine{}, err
	}
	return m, nil
}

// named is an object of MAAS that has a name.
type named struct{ Name string }

// maybe is a value that may be null, or something else than it should be: nil.
type maybe[T any] struct{ v *T }

// UnmarshalJSON never fails, so that one odd value does not hide the others. (A pointer would point to a zero.)
func (m *maybe[T]) UnmarshalJSON(text []byte) error {
	var v *T
	if json.Unmarshal(text, &v) == nil {
		m.v = v
	}
	return nil
}

// or is the value, or that of nothing.
func (m maybe[T]) or() (v T) {
	if m.v != nil {
		v = *m.v
	}
	return v
}

// list makes each word plain. A list in which one is empty is not known.
func list(words []string) []string {
	for i, word := range words {
		if words[i] = wire.Plain(word, longestWord); words[i] == "" {
			return nil
		}
	}
	return words
}

// rawMachine is what MAAS writes. Each field may be null or missing.
type rawMachine struct {
	SystemID   string `json:"system_id"`
	Hostname   string
	Status     maybe[int]
	Error      string `json:"error_description"`
	Owner      string
	Pool, Zone named
	Locked     maybe[bool]
	PowerState string          `json:"power_state"`
	TagNames   maybe[[]string] `json:"tag_names"`
	Interfaces []struct {
		MAC string `json:"mac_address"`
	} `json:"interface_set"`
	UUID   string       `json:"hardware_uuid"`
	CPUs   maybe[int]   `json:"cpu_count"`
	Memory maybe[int64] // MiB
	Series string       `json:"distro_series"`
}

const longestWord = 256 // bytes of a name

// machine checks what must be known, and makes the rest short and plain.
func (r rawMachine) machine() (Machine, error) {
	if !systemID.MatchString(r.SystemID) {
		return Machine{}, errors.New("a machine has no system_id")
	}
	if r.Status.v == nil {
		return Machine{}, fmt.Errorf("machine %s has no status", r.SystemID)
	}
	m := Machine{
		ID: r.SystemID, Status: *r.Status.v, Locked: r.Locked.v, Power: power(r.PowerState), Tags: list(r.TagNames.or()),
		CPUs: r.CPUs.v, MemoryMiB: r.Memory.v, Hostname: r.Hostname, Error: r.Error, Owner: r.Owner, Pool: r.Pool.Name, Zone: r.Zone.Name,
		UUID: r.UUID, Series: r.Series,
	}
	for _, text := range []*string{&m.Hostname, &m.Error, &m.Owner, &m.Pool, &m.Zone, &m.UUID, &m.Series} {
		*text = wire.Plain(*text, longestWord)
	}
	for _, i := range r.Interfaces {
		if mac := wire.Plain(i.MAC, longestWord); mac != "" {
			m.MACs = append(m.MACs, mac)
		}
	}
	return m, nil
}

// nothing takes an answer that says nothing.
func nothing(*http.Response) error { return nil }
