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
	FQDN      string
	Status    int    // MAAS's number, also one that Statuses has not
	Says      string // the newest line of its log: for people only
	Error     string // why it is broken, or its deployment failed
	Owner     string // user; empty: nobody
	Pool      string
	Zone      string
	Locked    *bool
	Ephemeral *bool // deployed into memory

	PowerType  string   // such as ipmi; manual: MAAS cannot switch it
	Power      string   // on, off, unknown, error; up to five minutes old
	Tags       []string // nil: not known
	IPs        []string
	MACs       []string
	UUID       string // of its firmware; MAAS drops it where two machines have the same
	Vendor     string // of the system, with its product and serial number
	Product    string
	Serial     string
	Arch       string // such as amd64/generic
	CPUs       *int
	MemoryMiB  *int64
	OS         string // that is, or is to be, installed
	Series     string
	Kernel     string
	Commission *int // how the last commissioning ended; Passed: well, so that a release ends in Ready
}

// Passed is the value of Machine.Commission after which a release ends in Ready. After others it ends in New.
const Passed = 2

// Filter says which machines are listed. Empty fields do not count. MAAS refuses a tag that it does not have.
type Filter struct {
	IDs       []string
	AgentName string // with which they were acquired: MAAS tells it of no machine, and finds machines by it
	Statuses  []string
	Tags      []string // that each has
	Pool      string
}

func (f Filter) query() url.Values {
	q := url.Values{}
	add := func(name string, values ...string) {
		for _, v := range values {
			if v != "" {
				q.Add(name, v)
			}
		}
	}
	add("id", f.IDs...)
	add("agent_name", f.AgentName)
	add("status", f.Statuses...)
	add("tags", f.Tags...)
	add("pool", f.Pool)
	return q
}

// Machines has each take the machines, one after the other, in the order in which they came to MAAS. Only one is in memory. After an error,
// the machines that came before are no list of all. An error of each ends the list, and is returned as it is.
func (c *Client) Machines(ctx context.Context, f Filter, each func(Machine) error) error {
	return c.do(ctx, request{path: pathMachines, query: f.query(), time: listTime}, rows(rawMachine.machine, each))
}

// Machine reads one machine.
func (c *Client) Machine(ctx context.Context, id string) (Machine, error) {
	return c.machine(ctx, id, request{})
}

// Power asks the machine's power control, and takes up to a minute: on, off, unknown or error.
func (c *Client) Power(ctx context.Context, id string) (string, error) {
	r, err := c.to(id, request{op: "query_power_state", time: powerTime, once: true})
	if err != nil {
		return "", err
	}
	state := ""
	err = c.do(ctx, r, one(func(raw struct{ State string }) error {
		if state = power(raw.State); raw.State == "" {
			return errors.New("it has no state")
		}
		return nil
	}))
	return state, err
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
	SystemID      string `json:"system_id"`
	Hostname      string
	FQDN          string
	Status        maybe[int]
	StatusMessage string `json:"status_message"`
	Error         string `json:"error_description"`
	Owner         string
	Pool, Zone    named
	Locked        maybe[bool]
	Ephemeral     maybe[bool]     `json:"ephemeral_deploy"`
	PowerType     string          `json:"power_type"`
	PowerState    string          `json:"power_state"`
	TagNames      maybe[[]string] `json:"tag_names"`
	IPs           maybe[[]string] `json:"ip_addresses"`
	Interfaces    []struct {
		MAC string `json:"mac_address"`
	} `json:"interface_set"`
	UUID     string `json:"hardware_uuid"`
	Hardware struct {
		Vendor  string `json:"system_vendor"`
		Product string `json:"system_product"`
		Serial  string `json:"system_serial"`
	} `json:"hardware_info"`
	Architecture string
	CPUs         maybe[int]   `json:"cpu_count"`
	Memory       maybe[int64] // MiB
	OSystem      string
	Series       string     `json:"distro_series"`
	Kernel       string     `json:"hwe_kernel"`
	Commission   maybe[int] `json:"commissioning_status"`
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
		ID: r.SystemID, Status: *r.Status.v, Locked: r.Locked.v, Ephemeral: r.Ephemeral.v, Power: power(r.PowerState),
		Tags: list(r.TagNames.or()), IPs: list(r.IPs.or()),
		CPUs: r.CPUs.v, MemoryMiB: r.Memory.v, Commission: r.Commission.v,
		Hostname: r.Hostname, FQDN: r.FQDN, Says: r.StatusMessage, Error: r.Error, Owner: r.Owner, Pool: r.Pool.Name, Zone: r.Zone.Name,
		PowerType: r.PowerType, UUID: r.UUID, Vendor: r.Hardware.Vendor, Product: r.Hardware.Product, Serial: r.Hardware.Serial,
		Arch: r.Architecture, OS: r.OSystem, Series: r.Series, Kernel: r.Kernel,
	}
	for _, text := range []*string{&m.Hostname, &m.FQDN, &m.Says, &m.Error, &m.Owner, &m.Pool, &m.Zone, &m.PowerType, &m.UUID, &m.Vendor,
		&m.Product, &m.Serial, &m.Arch, &m.OS, &m.Series, &m.Kernel} {
		*text = wire.Plain(*text, longestWord)
	}
	for _, text := range []*string{&m.Vendor, &m.Product, &m.Serial} {
		if *text == "Unknown" { // MAAS writes it where it knows nothing
			*text = ""
		}
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
