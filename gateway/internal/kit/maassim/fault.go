package maassim

import (
	"net/http"
	"strconv"
)

// Fault is a way in which an operation fails.
type Fault int

// Faults. Those with After in their name do what was asked first.
const (
	DatabaseConflict Fault = iota // 409 as HTML, with Retry-After 5
	RackAway                      // 503 as text, with Retry-After 10
	RegionDown                    // 502 as HTML: of the web server before MAAS
	ErrorBefore                   // 500 as text
	ErrorAfter                    // 504 as text: the change is made, and the power control did not answer
	LostBefore                    // the connection ends without an answer
	LostAfter
	HalfAfter    // the answer ends early
	PageInstead  // 200 with a page for people
	MovedInstead // 302 to another host
	SilentBefore // no answer comes until the client gives up
	SilentAfter
	NoAddresses // of deploy alone: 503 as text; the machine is acquired, and not deployed

	faultsEnd
)

// Faults returns all faults.
func Faults() []Fault {
	var all []Fault
	for f := range faultsEnd {
		all = append(all, f)
	}
	return all
}

// Done reports whether the operation is done although it fails.
func (f Fault) Done() bool {
	return f == ErrorAfter || f == LostAfter || f == HalfAfter || f == SilentAfter
}

type fault struct {
	kind Fault
	left int // below 0: until Heal
}

// Fail has an operation fail so often; below 0: until Heal. Operations have MAAS's names, or list, read, enlist, tags, tag, create_tag,
// tagged, events, images and version; * is any. What was told first comes first.
func (s *Sim) Fail(op string, f Fault, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[op] = append(s.faults[op], fault{f, times})
}

// Heal ends all faults.
func (s *Sim) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.faults)
}

// due is the fault of an operation, if there is one.
func (s *Sim) due(op string) (Fault, bool) {
	if op == "" {
		return 0, false
	}
	for _, name := range []string{op, "*"} {
		queue := s.faults[name]
		if len(queue) == 0 {
			continue
		}
		kind := queue[0].kind
		if queue[0].left--; queue[0].left == 0 {
			s.faults[name] = queue[1:]
		}
		return kind, kind != NoAddresses || op == "deploy"
	}
	return 0, false
}

// instead is what comes in the place of an answer; nil: nothing comes, and the caller ends the connection.
func (f Fault) instead() *reply {
	page := func(status int, text string) *reply {
		body := "<html><body><h1>" + text + "</h1></body></html>"
		return &reply{status: status, kind: kindHTML, body: []byte(body), header: map[string]string{}}
	}
	wait := func(r *reply, seconds int) *reply {
		r.header["Retry-After"] = strconv.Itoa(seconds)
		return r
	}
	switch f {
	case DatabaseConflict:
		return wait(page(http.StatusConflict, "Conflict"), 5)
	case RackAway:
		r := text(http.StatusServiceUnavailable, "Unable to connect to any rack controller; no connections available.")
		r.header = map[string]string{}
		return wait(&r, 10)
	case RegionDown:
		return page(http.StatusBadGateway, "502 Bad Gateway")
	case ErrorBefore:
		r := text(http.StatusInternalServerError, "list index out of range")
		return &r
	case ErrorAfter:
		r := text(http.StatusGatewayTimeout, "Timed out waiting for the power control.")
		return &r
	case PageInstead:
		return page(http.StatusOK, "Please log in")
	case MovedInstead:
		r := page(http.StatusFound, "Found")
		r.header["Location"] = "https://login.example/?next=secret"
		return r
	}
	return nil
}
