package api

import "time"

// LogsType is the media type of lines of logs: one wire.LogLine as JSON in each line, and an empty line now and then.
const LogsType = "application/x-ndjson"

// LogsQuery picks lines of a node's logs. A zero field does not count.
type LogsQuery struct {
	Sources []string  // none: the agent's own
	Since   time.Time // none: what the gateway takes for usual
	Follow  bool
	Grep    string // a regular expression (RE2)
	Limit   int    // the last ones of those that are there
}
