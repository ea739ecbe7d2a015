// Package adminapi is the operator's API.
//
// Its routes are a table. Each row has the method and path, the scopes and the tenant rule, and the handler. Package account judges the
// caller by the row before the handler runs. Every change is an event: the part that makes the change writes it in the same
// transaction. Package account records refused calls as security events.
package adminapi

import (
	"context"
	"log/slog"
	"net/http"
	"path"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/adminapi/maas"
	"muster/gateway/internal/adminapi/provider"
	"muster/gateway/internal/adminapi/row"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/health"
	"muster/gateway/internal/health/alert"
	"muster/gateway/internal/history"
	"muster/gateway/internal/history/cost"
	"muster/gateway/internal/logs"
	"muster/gateway/internal/logs/ship"
	"muster/gateway/internal/placement"
	"muster/gateway/internal/placement/usage"
	"muster/gateway/internal/release"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/session"
	"muster/gateway/internal/session/recording"
	"muster/gateway/internal/task"
	"muster/gateway/internal/view"
	"muster/gateway/internal/view/livestream"
	"muster/store"
)

// API is what the routes need. It may be copied: each listener has a gate of its own.
type API struct {
	Gate       *account.Gate    // of the listener
	Recordings *recording.Store // of sessions; nil if Sessions is

	Fleet     *fleet.Fleet
	Bootstrap *bootstrap.Bootstrap
	Tasks     *task.Service
	Sessions  *session.Service // nil: none of its routes is called
	Releases  *release.Service
	Overview  *view.Fleet
	Tail      *audit.Tail
	Streams   *livestream.Streams // of all listeners; nil: this API has its own
	Health    *health.Service     // nil: no findings
	Alerts    *alert.Service      // nil: none of its routes is called
	Costs     *cost.Service
	Logs      *logs.Hub          // nil: its route is not called
	Shipping  *ship.Service      // nil: none of its routes is called
	Placement *placement.Service // nil: none of its routes is called
	Providers provider.Service   // zero: none of its routes is called
	MAAS      maas.Service       // nil: MAAS is off
	Usage     *usage.Service     // nil: its route is not called
	Store     *store.Store
	Logins    *login.Service
	Authority *authority.Authority
	Artifacts *artifact.Registry // nil: a backup has the database alone
	History   *history.Store     // nil: it is switched off
	Scratch   string             // directory in which a backup puts a copy of the database for a moment
	Cluster   Cluster
	Info      *reply.Info
	Gateway   api.Gateway
	Ready     func() bool                           // the database takes writes; nil: not known
	Host      func(context.Context) api.GatewayHost // all but the backup; nil: not known
	Command   func(token, at string) string         // the joining command for an enrollment token, at a URL, "": the public one; nil: none
	Now       func() time.Time                      // nil: time.Now
	Logger    *slog.Logger                          // nil: slog.Default
}

// Handler serves the API.
type Handler struct {
	http.Handler
	mux *http.ServeMux
}

// Takes reports whether a row of the table is for this request. Then the gate checks the caller, and looks for tokens in the URL. For
// other requests the listener must do that.
func (h *Handler) Takes(r *http.Request) bool {
	if path.Clean(r.URL.Path) != r.URL.Path { // ServeMux would redirect it
		return false
	}
	_, pattern := h.mux.Handler(r)
	return pattern != "" && pattern != "/" // Strict answers requests without a route by the pattern "/"
}

// Routes makes the handler of the whole table.
func (a *API) Routes() *Handler {
	s := &server{API: *a}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Streams == nil {
		s.Streams = livestream.New()
	}
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	mux := http.NewServeMux()
	packer := reply.NewPacker()
	for _, route := range Table() {
		handler := s.guarded(route)
		if route.Packed() {
			handler = packer.Handler(handler)
		}
		mux.Handle(route.Pattern(), handler)
	}
	return &Handler{Handler: s.Info.Strict(mux), mux: mux}
}

// server is an API whose optional fields are filled in.
type server struct{ API }

func (s *server) now() time.Time { return s.Now().UTC() }

// guarded is the only way to a handler: no route is served without it. It runs a route's handler if the gate lets the caller in, and
// sends what the handler returns.
func (s *server) guarded(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.Gate.Admit(r, route.Need)
		if err != nil {
			s.Gate.Refuse(w, r, who, route.Need, err)
			return
		}
		c := &call{&row.Call{W: w, Request: r, Caller: who, Status: http.StatusOK, Now: s.now}, s, route}
		c.Body = c.body
		answer, err := c.serve()
		if err != nil {
			s.Gate.Refuse(w, r, who, route.Need, err)
			return
		}
		switch answer := answer.(type) {
		case streamed:
		case withScript:
			reply.Write(w, c.Status, reply.Inert(answer.shape))
		default:
			reply.Write(w, c.Status, reply.JSON(answer))
		}
	})
}

// streamed says that the handler has sent the answer itself.
type streamed struct{}

// withScript marks JSON that holds a script. Somebody may pipe it into a root shell by mistake, so reply.Inert makes it harmless there.
type withScript struct{ shape any }
