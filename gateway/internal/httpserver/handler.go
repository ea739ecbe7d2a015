package httpserver

import (
	"encoding/json"
	"net/http"
	"time"

	"muster/agent/wire"
)

// Handler bounds how long a request can take and how many there can be. Every body has a deadline, set before anything looks at the
// request, for every path and also if the request is refused. The rest of a body has a second deadline after the handler, because
// net/http reads the rest before the answer goes out. HTTP/2 carries many requests on one connection: without a proof, each after the
// first counts like a connection of its address.
func (d *Limiter) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r.Context())
		if c != nil && r.ProtoMajor > 1 {
			c.shared.Store(true)
		}
		entered, ok := d.enter(c)
		if !ok {
			refuse(w)
			return
		}
		defer d.leave(c, entered)
		if d.bound(w, r) {
			defer hurry(w, d.limits.Body)
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers a request that there is no room for.
func refuse(w http.ResponseWriter) {
	body, err := json.Marshal(wire.Error{Error: wire.ErrorDetail{Code: wire.CodeTooManyRequests,
		Message: "too many requests without a proof at once",
		Hint:    "wait a second; a client that has proven itself is not held up"}})
	if err != nil {
		panic("httpserver: " + err.Error()) // a programming error
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Connection", "close")
	h.Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = w.Write(body) // the connection is gone: nobody is left to tell
}

// bound sets the deadline of a body, and tells whether there is a body. A request that gives its length in two ways may hide another
// request in itself, so its connection ends after it (RFC 9112 section 6.1). net/http drops one of the two lengths without a word.
// So the connection ends after every request in chunks.
func (d *Limiter) bound(w http.ResponseWriter, r *http.Request) bool {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close")
	}
	if r.Body == nil || r.Body == http.NoBody {
		return false
	}
	hurry(w, d.limits.Body)
	return true
}

// hurry bounds how long net/http may wait for the rest of a request.
func hurry(w http.ResponseWriter, within time.Duration) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // the kernel's clock; a writer of a test has none
}

// enter counts a request. extra is 1 where the request counts beside its connection; ok says whether there is room.
func (d *Limiter) enter(c *Conn) (extra int, ok bool) {
	if c == nil {
		return 0, true
	}
	if c.requests.Add(1) == 1 || c.proven.Load() || c.from == nil {
		return 0, true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.group == nil || c.group.in == &d.proven {
		return 0, true
	}
	if !c.many && c.from.count >= d.limits.PerAddress || d.strangers.total+d.known.total >= d.limits.Unproven {
		c.requests.Add(-1)
		d.cuts[crowdedAddress].Add(1)
		return 0, false
	}
	c.extra++
	c.from.weigh(1)
	return 1, true
}

func (d *Limiter) leave(c *Conn, extra int) {
	if c == nil {
		return
	}
	c.active.Store(d.now()) // from now on net/http reads the rest of it
	c.requests.Add(-1)
	if extra == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.extra > 0 { // 0: the connection was proven or closed meanwhile, so nothing counts beside it
		c.extra--
		c.from.weigh(-1)
	}
}
