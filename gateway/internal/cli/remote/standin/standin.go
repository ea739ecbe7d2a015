// Package standin is a gateway and its nodes in small, for tests of the operator's end of a session: it takes sessions and carries their
// pieces as the gateway does, and a function of the test plays the node.
package standin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
)

// Gateway answers the part of the admin API that sessions need.
type Gateway struct {
	// Play is the node's side of each session. It runs in a goroutine of its own. Nil: no node takes the session.
	Play func(*Session)
	// Refuse answers requests for a session; nil: they are taken.
	Refuse *wire.ErrorDetail
	// Names are the names of the nodes that are listed; empty: gpu-1 to gpu-3.
	Names string
	// Labels are the labels of nodes, by name.
	Labels map[string]map[string]string

	played sync.WaitGroup // of Play

	mu       sync.Mutex
	sessions map[string]*Session
	asked    []api.SessionAsk
	away     int // status with which a proxy answers in the gateway's place; 0: the gateway answers
	requests int
}

// Session is one session at the gateway. As a pipe.Carrier it is the node's way there.
type Session struct {
	api.Session
	Ask    api.SessionAsk
	Main   *pipe.End // of the node
	Killed chan struct{}

	mu    sync.Mutex
	rooms map[room]*pipe.Room
	over  error // of all rooms; nil: they are open
	once  sync.Once
}

type room struct {
	channel int
	down    bool // to the operator
}

// ServeHTTP answers as the admin API does, unless Away says otherwise.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status := g.passing(); status != 0 {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		io.WriteString(w, "<html>a proxy's own page</html>")
		return
	}
	words := append(strings.Split(strings.TrimPrefix(r.URL.Path, wire.PrefixAdmin), "/"), "", "", "", "")
	r.SetPathValue("node", words[1])
	r.SetPathValue("session", words[3])
	switch {
	case words[1] == "":
		g.nodes(w)
	case words[2] == "":
		g.node(w, r)
	case words[3] == "":
		g.open(w, r)
	case words[4] == "":
		g.kill(w, r)
	case r.Method == http.MethodGet:
		g.fetch(w, r)
	default:
		g.take(w, r)
	}
}

func (g *Gateway) passing() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	return g.away
}

// Requests returns how many requests came.
func (g *Gateway) Requests() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests
}

// Away makes a proxy answer in the gateway's place with this status from now on; 0: no longer.
func (g *Gateway) Away(status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.away = status
}

// Asked returns the requests for sessions so far.
func (g *Gateway) Asked() []api.SessionAsk {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]api.SessionAsk(nil), g.asked...)
}

// Enrolment is the enrolment of every node.
const Enrolment = "e-7"

// NodeID returns the id of a node of this name.
func NodeID(name string) string { return idMark + strings.TrimPrefix(name, idMark) }

const idMark = "id-of-"

func (g *Gateway) node(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("node")
	answer(w, http.StatusOK, map[string]any{"id": NodeID(name), "name": name, "enrolment": Enrolment, "labels": g.Labels[name]})
}

func (g *Gateway) nodes(w http.ResponseWriter) {
	list := []map[string]any{}
	for _, name := range strings.Fields(cmp.Or(g.Names, "gpu-1 gpu-2 gpu-3")) {
		list = append(list, map[string]any{"id": NodeID(name), "name": name, "labels": g.Labels[name]})
	}
	answer(w, http.StatusOK, map[string]any{"nodes": list, "next": "", "total": len(list)})
}

func (g *Gateway) open(w http.ResponseWriter, r *http.Request) {
	var ask api.SessionAsk
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		refuse(w, http.StatusBadRequest, wire.Refuse(wire.CodeBadRequest, err.Error(), ""))
		return
	}
	if g.Refuse != nil {
		refuse(w, http.StatusConflict, g.Refuse)
		return
	}
	name := r.PathValue("node")
	s := &Session{Ask: ask, rooms: map[room]*pipe.Room{}, Killed: make(chan struct{})}
	s.Session = api.Session{ID: wire.NewSessionID(), Node: strings.TrimPrefix(name, idMark), NodeID: NodeID(name), Type: ask.Type,
		Params: ask.Params,
		Status: api.SessionWaiting}
	s.Main = pipe.Open(context.Background(), s, pipe.Main)
	g.mu.Lock()
	if g.sessions == nil {
		g.sessions = map[string]*Session{}
	}
	g.sessions[s.ID] = s
	g.asked = append(g.asked, ask)
	g.mu.Unlock()
	if g.Play != nil {
		g.played.Go(func() { g.Play(s) })
	}
	answer(w, http.StatusCreated, s.Session)
}

