package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// Caller is an operator who has proven who they are.
type Caller struct {
	Actor   store.Actor
	Account string // id; "": on the socket
	Tenant  string // "": all
	// May refuses a type of session that the caller's scopes do not open; opener is the part of the scope. Nil: all are open.
	May func(opener string) error
}

func (c Caller) may(kind wire.SessionType) error {
	if c.May == nil {
		return nil
	}
	return c.May(kind.Opener)
}

// Ask asks for a session with a node: either Type and Params, and the gateway signs; or Signed, with the key of an operator.
type Ask struct {
	Node   string // name or id
	Type   string
	Params json.RawMessage
	Signed *wire.SignedTask

	inside bool // the gateway itself asks
}

// Open asks a node for a session. The session exists when the node has taken it and says so, in its first frame.
func (d *Service) Open(ctx context.Context, who Caller, q Ask) (api.Session, error) {
	s, err := d.read(ctx, who, q)
	if err != nil {
		return api.Session{}, err
	}
	if s.kind.Opener == "" {
		return api.Session{}, wire.Refuse(wire.CodeTaskTypeUnknown, "a session of type "+s.Type+" is opened by the gateway alone",
			"to read logs: muster node logs "+s.NodeName)
	}
	s.record = d.Record != nil && s.Type == wire.SessionShell
	if err := d.enter(s); err != nil {
		return api.Session{}, err
	}
	if err := d.records.Add(ctx, s.Session, d.opened(s)); err != nil {
		d.leave(s)
		return api.Session{}, usedID(err)
	}
	d.offer(s)
	return s.view(true), nil
}

func usedID(err error) error {
	if errors.Is(err, store.ErrConflict) {
		return wire.Refuse(wire.CodeAlreadyThere, "this document has opened a session already", "sign a new one for each session")
	}
	return err
}

// read checks an Ask and makes the session, which nobody knows yet.
func (d *Service) read(ctx context.Context, who Caller, q Ask) (*live, error) {
	payload, keyID, err := d.payload(q)
	if err != nil {
		return nil, err
	}
	kind, err := wire.FindSessionType(payload.Type)
	if err != nil {
		return nil, err
	}
	if err := who.may(kind); err != nil {
		return nil, err
	}
	params := kind.New()
	if err := sign.DecodeStrict(payload.Params, params); err != nil {
		return nil, wire.Refuse(wire.CodeTaskParamsInvalid, fmt.Sprintf("these are not the params of %s: %v", kind.Name, err),
			"muster help protocol shows the params of each type")
	}
	if err := params.Check(); err != nil {
		return nil, err
	}
	node, err := d.node(ctx, who.Tenant, q.Node)
	if err != nil {
		return nil, err
	}
	if q.Signed != nil {
		err = boundTo(payload, node)
	}
	if err != nil {
		return nil, err
	}
	s := newLive(d.Now(), who, kind, node)
	s.ID = payload.TaskID
	s.KeyID = keyID
	s.expires = payload.ExpiresAt
	s.inside = q.inside
	s.Idle, s.Limit = d.bounds(q, params.Bounds())
	if q.Signed != nil {
		s.signed = *q.Signed
	} else if payload.Params, err = d.seal(s, payload); err != nil {
		return nil, err
	}
	s.params = payload.Params
	s.About = about(params, payload.Params)
	return s, nil
}

// payload is what is signed: by an operator, and then verified before it is read, or by the gateway, and then not bound to a node yet.
func (d *Service) payload(q Ask) (wire.TaskPayload, string, error) {
	if q.Signed == nil {
		return d.draft(q)
	}
	if q.Type != "" || len(q.Params) > 0 {
		return wire.TaskPayload{}, "", wire.Refuse(wire.CodeBadRequest, "a signed document says everything itself", "leave type and params out")
	}
	p, key, err := sign.OpenTask(*q.Signed, d.Keys())
	if errors.Is(err, sign.ErrBadProof) {
		return p, "", wire.Refuse(wire.CodeBadRequest, "no task key that the nodes believe has signed this session",
			"muster key add --task FILE.pub makes them believe a key of yours")
	}
	if err != nil {
		return p, "", wire.Refuse(wire.CodeBadRequest, "the signed document cannot be read: "+err.Error(), "sign it with --key FILE")
	}
	now := d.Now()
	switch {
	case p.Nonce == "" || p.IssuedAt.After(now.Add(wire.MaxTaskAhead)) || p.ExpiresAt.Sub(p.IssuedAt) > wire.MaxSessionWait:
		return p, "", wire.Refuse(wire.CodeBadRequest, "the signed document has no nonce, or times that are not possible",
			"set the clock of the machine that signs; a document is good for a minute at most")
	case !p.ExpiresAt.After(now):
		return p, "", wire.Refuse(wire.CodeTaskExpired, "the signed document has expired",
			"sign a new one; if it happens again, set the clock of the machine that signs")
	}
	return p, sign.KeyID(key), wire.CheckSessionID(p.TaskID)
}

