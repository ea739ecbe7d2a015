package maassim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

func conflict(format string, args ...any) reply {
	return text(http.StatusConflict, fmt.Sprintf(format, args...))
}

// away is the answer of an operation whose change is made, and whose power control did not answer.
func away() reply {
	return text(http.StatusServiceUnavailable, "Failed talking to node's BMC: no response")
}

// true for the words that MAAS takes for it.
func (c *call) flag(name string) bool {
	return slices.Contains([]string{"true", "True", "1", "on", "yes"}, c.form.Get(name))
}

func (s *Sim) read(c *call) reply { return asJSON(http.StatusOK, c.m.json()) }

// enlist makes a machine that is New. A stranger may, too.
func (s *Sim) enlist(c *call) reply {
	m := s.add(Machine{Hostname: c.form.Get("hostname"), PowerType: c.form.Get("power_type")})
	return asJSON(http.StatusOK, m.json())
}

// allocate acquires the first Ready machine that fits.
func (s *Sim) allocate(c *call) reply {
	id, names := c.form.Get("system_id"), c.form["name"]
	for _, m := range s.machines {
		if m.Status != ready || m.Owner != "" || m.Locked || id != "" && m.ID != id || len(names) > 0 && !slices.Contains(names, m.Hostname) {
			continue
		}
		if !c.flag("dry_run") {
			s.acquire(m, c)
		}
		return asJSON(http.StatusOK, m.json())
	}
	switch {
	case id != "":
		return conflict("No machine with system ID %s available.", id)
	case len(names) > 0:
		return conflict("No available machine matches constraints: [('name', ['%s'])] (resolved to \"name=%s\")",
			strings.Join(names, "', '"), strings.Join(names, ","))
	}
	return conflict("No machine available.")
}

func (s *Sim) acquire(m *Machine, c *call) {
	m.Owner, m.AgentName = c.user.name, c.form.Get("agent_name")
	s.move(m, allocated, s.config.Now())
}

// deploy checks in MAAS's order. What is refused undoes the acquiring, too.
func (s *Sim) deploy(c *call) reply {
	m := c.m
	if m.Status == ready {
		if m.Owner != "" && m.Owner != c.user.name {
			return conflict("Can't allocate a machine belonging to another user.")
		}
		s.acquire(m, c)
	}
	if m.Status != allocated {
		return conflict("Can't deploy a machine that is in the '%s' state", statusNames[m.Status])
	}
	series := c.form.Get("distro_series")
	at := slices.IndexFunc(s.images, func(name string) bool {
		return name == cmp.Or(series, "ubuntu/noble") || strings.HasSuffix(name, "/"+series)
	})
	if at < 0 {
		return form("distro_series", fmt.Sprintf("'%s' is not a valid distro_series.  It should be one of: '', '%s'.", series,
			strings.Join(s.images, "', '")))
	}
	m.OSystem, m.Series, _ = strings.Cut(s.images[at], "/")
	m.Ephemeral, m.HWSync = c.flag("ephemeral_deploy"), c.flag("enable_hw_sync")
	s.start(m, c)
	return asJSON(http.StatusOK, m.json())
}

// start begins a deployment. MAAS 3.6 does not wait for the power control: that it does not answer is seen later.
func (s *Sim) start(m *Machine, c *call) {
	m.UserData = c.form.Get("user_data")
	s.move(m, deploying, s.config.Now())
	s.order(m, on)
}

// noAddresses is a deployment that found no free IP address: the machine is acquired, and no more.
func (s *Sim) noAddresses(c *call, got reply) reply {
	if got.status/100 != 2 {
		return got
	}
	s.move(c.m, allocated, s.config.Now())
	c.m.switching = ""
	return text(http.StatusServiceUnavailable, c.m.ID+": Unable to allocate static IP due to address exhaustion.")
}

// release begins with erasing, if that is asked for in any way.
func (s *Sim) release(c *call) reply {
	m, now := c.m, s.config.Now()
	switch {
	case m.Status == releasing || m.Status == ready:
		return asJSON(http.StatusOK, m.json())
	case !slices.Contains(releasable, m.Status):
		return conflict("Machine cannot be released in its current state ('%s').", statusNames[m.Status])
	}
	answers := true
	switch how := s.erasure(c); {
	case how != "":
		m.toErase = how
		s.move(m, erasing, now)
		answers = s.order(m, on)
	case m.Seen == off || m.PowerType == "manual":
		s.move(m, releasing, now)
		s.finish(m, now)
	default:
		s.move(m, releasing, now)
		answers = s.order(m, off)
	}
	if !answers {
		return away()
	}
	return asJSON(http.StatusOK, m.json())
}

// erasure is how a release erases; empty: it does not. MAAS's own setting takes the place of what was asked.
func (s *Sim) erasure(c *call) string {
	quick, secure := c.flag("quick_erase"), c.flag("secure_erase")
	switch {
	case s.config.EraseAll:
		return "full"
	case quick && secure:
		return "secure-or-quick"
	case quick:
		return "quick"
	case secure:
		return "secure"
	case c.flag("erase"):
		return "full"
	}
	return ""
}

