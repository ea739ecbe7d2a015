package api

import "time"

// LogShipping is a rule: which nodes ship which logs, and to where. The secret by which the sink lets the gateway in is never shown. The
// figures count since the gateway started.
type LogShipping struct {
	Name           string    `json:"name"`
	Tenant         string    `json:"tenant"` // empty: nodes of all tenants
	Selector       string    `json:"selector"`
	Sources        []string  `json:"sources"`
	To             string    `json:"to"`
	Auth           string    `json:"auth"`      // none, basic or bearer
	TenantID       string    `json:"tenant_id"` // X-Scope-OrgID
	BytesPerSecond int       `json:"bytes_per_second"`
	CreatedAt      time.Time `json:"created_at"`
	CreatedBy      string    `json:"created_by"`

	Nodes        int              `json:"nodes"` // that ship by it now
	Sent         int64            `json:"sent_lines"`
	SentBytes    int64            `json:"sent_bytes"`
	Dropped      map[string]int64 `json:"dropped_lines"` // by reason: buffer, damaged, refused, node
	Waiting      int64            `json:"waiting_lines"`
	BufferBytes  int64            `json:"buffer_bytes"`
	LagSeconds   float64          `json:"lag_seconds"` // how old the oldest line is that waits
	SentAt       *time.Time       `json:"sent_at"`
	FailingSince *time.Time       `json:"failing_since"` // null: the last push was taken
	Error        string           `json:"error"`
	Withheld     int              `json:"withheld_nodes"` // that do not ship all that the rule wants
	WithheldWhy  string           `json:"withheld"`       // by one of them, and why
}

// LogShippingList answers GET log-shippings.
type LogShippingList struct {
	Shippings []LogShipping `json:"log_shippings"`
}

// LogShippingRequest says what a rule is to be. Without basic and bearer, a rule with the same address keeps its secret.
type LogShippingRequest struct {
	Tenant         string   `json:"tenant,omitempty"`
	Selector       string   `json:"selector,omitempty"`
	Sources        []string `json:"sources"`
	To             string   `json:"to"`
	Basic          string   `json:"basic,omitempty"` // USER:PASSWORD
	Bearer         string   `json:"bearer,omitempty"`
	TenantID       string   `json:"tenant_id,omitempty"`
	CA             string   `json:"ca,omitempty"`               // PEM
	BytesPerSecond int      `json:"bytes_per_second,omitempty"` // of a node
}
