// Package adminapi is the operator's API.
//
// Its routes are a table: each row says what is asked, which scopes and which tenant rule it takes, and who answers. Package account
// judges the caller by the row before the handler runs. Every change is an event that the part which makes it writes in the same
// batch; refused calls are security events of package account.
package adminapi

import (
	"log/slog"
	"net/http"
	"path"
	"time"

	"muster/gateway/internal/account"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/client"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/reply"
	"muster/store"
)

// API is what the routes rest on. It may be copied, for listeners with gates of their own.
type API struct {
	Gate      *account.Gate // of the listener
	Fleet     *fleet.Fleet
	Bootstrap *bootstrap.Bootstrap
	Store     *store.Store
	Authority *authority.Authority
	Scratch   string // directory where a copy of the database may lie for a moment
	Info      *reply.Info
	Gateway   client.Gateway
	Command   func(token string) string // the joining command for an enrollment token; nil: none
	Now       func() time.Time          // nil: time.Now
	Logger    *slog.Logger              // nil: slog.Default
}

// Handler serves the API.
type Handler struct {
	http.Handler
	mux *http.ServeMux
}

// Takes tells whether a row of the table takes this request, so that the gate looks for who calls and for tokens in the wrong place.
// Nothing here looks at the other requests.
func (h *Handler) Takes(r *http.Request) bool {
	if path.Clean(r.URL.Path) != r.URL.Path { // ServeMux would redirect it
		return false
	}
	_, pattern := h.mux.Handler(r)
	return pattern != "" && pattern != "/" // the latter is Strict's, for what no route takes
}

// Routes makes the handler of the whole table.
func (a *API) Routes() *Handler {
	s := &server{API: *a}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	mux := http.NewServeMux()
	for _, route := range Table() {
		mux.Handle(route.Pattern(), s.guarded(route))
	}
	return &Handler{Handler: s.Info.Strict(mux), mux: mux}
}

// server is an API whose optional fields are filled in.
type server struct{ API }

func (s *server) now() time.Time { return s.Now().UTC() }

// guarded is the one way to a handler: no route is served without it. It runs a route's handler for callers that the gate lets in, and
// answers what it gives.
func (s *server) guarded(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.Gate.Admit(r, route.Need)
		if err != nil {
			s.Gate.Refuse(w, r, who, route.Need, err)
			return
		}
		c := &call{server: s, w: w, r: r, route: route, caller: who, status: http.StatusOK}
		answer, err := route.serve(s, c)
		if err != nil {
			s.Gate.Refuse(w, r, who, route.Need, err)
			return
		}
		switch answer := answer.(type) {
		case streamed:
		case withScript:
			reply.Write(w, c.status, reply.Inert(answer.shape))
		default:
			reply.Write(w, c.status, reply.JSON(answer))
		}
	})
}

// streamed marks an answer that is on its way already.
type streamed struct{}

// withScript marks an answer that holds a script, which a root shell may be fed by mistake.
type withScript struct{ shape any }
