package api

import "time"

// HealthRule is one thing that can be wrong with a node.
type HealthRule struct {
	Rule     string          `json:"rule"`
	Severity string          `json:"severity"`
	Subject  string          `json:"subject"` // gpu or node
	Meaning  string          `json:"meaning"` // one sentence
	Next     string          `json:"next"`    // one sentence: what to do
	Topic    string          `json:"topic"`   // of muster help
	Limit    *float64        `json:"limit"`   // null: the rule has none, or none before it is set
	Unit     string          `json:"unit"`    // of the limit
	Settings []HealthSetting `json:"settings"`

	FoundAfterSeconds int `json:"found_after_seconds"` // so long it must be bad
	CuredAfterSeconds int `json:"cured_after_seconds"` // so long it must be good
}

// HealthSetting is what an operator said of a rule, for the nodes that a selector names.
type HealthSetting struct {
	Selector string    `json:"selector"` // empty: all nodes
	Off      bool      `json:"off"`
	Limit    *float64  `json:"limit"` // null: the rule's own
	For      Duration  `json:"for"`   // so long it must be bad; 0s: as the rule says
	SetAt    time.Time `json:"set_at"`
	SetBy    string    `json:"set_by"`
}

// HealthRuleList answers GET health-rules. For a node, the first setting of a rule counts whose selector names the node.
type HealthRuleList struct {
	Rules []HealthRule `json:"rules"`
}

// HealthRuleRequest sets a rule for the nodes that a selector names, in the place of an earlier setting for that selector.
type HealthRuleRequest struct {
	Selector string   `json:"selector,omitempty"`
	Off      bool     `json:"off,omitempty"`
	Limit    *float64 `json:"limit,omitempty"`
	For      Duration `json:"for,omitempty"`
}

// NodeFinding is a finding with its node.
type NodeFinding struct {
	Node   string `json:"node"`
	NodeID string `json:"node_id"`
	Tenant string `json:"tenant"`
	Finding
}

// FindingList answers GET findings: the severe ones first. At most MostFindings are listed; Total counts all.
type FindingList struct {
	Findings []NodeFinding `json:"findings"`
	Total    int           `json:"total"`
}

// MostFindings is how many findings one answer lists.
const MostFindings = 10_000

// FindingFilter picks findings. A zero field does not count.
type FindingFilter struct {
	Selector string `json:"selector,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	Severe   bool   `json:"severe,omitempty"`
}