func (g *Gateway) find(w http.ResponseWriter, r *http.Request) (*Session, int, pipe.Query, bool) {
	g.mu.Lock()
	s := g.sessions[r.PathValue("session")]
	g.mu.Unlock()
	channel, badChannel := strconv.Atoi(r.URL.Query().Get(api.ParamChannel))
	q, badQuery := pipe.ReadQuery(r.URL.Query())
	if s == nil || s.NodeID != r.PathValue("node") || badChannel != nil || badQuery != nil {
		refuse(w, http.StatusNotFound, wire.Refuse(wire.CodeNotFound, "there is no such session", ""))
		return nil, 0, q, false
	}
	return s, channel, q, true
}

func (g *Gateway) fetch(w http.ResponseWriter, r *http.Request) {
	s, channel, q, ok := g.find(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), q.Wait)
	defer cancel()
	p, err := s.room(channel, true).Get(ctx, q.At, wire.MaxPiece)
	if err != nil {
		over(w, err)
		return
	}
	w.Header().Set("Content-Type", pipe.Kind)
	w.Write(p.Body())
}

func (g *Gateway) take(w http.ResponseWriter, r *http.Request) {
	s, channel, q, ok := g.find(w, r)
	if !ok {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, pipe.MaxBody))
	if err != nil {
		return
	}
	p, err := pipe.ReadPiece(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, wire.Refuse(wire.CodeBadRequest, err.Error(), ""))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	next, err := s.room(channel, false).Put(ctx, q.At, p)
	if err != nil {
		over(w, err)
		return
	}
	answer(w, http.StatusOK, pipe.Taken{Next: next})
}

func (g *Gateway) kill(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	s := g.sessions[r.PathValue("session")]
	g.mu.Unlock()
	if s == nil {
		refuse(w, http.StatusNotFound, wire.Refuse(wire.CodeNotFound, "there is no such session", ""))
		return
	}
	s.End("somebody ended it")
	s.once.Do(func() { close(s.Killed) })
	answer(w, http.StatusOK, s.Session)
}

// End ends the session for both sides, as the gateway does.
func (s *Session) End(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = wire.Refuse(wire.CodeSessionOver, why, "open another one")
	for _, room := range s.rooms {
		room.Close(s.over)
	}
}

// Wait waits until the node's side of each session has returned.
func (g *Gateway) Wait() { g.played.Wait() }

// EndAll ends all sessions.
func (g *Gateway) EndAll(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.sessions {
		s.End(why)
	}
}

func (s *Session) room(channel int, down bool) *pipe.Room {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := room{channel, down}
	if s.rooms[key] == nil {
		s.rooms[key] = pipe.NewRoom(wire.PipeRoom)
		if s.over != nil {
			s.rooms[key].Close(s.over)
		}
	}
	return s.rooms[key]
}

// Send implements pipe.Carrier for the node.
func (s *Session) Send(ctx context.Context, channel int, at int64, p pipe.Piece) (int64, error) {
	return s.room(channel, true).Put(ctx, at, p)
}

// Fetch implements pipe.Carrier for the node.
func (s *Session) Fetch(ctx context.Context, channel int, at int64, _ []byte) (pipe.Piece, error) {
	return s.room(channel, false).Get(ctx, at, wire.MaxPiece)
}

func over(w http.ResponseWriter, err error) {
	var said *wire.ErrorDetail
	if errors.As(err, &said) {
		refuse(w, http.StatusGone, said)
	}
}

func refuse(w http.ResponseWriter, status int, said error) {
	var detail *wire.ErrorDetail
	if errors.As(said, &detail) {
		answer(w, status, wire.Error{Error: *detail})
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(raw)
}
