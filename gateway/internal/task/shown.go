package task

import (
	"encoding/json"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// Shown returns a task as lists show it, without what it has written.
func Shown(t store.Task) api.Task {
	return api.Task{
		ID: t.ID, Node: t.NodeName, NodeID: t.NodeID, Tenant: t.Tenant, Type: t.Type, Params: Params(t), Status: t.Status,
		ExitCode: t.ExitCode, Code: t.Code, Error: t.Error, Output: api.TaskLog{Bytes: t.Bytes, Truncated: t.Truncated},
		Archive: fileOf(t.Archive), Values: valuesOf(t.Values), CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt.UTC(),
		ExpiresAt: t.ExpiresAt.UTC(), ClaimedAt: api.UTC(t.ClaimedAt), StartedAt: api.UTC(t.StartedAt), FinishedAt: api.UTC(t.FinishedAt),
		CancelAskedAt: api.UTC(t.CancelAskedAt), CancelAskedBy: t.CancelAskedBy, ClaimFingerprint: t.ClaimFingerprint,
		SigningKeyID: t.SigningKeyID, Proof: t.Proof, RetryOf: t.RetryOf, RetriedAs: t.RetriedAs, QueueReason: WaitingFor(t),
	}
}

func fileOf(f *store.TaskFile) *wire.TaskFile {
	if f == nil {
		return nil
	}
	return &wire.TaskFile{Name: f.Name, Size: f.Size, SHA256: f.SHA256}
}

// valuesOf is never null: a task that has found out nothing has no values.
func valuesOf(found string) wire.TaskValues {
	values := wire.TaskValues{}
	if found == "" || json.Unmarshal([]byte(found), &values) != nil || values == nil {
		return wire.TaskValues{}
	}
	return values
}

// ShownSecret returns a secret that tasks may use, without its value.
func ShownSecret(s store.LentSecret) api.Secret {
	return api.Secret{Name: s.Name, Tenant: s.Tenant, CreatedAt: s.CreatedAt.UTC(), ChangedAt: s.ChangedAt.UTC(), ChangedBy: s.ChangedBy}
}
