// Package metrics shows the fleet to Prometheus: nodes and GPUs, the gateway's own health, the nodes as targets for other exporters, a
// dashboard for Grafana and rules for alerts.
//
// Its routes are a table. Package account judges the caller by the row before the handler runs. An account of one tenant sees the nodes of
// that tenant, and nothing of the gateway. A value that is not known is left out; it is never 0. Answers are made while they are sent, from
// the picture of the fleet in memory.
package metrics

import (
	"context"
	"io"
	"net/http"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/view"
)

// Path is where the metrics are. The other routes lie below it.
const Path = "/metrics"

// API is what the routes need. It may be copied: each listener has a gate of its own.
type API struct {
	Gate    *account.Gate // of the listener
	Info    *reply.Info
	Ready   func() bool // all nodes are known
	Rows    func(view.Query) []*api.NodeRow
	Gateway func(context.Context) Gateway
	Events  *Tally
	Room    *Room            // of all listeners
	Now     func() time.Time // nil: time.Now
}

// Route is one row of the table. The row decides who may call it.
type Route struct {
	Method string
	Path   string
	Need   account.Need

	serve func(*server, *call) error
}

// Pattern returns the route's pattern for http.ServeMux.
func (r Route) Pattern() string { return r.Method + " " + r.Path }

// Table returns every route of this API. The authorisation matrix in package main calls each as every kind of caller.
func Table() []Route {
	need := account.Need{Scopes: []string{api.ScopeMetricsRead}, Reach: account.OwnTenant}
	return []Route{
		{http.MethodGet, Path, need, (*server).metrics},
		{http.MethodGet, Path + "/targets", need, (*server).targets},
		{http.MethodGet, Path + "/dashboard.json", need, file("application/json", dashboard)},
		{http.MethodGet, Path + "/alerts.yaml", need, file("application/yaml; charset=utf-8", alerts)},
	}
}

// Routes makes the handler of the whole table.
func (a *API) Routes() http.Handler {
	s := &server{API: *a}
	if s.Now == nil {
		s.Now = time.Now
	}
	mux := http.NewServeMux()
	packer := reply.NewPacker()
	for _, route := range Table() {
		mux.Handle(route.Pattern(), packer.Handler(s.guarded(route)))
	}
	return s.Info.Strict(mux)
}

// server is an API whose optional fields are filled in.
type server struct{ API }

// call is one request that was let in.
type call struct {
	w      http.ResponseWriter
	r      *http.Request
	caller account.Caller
}

// guarded is the only way to a handler.
func (s *server) guarded(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.Gate.Admit(r, route.Need)
		if err == nil {
			err = route.serve(s, &call{w, r, who})
		}
		if err != nil {
			s.Gate.Refuse(w, r, who, route.Need, err)
		}
	})
}

// metrics answers with the nodes that the caller may see and, to who sees the whole fleet, with the gateway itself.
func (s *server) metrics(c *call) error {
	var f struct {
		picked
		Detail string `json:"detail"`
	}
	if err := s.ask(c, &f); err != nil {
		return err
	}
	ofGPUs, err := figuresOf(f.Detail)
	if err != nil {
		return err
	}
	rows, leave, err := s.rows(c, f.picked)
	if err != nil {
		return err
	}
	defer leave()
	c.send(TextType, func(w io.Writer) error {
		t := newText(w)
		writeNodes(t, rows, ofGPUs)
		if f.Tenant == "" && f.Selector == "" {
			s.writeGateway(c.r.Context(), t)
		}
		t.writeLeftOut()
		return t.end()
	})
	return nil
}

func (s *server) writeGateway(ctx context.Context, t *text) {
	w := &whole{Gateway: s.Gateway(ctx), process: readProcess(), events: s.Events.all()}
	for _, f := range gatewayFamilies() {
		t.begin(f.family)
		f.say(t, w)
	}
}

// leftOut is the family that says what an answer does not show. It comes last, when that is known.
func leftOut() family {
	return family{"muster_metrics_left_out", gauge, "What this answer leaves out: GPUs and reasons beyond the bounds, labels cut short."}
}

func (t *text) writeLeftOut() {
	t.begin(leftOut())
	t.counts("what", map[string]int64{"gpus": int64(t.left.gpus), "reasons": int64(t.left.reasons), "label_text": int64(t.left.labels)})
}

// file makes a handler that sends a file of this program.
func file(mediaType string, content string) func(*server, *call) error {
	return func(s *server, c *call) error {
		if err := s.ask(c, &struct{}{}); err != nil {
			return err
		}
		c.send(mediaType, func(w io.Writer) error {
			_, err := io.WriteString(w, content)
			return err
		})
		return nil
	}
}

// send sends an answer while write makes it. Nothing can be refused any more, so an error cuts the
// answer: a caller must not take a part for the whole.
func (c *call) send(mediaType string, write func(io.Writer) error) {
	h := c.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if c.r.Method == http.MethodHead {
		return
	}
	if err := write(c.w); err != nil {
		panic(http.ErrAbortHandler)
	}
}
