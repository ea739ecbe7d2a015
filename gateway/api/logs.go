package api

import "time"

// LogsType is the media type of lines of logs: one wire.LogLine as JSON in each line, and an empty line now and then.
const LogsType = "application/x-ndjson"

// LogsQuery picks lines of a node's logs. A zero field does not count.
type LogsQuery struct {
	Sources []string  `json:"source,omitempty"` // none: the agent's own
	Since   time.Time `json:"since,omitzero"`   // none: what the gateway takes for usual
	Follow  bool      `json:"follow,omitempty"`
	Grep    string    `json:"grep,omitempty"`                // a regular expression (RE2)
	Limit   int       `json:"limit,omitempty" most:"100000"` // the last ones of those that are there
}