// commission makes the machine the user's for so long as it lasts.
func (s *Sim) commission(c *call) reply {
	m := c.m
	if !slices.Contains([]int{fresh, failedCommis, ready, broken}, m.Status) {
		return form("__all__", "Commission is not available because of the current state of the node.")
	}
	if m.PowerType == "none" {
		return text(http.StatusInternalServerError, "No power type")
	}
	m.Owner, m.Error = c.user.name, ""
	s.move(m, commissioning, s.config.Now())
	if !s.order(m, on) {
		return away()
	}
	return asJSON(http.StatusOK, m.json())
}

// abort answers with the machine as it was.
func (s *Sim) abort(c *call) reply {
	m := c.m
	to, ok := map[int]int{commissioning: fresh, deploying: allocated, erasing: failedErasing, testing: m.previous}[m.Status]
	if !ok {
		return conflict("Cannot abort in current state: node %s is in state %s.", m.ID, statusNames[m.Status])
	}
	before := asJSON(http.StatusOK, m.json())
	if m.Status == commissioning {
		m.Owner = ""
	}
	s.move(m, to, s.config.Now())
	if !s.order(m, off) {
		return away()
	}
	return before
}

// markBroken is for the owner alone. It powers the machine off.
func (s *Sim) markBroken(c *call) reply {
	m := c.m
	if m.Owner != c.user.name {
		return text(http.StatusForbidden, "")
	}
	s.move(m, broken, s.config.Now())
	if m.Error = c.form.Get("comment"); m.Power == on {
		s.order(m, off)
	}
	return asJSON(http.StatusOK, m.json())
}

func (s *Sim) markFixed(c *call) reply {
	m := c.m
	if m.Status != broken {
		return conflict("Can't mark a non-broken node as 'Ready'.")
	}
	to := ready
	if m.previous == deployed {
		to = deployed
	}
	m.Error, m.OSystem, m.Series = "", "", ""
	s.move(m, to, s.config.Now())
	return asJSON(http.StatusOK, m.json())
}

func (s *Sim) lock(c *call) reply {
	switch {
	case c.m.Locked:
		return conflict("Machine is already locked")
	case c.m.Status != deployed && c.m.Status != deploying:
		return conflict("Can't lock, node is not deployed or deploying")
	}
	c.m.Locked = true
	return asJSON(http.StatusOK, c.m.json())
}

func (s *Sim) unlockMachine(c *call) reply {
	if !c.m.Locked {
		return conflict("Machine is not locked")
	}
	c.m.Locked = false
	return asJSON(http.StatusOK, c.m.json())
}

// powerOn resets what runs, deploys what is acquired or runs in memory, and forgets user data that it is not given again.
func (s *Sim) powerOn(c *call) reply {
	m := c.m
	if m.Owner == "" {
		return conflict("Can't start node: it hasn't been allocated.")
	}
	if m.Power == on {
		m.Resets++
	}
	if m.Status == allocated || m.Status == deployed && m.Ephemeral {
		if m.Status == deployed {
			s.move(m, allocated, s.config.Now())
		}
		s.start(m, c)
		return asJSON(http.StatusOK, m.json())
	}
	m.UserData = c.form.Get("user_data")
	if !s.order(m, on) {
		return away()
	}
	return asJSON(http.StatusOK, m.json())
}

func (s *Sim) powerOff(c *call) reply {
	switch {
	case c.m.PowerType == "manual":
		return asJSON(http.StatusOK, nil)
	case !s.order(c.m, off):
		return away()
	}
	return asJSON(http.StatusOK, c.m.json())
}

func (s *Sim) queryPower(c *call) reply {
	s.look(c.m, s.config.Now())
	return asJSON(http.StatusOK, map[string]string{"state": c.m.Seen})
}

func (s *Sim) setOwnerData(c *call) reply {
	if c.m.Owner != c.user.name {
		return conflict("Cannot set workload annotation: it hasn't been acquired.")
	}
	for key := range c.form {
		if key == "op" {
			continue
		}
		if c.m.OwnerData == nil {
			c.m.OwnerData = map[string]string{}
		}
		if c.m.OwnerData[key] = c.form.Get(key); c.m.OwnerData[key] == "" {
			delete(c.m.OwnerData, key)
		}
	}
	return asJSON(http.StatusOK, c.m.json())
}

func (s *Sim) rescueMode(c *call) reply {
	if !c.m.allows(enteringRescue) {
		return conflict("%s", c.m.invalid(enteringRescue))
	}
	s.move(c.m, enteringRescue, s.config.Now())
	if !s.order(c.m, on) {
		return away()
	}
	return asJSON(http.StatusOK, c.m.json())
}
