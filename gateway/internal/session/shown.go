package session

import (
	"encoding/json"
	"time"

	"muster/gateway/api"
	"muster/store/sessions"
)

// shown is a session as the API shows it; without params, they are not shown.
func shown(v sessions.Session, params json.RawMessage) api.Session {
	out := api.Session{
		ID: v.ID, Node: v.NodeName, NodeID: v.NodeID, Tenant: v.Tenant, Type: v.Type, Params: params, About: v.About,
		Status: api.SessionWaiting, CreatedBy: v.CreatedBy, Address: v.Address, CreatedAt: v.CreatedAt.UTC(), OpenedAt: api.UTC(v.OpenedAt),
		EndedAt: api.UTC(v.EndedAt), End: v.End, Recorded: v.Recorded, SigningKeyID: v.KeyID,
		IdleSeconds: int(v.Idle / time.Second), LimitSeconds: int(v.Limit / time.Second),
	}
	if out.Params == nil {
		out.Params = json.RawMessage("null")
	}
	if !v.Uncounted {
		out.BytesIn = &v.In
		out.BytesOut = &v.Out
	}
	if v.ExitCode != nil {
		out.ExitCode = new(int(*v.ExitCode))
	}
	switch {
	case v.EndedAt != nil:
		out.Status = api.SessionEnded
	case v.OpenedAt != nil:
		out.Status = api.SessionOpen
	}
	return out
}
