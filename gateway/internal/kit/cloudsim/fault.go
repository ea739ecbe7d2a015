package cloudsim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kinds of a Fault.
const (
	Status    = "status"    // it answers with a status and a text, and does nothing
	HTML      = "html"      // the same with a page for people
	Truncated = "truncated" // it does it, and the answer breaks off
	Enormous  = "enormous"  // it does it, and the answer is longer than 8 MiB
	Slow      = "slow"      // it waits before it does it
	Lost      = "lost"      // it does it, and no answer comes
	Nothing   = "nothing"   // it says that it does it, and does not
	Half      = "half"      // it says that it failed, and does it all the same
	Short     = "short"     // of a list: a row is missing, and counted
	Twice     = "twice"     // of a list: a row comes twice
)

// Fault goes wrong with calls.
type Fault struct {
	On     string // an endpoint, as the simulator names it; empty: all
	Kind   string
	Status int               // of Status and HTML; 0: 500
	Text   string            // of Status; empty: {}
	Type   string            // of the text; empty: application/json
	Header map[string]string // of Status
	Wait   time.Duration     // of Slow; 0: until the caller is tired of it
	Skip   int               // calls that are well before
	Times  int               // calls that it hits; 0: all
}

// Add switches a fault on.
func (s *Sim) Add(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Heal switches all faults off.
func (s *Sim) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Calls returns how often an endpoint was called.
func (s *Sim) Calls(endpoint string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.called[endpoint]
}

// take counts a call, and gives the fault that hits it.
func (s *Sim) take(endpoint string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called[endpoint]++
	for i, f := range s.faults {
		if f.On != "" && f.On != endpoint {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times--; f.Times == 0 {
			s.faults = slices.Delete(s.faults, i, i+1)
		}
		return *f
	}
	return Fault{}
}

// Call is a call of an endpoint.
type Call struct {
	*http.Request
	Fault Fault // that it is to play; those that are the same for all companies are played already
}

// Read reads the call's JSON into v.
func (c *Call) Read(v any) error {
	return json.NewDecoder(io.LimitReader(c.Body, 1<<20)).Decode(v)
}

// Rows returns the rows of a list, changed by the fault that the list may have.
func (c *Call) Rows(rows []any) []any {
	switch {
	case len(rows) == 0:
	case c.Fault.Kind == Short:
		return rows[1:]
	case c.Fault.Kind == Twice:
		return append(rows, rows[0])
	}
	return rows
}

// Do does something and answers well, unless a fault makes it only do it or only answer.
func (c *Call) Do(do func(), well, failed Answer) Answer {
	if c.Fault.Kind != Nothing {
		do()
	}
	if c.Fault.Kind == Half {
		return failed
	}
	return well
}

// Answer is what a company answers.
type Answer struct {
	Status int    // 0: 200
	Body   any    // as JSON; nil: Text
	Text   string // as plain text
}

// Handle makes the handler of an endpoint, with its faults.
func (s *Sim) Handle(endpoint string, do func(*Call) Answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fault := s.take(endpoint)
		if s.OnCall != nil {
			s.OnCall(endpoint)
		}
		switch fault.Kind {
		case Status, HTML:
			fault.answer(w)
			return
		case Slow:
			if !fault.sleep(r) {
				panic(http.ErrAbortHandler)
			}
		}
		answer := do(&Call{r, fault})
		if fault.Kind == Lost {
			panic(http.ErrAbortHandler)
		}
		answer.write(w, fault.Kind)
	}
}

// answer is that of a fault.
func (f *Fault) answer(w http.ResponseWriter) {
	kind, text := cmp.Or(f.Type, "application/json"), cmp.Or(f.Text, "{}")
	if f.Kind == HTML {
		kind, text = "text/html; charset=utf-8", "<!DOCTYPE html><html><body>Attention required</body></html>"
	}
	for name, value := range f.Header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(cmp.Or(f.Status, http.StatusInternalServerError))
	_, _ = io.WriteString(w, text)
}

// sleep waits; false: the caller is gone.
func (f *Fault) sleep(r *http.Request) bool {
	_, _ = io.Copy(io.Discard, r.Body) // else nobody hears that the caller is gone
	var over <-chan time.Time
	if f.Wait > 0 {
		timer := time.NewTimer(f.Wait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return true
	case <-r.Context().Done():
		return false
	}
}

// write writes an answer, with a fault of its bytes.
func (a Answer) write(w http.ResponseWriter, fault string) {
	body, kind := []byte(a.Text), "text/plain"
	if a.Body != nil {
		var err error
		if body, err = json.Marshal(a.Body); err != nil {
			panic(fmt.Sprintf("an answer of the simulator is no JSON: %v", err))
		}
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	if fault == Enormous {
		body = append([]byte(strings.Repeat(" ", 9<<20)), body...)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	if fault == Truncated {
		body = body[:len(body)/2]
	}
	_, _ = w.Write(body)
}

// TooSoon reports whether a call of an endpoint comes before its time, if the simulator keeps limits.
func (s *Sim) TooSoon(endpoint string, every time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	before, known := s.last[endpoint]
	if s.Limits && known && now.Sub(before) < every {
		return true
	}
	s.last[endpoint] = now
	return false
}

// May reports whether an API key exists, and whether it has a scope.
func (s *Sim) May(key, scope string) (known, may bool) {
	scopes, known := s.Keys[key]
	return known, known && (len(scopes) == 0 || slices.Contains(scopes, scope))
}
