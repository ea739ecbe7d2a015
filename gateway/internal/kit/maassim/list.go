package maassim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// list has the machines that each of the parameters lets through, all of them in one answer.
func (s *Sim) list(c *call) reply {
	for name, values := range c.query {
		switch name {
		case "op", "id", "system_id", "hostname", "agent_name", "pool", "owner", "zone":
		case "tags", "not_tags":
			for _, tag := range values {
				if s.tags[tag] == nil {
					return form(name, fmt.Sprintf("No such tag(s): '%s'.", tag))
				}
			}
		case "status":
			for _, word := range values {
				if !slices.Contains(statusWords[:], word) {
					return form(name, fmt.Sprintf("'%s' is not a valid status.  It should be one of: '%s'.", word, strings.Join(statusWords[:], "', '")))
				}
			}
		default:
			return form(name, "No such constraint.")
		}
	}
	found := []any{}
	for _, m := range s.machines {
		if m.fits(c) {
			found = append(found, m.json())
		}
	}
	return asJSON(http.StatusOK, found)
}

// fits tells whether a machine is among those that are asked for.
func (m *Machine) fits(c *call) bool {
	pool := m.Pool
	if pool == "" {
		pool = "default"
	}
	for name, is := range map[string]string{"id": m.ID, "system_id": m.ID, "hostname": m.Hostname, "agent_name": m.AgentName, "pool": pool,
		"owner": m.Owner, "zone": "default", "status": statusWords[m.Status]} {
		if wanted := c.query[name]; len(wanted) > 0 && !slices.Contains(wanted, is) {
			return false
		}
	}
	has := func(tag string) bool { return slices.Contains(m.Tags, tag) }
	return !slices.ContainsFunc(c.query["not_tags"], has) && !slices.ContainsFunc(c.query["tags"], func(t string) bool { return !has(t) })
}

// listImages has an image for each kernel of a system, and what starts machines over the network.
func (s *Sim) listImages(*call) reply {
	all := []any{}
	add := func(kind, name, architecture string) {
		all = append(all, map[string]any{"id": len(all) + 1, "type": kind, "name": name, "architecture": architecture, "last_deployed": nil,
			"resource_uri": fmt.Sprintf("%sboot-resources/%d/", pathAPI, len(all)+1)})
	}
	add("Synced", "grub-efi-signed/uefi", "amd64/generic")
	add("Synced", "pxelinux/pxe", "i386/generic")
	for _, name := range s.images {
		if uploaded, custom := strings.CutPrefix(name, "custom/"); custom {
			add("Uploaded", uploaded, "amd64/generic")
			continue
		}
		add("Synced", name, "amd64/ga-24.04")
		add("Synced", name, "amd64/ga-24.04-lowlatency")
	}
	return asJSON(http.StatusOK, all)
}
