package session

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
	"muster/store/sessions"
)

// saveTime bounds how long the end of one session may take to be stored. What was not stored is tried again.
const saveTime = 5 * time.Second

// ending is how a session ends.
type ending struct {
	why, hint string
	exit      *int64      // of the program, where the node says one
	refused   string      // the code with which the node refused it
	killer    store.Actor // the person who ended it
	untaken   bool        // its node did not take it
}

// end ends a session, once.
func (d *Service) end(s *live, e ending) {
	now := d.Now().UTC()
	if !s.finish(e, now) {
		return
	}
	s.endTape(now, e.why, d)
	s.endWatchers(e.exit)
	d.save(s)
}

func (s *live) finish(e ending, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.EndedAt != nil {
		return false
	}
	s.EndedAt = &now
	s.End = e.why
	s.ExitCode = e.exit
	s.ending = e
	s.closed = wire.Refuse(wire.CodeSessionOver, "the session has ended: "+e.why, e.hint)
	for _, c := range s.channels {
		c.toNode.room.Close(s.closed)
		c.fromNode.room.Close(s.closed)
	}
	return true
}

func (s *live) endTape(now time.Time, why string, d *Service) {
	s.main.mu.Lock()
	tape := s.main.tape
	s.main.tape = nil
	s.main.mu.Unlock()
	if tape == nil {
		return
	}
	if err := tape.End(now, why); err != nil {
		d.Logger.Error("a recording has no good end", "session", s.ID, "error", err)
	}
}

// save stores the end of a session with its events. What fails is tried again by the sweep.
func (d *Service) save(s *live) {
	row := s.row()
	s.mu.Lock()
	e := s.ending
	done := s.saved || s.inside
	s.saved = true
	s.mu.Unlock()
	if done {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	err := d.records.End(ctx, row, endEvents(row, e)...)
	if err == nil || errors.Is(err, store.ErrConflict) {
		return
	}
	d.Logger.Error("the end of a session was not stored, and is tried again", "session", s.ID, "error", err)
	s.mu.Lock()
	s.saved = false
	s.mu.Unlock()
}

func endEvents(row sessions.Session, e ending) []store.Event {
	if e.refused != "" {
		refused := endEvent(row, "session.refused", store.Actor{Name: "node:" + row.NodeID})
		refused.Outcome = e.refused
		return []store.Event{refused}
	}
	ended := endEvent(row, "session.ended", store.Actor{Name: row.CreatedBy, Address: row.Address})
	if e.killer.Name == "" {
		return []store.Event{ended}
	}
	return []store.Event{endEvent(row, "session.killed", e.killer), ended}
}

// endEvent says how a session ended.
func endEvent(row sessions.Session, kind string, by store.Actor) store.Event {
	e := aboutSession(row, kind, by, *row.EndedAt)
	e.Detail["why"] = row.End
	e.Detail["seconds"] = strconv.FormatInt(int64(row.EndedAt.Sub(row.CreatedAt)/time.Second), 10)
	if !row.Uncounted {
		e.Detail["bytes_in"] = strconv.FormatInt(row.In, 10)
		e.Detail["bytes_out"] = strconv.FormatInt(row.Out, 10)
	}
	if row.ExitCode != nil {
		e.Detail["exit_code"] = strconv.FormatInt(*row.ExitCode, 10)
	}
	return e
}

// opened says who has asked for a session. It is stored before the node hears of it.
func (d *Service) opened(s *live) store.Event {
	e := s.event("session.opened", s.owner.Actor, d.Now())
	e.Detail["key"] = s.KeyID
	for name, value := range s.About {
		e.Detail[name] = value
	}
	return e
}

func (s *live) event(kind string, by store.Actor, now time.Time) store.Event {
	return aboutSession(s.row(), kind, by, now)
}

func aboutSession(row sessions.Session, kind string, by store.Actor, at time.Time) store.Event {
	return store.Event{At: at, Kind: kind, Actor: by.Name, NodeID: row.NodeID, NodeName: row.NodeName, Tenant: row.Tenant, Address: by.Address,
		Outcome: store.OutcomeOK, Security: true, Detail: map[string]string{"session": row.ID, "type": row.Type}}
}

// refused is how a session ends that the node does not want, or no longer.
func (s *live) refused(data []byte) *ending {
	var said wire.SessionRefused
	if err := json.Unmarshal(data, &said); err != nil {
		said = wire.SessionRefused{Message: "it does not say why"}
	}
	s.mu.Lock()
	begun := s.OpenedAt != nil
	s.mu.Unlock()
	if begun {
		return &ending{why: "the node ended it: " + wire.Head(said.Message, longestWhy)}
	}
	return &ending{why: "the node refused: " + wire.Head(said.Message, longestWhy), refused: codeWord(said.Code)}
}

// codeWord is a node's code, or that of a refusal where it is no word.
func codeWord(code string) string {
	if code == "" || len(code) > 40 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return wire.CodeTaskForbidden
	}
	return code
}