func (d *Service) draft(q Ask) (wire.TaskPayload, string, error) {
	now := d.Now().UTC().Truncate(time.Millisecond)
	if len(q.Params) == 0 {
		q.Params = json.RawMessage("{}")
	}
	if !json.Valid(q.Params) {
		return wire.TaskPayload{}, "", wire.Refuse(wire.CodeTaskParamsInvalid, "the params are not JSON", "give an object")
	}
	return wire.TaskPayload{TaskID: wire.NewSessionID(), Type: q.Type, Params: q.Params, IssuedAt: now,
		ExpiresAt: now.Add(wire.MaxSessionWait), Nonce: rand.Text()}, "", nil
}

// bounds are the idle limit and the outer limit of a session. The gateway closes its own.
func (d *Service) bounds(q Ask, asked wire.SessionBounds) (idle, limit time.Duration) {
	if q.inside {
		return within(asked.IdleSeconds, wire.MaxSession), within(asked.LimitSeconds, wire.MaxSession)
	}
	return within(asked.IdleSeconds, d.Idle), within(asked.LimitSeconds, d.Limit)
}

// within are the bounds that count: what was asked for, or else the longest.
func within(seconds int, longest time.Duration) time.Duration {
	if seconds == 0 {
		return longest
	}
	return min(time.Duration(seconds)*time.Second, longest)
}

// seal writes the bounds into the params, binds the payload to its node and signs it.
func (d *Service) seal(s *live, payload wire.TaskPayload) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(payload.Params, &fields); err != nil {
		return nil, err
	}
	fields["idle_seconds"] = seconds(s.Idle)
	fields["limit_seconds"] = seconds(s.Limit)
	params, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	payload.Params = params
	payload.NodeID = s.NodeID
	payload.Enrolment = s.enrolment
	raw, err := json.Marshal(payload)
	if err != nil {
		return nil, err
	}
	if len(raw) > wire.MaxTaskPayload {
		return nil, wire.Refuse(wire.CodeTaskParamsInvalid, fmt.Sprintf("the session's document is larger than %d bytes", wire.MaxTaskPayload),
			"give the program less by arguments, and more by its standard input")
	}
	s.payload = payload
	s.signed, err = d.Sign(raw)
	s.KeyID = s.signed.SigningKeyID
	return params, err
}

func seconds(d time.Duration) json.RawMessage {
	return json.RawMessage(strconv.Itoa(int((d + time.Second - 1) / time.Second)))
}

// node finds a node that can open sessions. It need not be ready for work: a node that fails is one to look at.
func (d *Service) node(ctx context.Context, tenant, name string) (store.Node, error) {
	node, err := d.Store.Node(ctx, tenant, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return node, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no node %.80q", name), "muster node ls")
	case err != nil:
		return node, err
	case node.RetiredAt != nil:
		return node, wire.Refuse(wire.CodeIllegalMove, "node "+node.Name+" is retired: it opens no sessions",
			"to bring it back, enrol it with a new token")
	case node.EnrolmentID == "" || !store.HasAgent(node.State):
		return node, wire.Refuse(wire.CodeIllegalMove, "node "+node.Name+" has not enrolled yet", "wait for it: muster node wait "+node.Name)
	case conflicted(node):
		return node, wire.Refuse(wire.CodeIdentityConflict, "two machines use the identity of node "+node.Name,
			"say which one it is: muster help identity-trouble")
	}
	if d.Ref().Status(node.State, node.LastSeen, node.Interval) == store.StatusStale {
		return node, wire.Refuse(wire.CodeIllegalMove, "node "+node.Name+" is not heard from since "+
			node.LastSeen.UTC().Format(time.RFC3339), "muster help stale-node")
	}
	return node, nil
}

func conflicted(n store.Node) bool {
	return slices.ContainsFunc(n.Reasons, func(r store.Reason) bool { return r.Reason == wire.ReasonConflict })
}

// boundTo refuses a document that was signed for another node, or for an earlier enrolment of this one.
func boundTo(p wire.TaskPayload, node store.Node) error {
	switch {
	case p.NodeID != node.ID:
		return wire.Refuse(wire.CodeBadRequest, "the document was signed for another node than "+node.Name, "sign it for the node's id")
	case p.Enrolment != node.EnrolmentID:
		return wire.Refuse(wire.CodeIllegalMove, "the document was signed for another enrolment of node "+node.Name,
			"look whose machine it is now, then sign again")
	}
	return nil
}

// about is what may be shown of params to everybody who may look at sessions. Arguments of programs are left out: they may hold secrets.
func about(params wire.SessionParams, raw json.RawMessage) map[string]string {
	sum := sha256.Sum256(raw)
	shown := map[string]string{"params_sha256": hex.EncodeToString(sum[:])}
	add := func(name, value string) {
		if value != "" {
			shown[name] = value
		}
	}
	program := func(command []string) {
		if len(command) > 0 {
			add("program", path.Base(command[0]))
			add("arguments", strconv.Itoa(len(command)-1))
		}
	}
	switch p := params.(type) {
	case *wire.ShellParams:
		add("user", p.User)
		program(p.Command)
	case *wire.ExecParams:
		add("user", p.User)
		program(p.Command)
	case *wire.ForwardParams:
		add("host", p.Host)
		add("port", strconv.Itoa(p.Port))
	case *wire.CopyParams:
		add("user", p.User)
		add("path", p.Path)
		add("write", strconv.FormatBool(p.Write))
		if p.Folder {
			add("folder", "true")
		}
	case *wire.LogsParams:
		add("source", p.Source)
	}
	return shown
}
