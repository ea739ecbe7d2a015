package maassim

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	on  = "on"
	off = "off"
)

// Machine is a simulated machine. What MAAS tells of it, and what it really is, are two things.
type Machine struct {
	ID        string
	Hostname  string
	UUID      string // of its firmware; empty: null
	Status    int
	Owner     string
	AgentName string
	OwnerData map[string]string
	Locked    bool
	Passed    bool // its last commissioning
	Pool      string
	Error     string
	Tags      []string

	Power     string // really: on, off
	Seen      string // what MAAS saw last: also unknown, error
	PowerType string // manual: MAAS cannot switch it; none: there is none
	BMCAway   bool   // its power control does not answer
	Hangs     bool   // it starts, and nothing is heard of it
	Fails     bool   // what is done with it next fails: commissioning, erasing
	Resets    int    // how often power_on has reset it while it ran

	UserData  string // as it was sent
	OSystem   string
	Series    string
	Ephemeral bool
	HWSync    bool
	Erased    string    // how it was erased last: full, quick, secure, secure-or-quick
	Since     time.Time // of its status

	previous  int
	toErase   string
	switching string // what its power is switched to; empty: nothing
	switchAt  time.Time
	onAt      time.Time // when it was switched on last
	seenAt    time.Time
}

func (m *Machine) copy() Machine {
	c := *m
	c.Tags, c.OwnerData = slices.Clone(m.Tags), maps.Clone(m.OwnerData)
	return c
}

// userData is what the metadata service gives: decoded, if it is exact base64.
func (m *Machine) userData() []byte {
	raw, err := base64.StdEncoding.DecodeString(m.UserData)
	if err != nil || base64.StdEncoding.EncodeToString(raw) != m.UserData {
		return []byte(m.UserData)
	}
	return raw
}

// json is the machine as the API shows it.
func (m *Machine) json() map[string]any {
	none := func(text string) any {
		if text == "" {
			return nil
		}
		return text
	}
	commissioned := -1
	if m.Passed {
		commissioned = 2
	}
	tags := slices.Clone(m.Tags)
	slices.Sort(tags)
	mac := "52:54:00:" + strings.Join([]string{m.ID[:2], m.ID[2:4], m.ID[4:]}, ":")
	pool := m.Pool
	if pool == "" {
		pool = "default"
	}
	owned := m.OwnerData
	if owned == nil {
		owned = map[string]string{}
	}
	return map[string]any{
		"system_id": m.ID, "hostname": m.Hostname, "fqdn": m.Hostname + ".maas", "description": "", "architecture": "amd64/generic",
		"status": m.Status, "status_name": statusNames[m.Status], "status_message": nil, "status_action": nil,
		"error_description": m.Error, "owner": none(m.Owner), "owner_data": owned, "workload_annotations": owned,
		"locked": m.Locked, "netboot": m.Status != deployed, "ephemeral_deploy": m.Ephemeral, "enable_hw_sync": m.HWSync,
		"power_type": m.PowerType, "power_state": m.Seen, "hardware_uuid": none(m.UUID),
		"osystem": m.OSystem, "distro_series": m.Series, "hwe_kernel": nil,
		"cpu_count": 32, "memory": 262144, "storage": 960197.1, "tag_names": append([]string{}, tags...),
		"ip_addresses": []string{}, "pool": map[string]any{"id": 0, "name": pool}, "zone": map[string]any{"id": 1, "name": "default"},
		"domain":         map[string]any{"id": 0, "name": "maas"},
		"interface_set":  []any{map[string]any{"id": 1, "name": "eno1", "type": "physical", "mac_address": mac, "vlan": nil, "links": []any{}}},
		"boot_interface": nil, "boot_disk": nil, "parent": nil,
		"commissioning_status": commissioned, "commissioning_status_name": "", "testing_status": -1,
		"current_commissioning_result_id": nil, "current_testing_result_id": nil, "current_installation_result_id": nil,
		"hardware_info": map[string]any{"system_vendor": "Lab", "system_product": "Box", "system_serial": "Unknown"},
		"resource_uri":  pathAPI + "machines/" + m.ID + "/",
	}
}
