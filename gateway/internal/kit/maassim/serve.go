package maassim

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

const (
	kindText = "text/plain; charset=utf-8"
	kindHTML = "text/html; charset=utf-8"
	kindJSON = "application/json; charset=utf-8"
)

type reply struct {
	status int
	kind   string
	body   []byte
	header map[string]string
}

func text(status int, body string) reply {
	return reply{status: status, kind: kindText, body: []byte(body)}
}

func asJSON(status int, v any) reply {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return reply{status: status, kind: kindJSON, body: body}
}

// form is a refusal of one field.
func form(field, text string) reply {
	return asJSON(http.StatusBadRequest, map[string][]string{field: {text}})
}

// call is a request that is being done.
type call struct {
	user  *user
	name  string // of the machine or tag
	op    string // as it was sent
	query url.Values
	form  url.Values
	m     *Machine // that is named
}

// perm is what a user must be allowed.
type perm int

const (
	view perm = iota
	edit
	admin // and edit
	lock  // edit, also of a locked machine
)

type route struct {
	name string
	perm perm
	do   func(*Sim, *call) reply
}

// routes are the operations, by what the path names, the method and op.
func routes() map[string]route {
	return map[string]route{
		"machines GET ":                 {"list", view, (*Sim).list},
		"machines POST ":                {"enlist", view, (*Sim).enlist},
		"machines POST allocate":        {"allocate", view, (*Sim).allocate},
		"machine GET ":                  {"read", view, (*Sim).read},
		"machine POST deploy":           {"deploy", edit, (*Sim).deploy},
		"machine POST release":          {"release", edit, (*Sim).release},
		"machine POST commission":       {"commission", admin, (*Sim).commission},
		"machine POST abort":            {"abort", edit, (*Sim).abort},
		"machine POST mark_broken":      {"mark_broken", edit, (*Sim).markBroken},
		"machine POST mark_fixed":       {"mark_fixed", admin, (*Sim).markFixed},
		"machine POST lock":             {"lock", lock, (*Sim).lock},
		"machine POST rescue_mode":      {"rescue_mode", admin, (*Sim).rescueMode},
		"machine POST unlock":           {"unlock", lock, (*Sim).unlockMachine},
		"machine POST power_on":         {"power_on", edit, (*Sim).powerOn},
		"machine POST power_off":        {"power_off", edit, (*Sim).powerOff},
		"machine GET query_power_state": {"query_power_state", view, (*Sim).queryPower},
		"machine POST set_owner_data":   {"set_owner_data", edit, (*Sim).setOwnerData},
		"tags GET ":                     {"tags", view, (*Sim).listTags},
		"tags POST ":                    {"create_tag", admin, (*Sim).createTag},
		"tag GET ":                      {"tag", view, (*Sim).readTag},
		"tag GET machines":              {"tagged", view, (*Sim).tagged},
		"tag POST update_nodes":         {"update_nodes", admin, (*Sim).updateNodes},
		"events GET query":              {"events", view, (*Sim).queryEvents},
		"maas GET get_config":           {"get_config", view, (*Sim).getConfig},
		"users GET whoami":              {"whoami", view, (*Sim).whoami},
		"boot-resources GET ":           {"images", view, (*Sim).listImages},
		"version GET ":                  {"version", view, (*Sim).version},
	}
}

var path = regexp.MustCompile(`^/MAAS/api/2\.0/(machines|tags|events|maas|users|boot-resources|version)/(?:([^/]+)/)?$`)

// ServeHTTP answers a request.
func (s *Sim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, pathAPI) && !strings.HasSuffix(r.URL.Path, "/") {
		http.Redirect(w, r, r.URL.Path+"/", http.StatusMovedPermanently)
		return
	}
	parts := path.FindStringSubmatch(r.URL.Path)
	if parts == nil || parts[2] != "" && parts[1] != "machines" && parts[1] != "tags" {
		send(w, reply{status: http.StatusNotFound, kind: kindHTML, body: []byte("<html><h1>Not Found</h1></html>")})
		return
	}
	c := &call{name: parts[2], query: r.URL.Query()}
	if refused := c.readForm(w, r); refused != nil {
		send(w, *refused)
		return
	}
	if c.op = c.query.Get("op"); c.op == "" {
		c.op = c.form.Get("op")
	}
	noun := parts[1]
	if c.name != "" {
		noun = strings.TrimSuffix(noun, "s")
	}
	s.answer(w, r, c, noun)
}

