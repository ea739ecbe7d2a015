// Package nodeapi answers nodes, and whoever has yet to become one: enrolment, heartbeats, renewal, leaving, and what a
// machine needs before it has an identity (the agent's binary, the roots).
//
// Two rules run through it. A request's proof is checked before its content is looked at. And every answer to a proven
// request is proven itself, refusals included, so that a node believes the gateway and nobody in between.
package nodeapi

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/door"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/limit"
	"muster/gateway/internal/reply"
	"muster/store"
)

// usualBodyTime is how long a request's body may take to arrive.
const usualBodyTime = 15 * time.Second

// Config says what the node API works with.
type Config struct {
	Fleet       *fleet.Fleet
	Bootstrap   *bootstrap.Bootstrap
	Authority   *authority.Authority
	Issuer      authority.Issuer
	Store       *store.Store
	Info        *reply.Info
	Address     func(*http.Request) string          // of the client, as far as it can be trusted
	Now         func() time.Time                    // nil: time.Now
	Interval    time.Duration                       // between heartbeats, as the gateway wishes it
	RenewEvery  time.Duration                       // how often a node may renew, some in a row aside; 0: no bound
	RequireMTLS bool                                // signatures are good for renewal alone
	Agents      fs.FS                               // the agent binaries: <os>-<arch>/muster-agent; nil: none
	Version     string                              // of this gateway and the agents it carries
	BodyTime    time.Duration                       // how long a request's body may take to arrive; 0: 15 s
	Installer   func(*http.Request) ([]byte, error) // the joining script for whoever asks; nil: there is none
	Logger      *slog.Logger
}

// API is safe for concurrent use.
type API struct {
	Config
	agents *agents
	ready  readiness
	pace   *limit.Limiter // of renewals, by node
}

// New makes the node API.
func New(c Config) *API {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.BodyTime == 0 {
		c.BodyTime = usualBodyTime
	}
	return &API{Config: c, agents: newAgents(c.Agents, c.Version), pace: c.pace()}
}

// Routes adds every route of this package to a listener's mux.
func (a *API) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+wire.PathHealth, a.healthz)
	mux.HandleFunc("GET "+wire.PathReady, a.readyz)
	mux.HandleFunc("GET "+wire.PathVersion, a.version)
	mux.HandleFunc("GET "+wire.PathRoots, a.roots)
	mux.HandleFunc("GET "+wire.PathTrust, a.trust)
	mux.HandleFunc("GET "+wire.PathInstaller, a.installer)
	mux.HandleFunc("GET "+wire.PathAgent, a.manifest)
	mux.HandleFunc("GET "+wire.AgentPath("{os}", "{arch}"), a.binary)

	for _, method := range []string{"GET ", "POST "} {
		mux.HandleFunc(method+wire.BootstrapScriptPath("{token}"), a.script)
	}
	mux.HandleFunc("GET "+wire.RegistryCredentialPath("{token}"), a.registryCredential)

	mux.HandleFunc("POST "+wire.PathRegister, a.register)
	mux.HandleFunc("POST "+wire.HeartbeatPath("{id}"), a.node(a.heartbeat, route{purpose: fleet.ForHeartbeat}))
	mux.HandleFunc("POST "+wire.LeavePath("{id}"), a.node(a.leave, route{}))
	mux.HandleFunc("POST "+wire.AdoptPath("{id}"), a.adopt)
	mux.HandleFunc("POST "+wire.RenewPath("{id}"), a.node(a.renew, route{purpose: fleet.ForRenewal}))
}

// route is what sets a node's route apart.
type route struct {
	purpose fleet.Purpose
}

// call is one proven request of a node.
type call struct {
	id    *fleet.Identity
	body  []byte
	proof fleet.Proof
}

// node wraps a handler with the proof of the caller's identity, and its answer with a proof of the gateway's.
func (a *API) node(handler func(context.Context, call) (any, error), rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		signature, err := sign.ParseRequest(r)
		if err == sign.ErrUnsigned {
			signature, err = nil, nil
		}
		var answer any
		if err != nil {
			err = wire.Refuse(wire.CodeBadSignature, "the signature headers cannot be read: "+err.Error(),
				"something between may have changed them; the agent and the gateway must be of the same protocol")

		} else {
			answer, err = a.proven(w, r, signature, handler, rt)
		}
		a.answer(w, signature, answer, err)
	}
}

func (a *API) proven(w http.ResponseWriter, r *http.Request, s *sign.Signature, handler func(context.Context, call) (any, error), rt route) (any, error) {
	proof := a.proof(r, s)
	id, err := a.identify(r, s, rt, proof)
	if err != nil {
		return nil, err
	}
	door.Prove(r.Context(), id.NodeID)
	body, err := reply.ReadBody(w, r, wire.MaxBody, a.BodyTime)
	if err != nil {
		return nil, err
	}
	if s != nil && sign.VerifyDigest(r.Header.Get("Content-Digest"), body) != nil {
		return nil, wire.Refuse(wire.CodeBadDigest, "the body is not the one that was signed",
			"something between the node and the gateway changed it")

	}
	if id, err = a.Fleet.Use(r.Context(), id, rt.purpose); err != nil {
		return nil, err
	}
	return handler(r.Context(), call{id: id, body: body, proof: proof})
}

// answer writes what a handler gave. The status of every success is 200.
func (a *API) answer(w http.ResponseWriter, s *sign.Signature, answer any, err error) {
	status, body := http.StatusOK, []byte(nil)
	if err != nil {
		status, body = a.Info.Error(err)
	} else {
		body = reply.JSON(answer)
	}
	if s != nil {
		w.Header().Set(wire.HeaderAnswer, sign.SignAnswer(a.Authority.AnswerKey(), s.Nonce, status, body))
	}
	write(w, status, body)
}

// write sends an answer, and with a refusal for haste how long to wait.
func write(w http.ResponseWriter, status int, body []byte) {
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "60")
	}
	reply.Write(w, status, body)
}