// Kill ends a session of a tenant ("": of any). It refuses a session that has ended.
func (d *Service) Kill(ctx context.Context, who Caller, id, why string) (api.Session, error) {
	s, row, err := d.find(ctx, who, id)
	if err != nil {
		return api.Session{}, err
	}
	if s == nil || row.EndedAt != nil {
		return api.Session{}, wire.Refuse(wire.CodeSessionOver, "this session has ended already", "muster session ls")
	}
	if why == "" {
		why = "ended by " + who.Actor.Name
	}
	d.end(s, ending{why: why, hint: "ask who ended it", killer: who.Actor})
	return s.view(false), nil
}

// Get returns a session of a tenant as it is now, or as it was at its end.
func (d *Service) Get(ctx context.Context, who Caller, id string) (api.Session, error) {
	s, row, err := d.find(ctx, who, id)
	if err != nil {
		return api.Session{}, err
	}
	if s == nil {
		return shown(row, nil), nil
	}
	return s.view(s.owner.Account == who.Account), nil
}

// find finds a session of a tenant that its caller may look at: in memory, or else on record.
func (d *Service) find(ctx context.Context, who Caller, id string) (*live, sessions.Session, error) {
	s := d.session(id)
	var row sessions.Session
	if s != nil && !s.inside {
		row = s.row()
		if who.Tenant != "" && who.Tenant != s.Tenant {
			return nil, row, noSession(id)
		}
		return s, row, who.may(s.kind)
	}
	row, err := d.records.Get(ctx, who.Tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, row, noSession(id)
	}
	if err != nil {
		return nil, row, err
	}
	kind, err := wire.FindSessionType(row.Type)
	if err != nil {
		return nil, row, err
	}
	return nil, row, who.may(kind)
}

// List returns one page of sessions, newest first, and the cursor of the next page. Sessions that live are as they are now. Those of types
// that the caller may not open are left out.
func (d *Service) List(ctx context.Context, who Caller, q sessions.Query) ([]api.Session, string, error) {
	rows, next, err := d.records.List(ctx, q)
	if errors.Is(err, store.ErrBadCursor) {
		return nil, "", wire.Refuse(wire.CodeBadRequest, "the cursor is not one of this list", "start again without one")
	}
	views := make([]api.Session, 0, len(rows))
	for _, row := range rows {
		if kind, err := wire.FindSessionType(row.Type); err != nil || who.may(kind) != nil {
			continue
		}
		v := shown(row, nil)
		if s := d.session(row.ID); s != nil {
			v = s.view(false)
		}
		views = append(views, v)
	}
	return views, next, err
}

// Internal is the operator's end of a session that the gateway itself has opened. It is a pipe.Carrier.
type Internal struct {
	service *Service
	live    *live
}

// Internal opens a session for the gateway itself, for example to read logs. It is on no record, and it does not end because the operator's
// end is silent: the caller closes it.
func (d *Service) Internal(ctx context.Context, node, kind string, params any) (*Internal, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	s, err := d.read(ctx, Caller{Actor: gatewayItself()}, Ask{Node: node, Type: kind, Params: raw, inside: true})
	if err != nil {
		return nil, err
	}
	if err := d.enter(s); err != nil {
		return nil, err
	}
	d.offer(s)
	return &Internal{d, s}, nil
}

// ID returns the id of the session.
func (i *Internal) ID() string { return i.live.ID }

// Send implements pipe.Carrier.
func (i *Internal) Send(ctx context.Context, number int, at int64, p pipe.Piece) (int64, error) {
	ch, err := i.live.channel(number)
	if err != nil {
		return at, err
	}
	return i.service.send(ctx, i.live, ch, number, at, p)
}

// Fetch implements pipe.Carrier.
func (i *Internal) Fetch(ctx context.Context, number int, at int64, _ []byte) (pipe.Piece, error) {
	ch, err := i.live.channel(number)
	if err != nil {
		return pipe.Piece{}, err
	}
	return i.service.fetch(ctx, i.live, number, ch, ch.fromNode, at, wire.PieceWait)
}

// Close ends the session.
func (i *Internal) Close() error {
	i.service.end(i.live, ending{why: "the gateway has read what it wanted"})
	return nil
}