// readForm reads the fields of a form in either encoding. MAAS passes over files.
func (c *call) readForm(w http.ResponseWriter, r *http.Request) *reply {
	r.Body = http.MaxBytesReader(w, r.Body, longestBody)
	err := r.ParseForm()
	if err == nil {
		if err = r.ParseMultipartForm(longestBody); errors.Is(err, http.ErrNotMultipart) {
			err = nil
		}
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &reply{status: http.StatusRequestEntityTooLarge, kind: kindHTML, body: []byte("<html><h1>413</h1></html>")}
	case err != nil:
		refused := text(http.StatusBadRequest, "the form cannot be read")
		return &refused
	}
	c.form = r.PostForm
	if r.MultipartForm != nil {
		c.form = url.Values(r.MultipartForm.Value)
	}
	return nil
}

// answer does the operation, or fails as it was told.
func (s *Sim) answer(w http.ResponseWriter, r *http.Request, c *call, noun string) {
	route, known := routes()[noun+" "+r.Method+" "+c.op]
	if s.config.Between != nil && known {
		s.config.Between(route.name, c.name)
	}
	s.mu.Lock()
	s.tick()
	fails, failing := s.due(route.name)
	var got reply
	if !failing || fails.Done() || fails == NoAddresses {
		got = s.admitted(c, r, noun, route, known)
	}
	if failing && fails == NoAddresses {
		got, failing = s.noAddresses(c, got), false
	}
	s.unlock()
	if !failing {
		send(w, got)
		return
	}
	fails.send(w, r, got)
}

// send answers in the way of a fault; got is what would have been the answer.
func (f Fault) send(w http.ResponseWriter, r *http.Request, got reply) {
	if instead := f.instead(); instead != nil {
		send(w, *instead)
		return
	}
	switch f {
	case HalfAfter:
		w.Header().Set("Content-Type", got.kind)
		w.Header().Set("Content-Length", strconv.Itoa(len(got.body)+1))
		w.WriteHeader(got.status)
		_, _ = w.Write(got.body[:len(got.body)/2])
		_ = http.NewResponseController(w).Flush()
	case SilentBefore, SilentAfter:
		<-r.Context().Done()
	}
	panic(http.ErrAbortHandler) // ends the connection
}

func send(w http.ResponseWriter, r reply) {
	for name, value := range r.header {
		w.Header().Set(name, value)
	}
	if r.kind != "" {
		w.Header().Set("Content-Type", r.kind)
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body)
}

// admitted does an operation for who is asking.
func (s *Sim) admitted(c *call, r *http.Request, noun string, route route, known bool) reply {
	if noun == "version" && known {
		return s.version(c)
	}
	who, refused := s.admit(r.Header.Get("Authorization"))
	unknown := text(http.StatusBadRequest, "Unrecognised signature: method="+r.Method+" op="+orNone(c.op))
	switch {
	case refused != nil:
		return *refused
	case who == nil && noun == "machines" && route.name == "enlist":
		return route.do(s, c) // strangers may: machines enlist themselves
	case who == nil && noun == "machines":
		return unknown
	case who == nil:
		return text(http.StatusUnauthorized, "Forbidden")
	case !known:
		return unknown
	}
	c.user = who
	return s.perform(c, noun, route)
}

// perform does an operation, if the machine is there and the user may. What is refused has changed nothing.
func (s *Sim) perform(c *call, noun string, route route) reply {
	var before Machine
	if noun == "machine" {
		if c.m = s.find(c.name); c.m == nil {
			return text(http.StatusNotFound, "No Machine matches the given query.")
		}
		before = c.m.copy()
	}
	if !c.may(route.perm) {
		return text(http.StatusForbidden, "")
	}
	events := len(s.events)
	got := route.do(s, c)
	if got.status/100 == 4 && c.m != nil {
		*c.m, s.events = before, s.events[:events]
	}
	if got.status/100 != 4 {
		s.counts[route.name]++
	}
	return got
}

// may tells whether the user may do what needs such a permission.
func (c *call) may(p perm) bool {
	switch {
	case p == view || c.m == nil:
		return p != admin || c.user.admin
	case c.m.Locked && p != lock:
		return false
	}
	return c.user.admin || p != admin && (c.m.Owner == "" || c.m.Owner == c.user.name)
}

func orNone(op string) string {
	if op == "" {
		return "None"
	}
	return op
}
