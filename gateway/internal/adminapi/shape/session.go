package shape

import (
	"encoding/json"
	"time"

	"muster/gateway/internal/client"
	"muster/gateway/internal/session"
)

// Session is a session as it is now.
func Session(v session.View) client.Session {
	out := client.Session{
		ID: v.ID, Node: v.NodeName, NodeID: v.NodeID, Tenant: v.Tenant, Type: v.Type, Params: v.Params, About: v.About,
		Status: client.SessionWaiting, CreatedBy: v.CreatedBy, Address: v.Address, CreatedAt: v.CreatedAt.UTC(), OpenedAt: UTC(v.OpenedAt),
		EndedAt: UTC(v.EndedAt), End: v.End, Recorded: v.Recorded, SigningKeyID: v.KeyID,
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
		code := int(*v.ExitCode)
		out.ExitCode = &code
	}
	switch {
	case v.EndedAt != nil:
		out.Status = client.SessionEnded
	case v.OpenedAt != nil:
		out.Status = client.SessionOpen
	}
	return out
}
