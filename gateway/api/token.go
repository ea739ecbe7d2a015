package api

import "time"

// TokenRequest asks for an enrollment token. Zero fields mean the defaults: tenant default, one use, one hour.
type TokenRequest struct {
	Tenant       string            `json:"tenant,omitempty"`
	Uses         int               `json:"uses,omitempty"`
	TTL          Duration          `json:"ttl,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	GPUs         int               `json:"gpus,omitempty"`
	BindInstance bool              `json:"bind_instance,omitempty"`
	Name         string            `json:"name,omitempty"`    // of the node that joins, whatever its machine asks for; for one use alone
	Node         string            `json:"-"`                 // id of the one node that joins with it, even if that was just heard; empty: any
	Gateway      string            `json:"gateway,omitempty"` // the URL in the command, where the machine cannot reach the public one
}

// NewToken answers a TokenRequest: the only time that the token is shown.
type NewToken struct {
	ID           string            `json:"id"`
	Token        string            `json:"token"`
	ExpiresAt    time.Time         `json:"expires_at"`
	Tenant       string            `json:"tenant"`
	Uses         int               `json:"uses"`
	Labels       map[string]string `json:"labels"`
	GPUs         *int              `json:"gpus"`
	BindInstance bool              `json:"bind_instance"`
	Name         string            `json:"name"`    // of the node that joins; empty: as its machine asks
	Command      string            `json:"command"` // joins a machine; safe to paste into a shell
}

// Token is what the gateway shows of a token after it was made.
type Token struct {
	ID           string            `json:"id"`
	Tenant       string            `json:"tenant"`
	Status       string            `json:"status"` // live, used, expired or revoked
	Uses         int               `json:"uses"`
	Used         int               `json:"used"`
	Labels       map[string]string `json:"labels"`
	GPUs         *int              `json:"gpus"` // null: it names no number
	BindInstance bool              `json:"bind_instance"`
	NodeID       string            `json:"node_id"` // a bootstrap token's node
	Node         string            `json:"node"`    // its name now, or the name of the node that will join
	CreatedAt    time.Time         `json:"created_at"`
	ExpiresAt    time.Time         `json:"expires_at"`
	RevokedAt    *time.Time        `json:"revoked_at"`
	CreatedBy    string            `json:"created_by"`
}

// TokenList answers GET tokens.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}
