package maassim

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"time"
)

// tag is a tag. Machines have its name.
type tag struct {
	name, definition, comment, kernel string
	changed                           time.Time
	defined                           []string // ids of machines that the definition is true of
}

func (t *tag) json() map[string]string {
	return map[string]string{"name": t.name, "definition": t.definition, "comment": t.comment, "kernel_opts": t.kernel,
		"resource_uri": pathAPI + "tags/" + t.name + "/"}
}

// Define makes a tag, or changes one. With a definition, MAAS itself gives it to these machines alone, within a minute.
func (s *Sim) Define(name, definition string, ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tags[name] = &tag{name: name, definition: definition, defined: ids, changed: s.config.Now()}
}

// recompute gives a tag with a definition to the machines that it is true of, and takes it from others.
func (s *Sim) recompute(t *tag, now time.Time) {
	if t.definition == "" || now.Sub(t.changed) < recomputeTags {
		return
	}
	for _, m := range s.machines {
		m.tag(t.name, slices.Contains(t.defined, m.ID))
	}
}

// tag gives or takes a tag.
func (m *Machine) tag(name string, give bool) {
	m.Tags = slices.DeleteFunc(m.Tags, func(has string) bool { return has == name })
	if give {
		m.Tags = append(m.Tags, name)
	}
}

func (s *Sim) listTags(*call) reply {
	all := []any{}
	for _, name := range slices.Sorted(maps.Keys(s.tags)) {
		all = append(all, s.tags[name].json())
	}
	return asJSON(http.StatusOK, all)
}

var goodTag = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,256}$`)

func (s *Sim) createTag(c *call) reply {
	f := c.form
	t := &tag{name: f.Get("name"), definition: f.Get("definition"), comment: f.Get("comment"), kernel: f.Get("kernel_opts")}
	switch {
	case !goodTag.MatchString(t.name):
		return form("name", "Enter a valid value.")
	case s.tags[t.name] != nil:
		return form("name", "Tag with this Name already exists.")
	}
	t.changed = s.config.Now()
	s.tags[t.name] = t
	return asJSON(http.StatusOK, t.json())
}

// named is the tag of a call, or a refusal.
func (s *Sim) named(c *call) (*tag, reply) {
	return s.tags[c.name], text(http.StatusNotFound, "No Tag matches the given query.")
}

func (s *Sim) readTag(c *call) reply {
	t, none := s.named(c)
	if t == nil {
		return none
	}
	return asJSON(http.StatusOK, t.json())
}

func (s *Sim) tagged(c *call) reply {
	t, none := s.named(c)
	if t == nil {
		return none
	}
	found := []any{}
	for _, m := range s.machines {
		if slices.Contains(m.Tags, t.name) {
			found = append(found, m.json())
		}
	}
	return asJSON(http.StatusOK, found)
}

// updateNodes counts the ids that it finds, whether or not they had the tag. It passes over others.
func (s *Sim) updateNodes(c *call) reply {
	t, none := s.named(c)
	if t == nil {
		return none
	}
	if given, ok := c.form["definition"]; ok && given[0] != t.definition {
		return conflict("Definition supplied '%s' doesn't match current definition '%s'", given[0], t.definition)
	}
	count := map[string]int{"added": 0, "removed": 0}
	for _, m := range s.machines {
		for _, what := range []struct{ field, count string }{{"add", "added"}, {"remove", "removed"}} {
			if slices.Contains(c.form[what.field], m.ID) {
				m.tag(t.name, what.field == "add")
				count[what.count]++
			}
		}
	}
	t.changed = s.config.Now()
	return asJSON(http.StatusOK, count)
}

// getConfig, whoami and version say what MAAS is and who is asking.
func (s *Sim) getConfig(c *call) reply {
	name := c.query.Get("name")
	value, ok := s.settings[name]
	if !ok {
		return form(name, fmt.Sprintf("%s is not a valid config setting.", name))
	}
	return asJSON(http.StatusOK, value)
}

func (s *Sim) whoami(c *call) reply {
	return asJSON(http.StatusOK, map[string]any{"username": c.user.name, "email": "", "is_superuser": c.user.admin, "is_local": true})
}

func (s *Sim) version(*call) reply {
	return asJSON(http.StatusOK, map[string]any{"version": versionOfMAAS, "subversion": "", "capabilities": []string{"networks-management"}})
}
