// Package reading decodes what nodes report, once, on its way in. The rest of the gateway works with the decoded values, so it never
// sees a value of a wrong type, a number that is too large for JavaScript, or a text that is not fit for a screen.
//
// A value that is not known is nil. A value that does not fit counts as not known: it is left out and named in a notice. A member that the
// gateway does not know is ignored: a later agent may say more.
package reading

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"muster/agent/wire"
)

const maxNamed = 8 // how many of the members that were left out a notice names

// OfRegister decodes the hardware of a register request, and removes from its agent what does not fit. The hardware is nil if the node says
// nothing of it. The notices name what was left out.
func OfRegister(q *wire.RegisterRequest) (h *wire.Hardware, notices []string) {
	c := &clamp{}
	h = part[wire.Hardware](c, q.Hardware, "hardware")
	held(c, &q.Agent, "agent")
	return h, c.notices
}

// part decodes one part of a request. It is nil if the part is absent, or if nothing in it fits.
func part[T any](c *clamp, raw json.RawMessage, name string) *T {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	v := new(T)
	if !c.fit(raw, reflect.ValueOf(v).Elem()) {
		c.member("all of it")
		c.leave()
		c.path = nil
	}
	return held(c, v, name)
}

// held clamps a decoded part, and adds a notice of what did not fit.
func held[T any](c *clamp, v *T, name string) *T {
	if v != nil && reflect.ValueOf(v).Elem().IsZero() { // it must not replace an earlier one that says something
		v = nil
	}
	if v != nil {
		c.object(planOf(v), reflect.ValueOf(v).Elem())
	}
	if len(c.left) > 0 {
		c.notices = append(c.notices, c.notice(name))
		c.left = nil
		c.more = 0
	}
	return v
}

// clamp takes out of the parts of one request what does not fit, and collects the paths of that.
type clamp struct {
	path    []byte // of the value that is looked at. It becomes a text only if the value is left out, which is rare
	left    []string
	more    int      // paths beyond maxNamed
	notices []string // of the parts before
}

// member goes from an object to one of its members, and element from a list to one of its elements. The caller goes back: it cuts the path.
func (c *clamp) member(name string) {
	if len(c.path) > 0 {
		c.path = append(c.path, '.')
	}
	c.path = append(c.path, name...)
}

func (c *clamp) element(i int) { c.path = fmt.Appendf(c.path, "[%d]", i) }

// leave notes that the value at the path was left out. A node can send any number of such things, so the first are named and the rest is
// counted.
func (c *clamp) leave() {
	if len(c.left) < maxNamed {
		c.left = append(c.left, string(c.path))
	} else {
		c.more++
	}
}

func (c *clamp) notice(what string) string {
	paths := strings.Join(c.left, ", ")
	if c.more > 0 {
		paths += fmt.Sprintf(", %d more", c.more)
	}
	return "the gateway left out of " + what + " what does not fit its API: " + paths
}

// fit decodes the parts of a JSON value that a Go value can hold. It is false if the value as a whole has a wrong type: then into is zero.
func (c *clamp) fit(raw json.RawMessage, into reflect.Value) bool {
	if json.Unmarshal(raw, into.Addr().Interface()) == nil {
		return true
	}
	into.SetZero()
	here := len(c.path)
	switch {
	case into.Kind() == reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		if !c.fit(raw, into.Elem()) {
			into.SetZero()
			return false
		}
		return true
	case into.Kind() == reflect.Struct && into.Type() != reflect.TypeFor[time.Time]():
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return false
		}
		for i := range into.NumField() {
			name := nameOf(into.Type().Field(i))
			c.member(name)
			if member, there := members[name]; there && !c.fit(member, into.Field(i)) {
				c.leave()
			}
			c.path = c.path[:here]
		}
		return true
	case into.Kind() == reflect.Slice:
		var elements []json.RawMessage
		if json.Unmarshal(raw, &elements) != nil {
			return false // not known: an empty list would say that there is nothing
		}
		into.Set(reflect.MakeSlice(into.Type(), len(elements), len(elements)))
		for i, element := range elements {
			c.element(i)
			c.fit(element, into.Index(i)) // list takes out what stays zero, and names it
			c.path = c.path[:here]
		}
		return true
	}
	return false
}
