package logs

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// journalLine is what is read of a line of journalctl --output=json. A value is a text, a list of numbers where it is no text, a list of
// values where the field was set more than once, or null.
type journalLine struct {
	Cursor     json.RawMessage `json:"__CURSOR"`
	Received   json.RawMessage `json:"__REALTIME_TIMESTAMP"` // microseconds
	Message    json.RawMessage `json:"MESSAGE"`
	Priority   json.RawMessage `json:"PRIORITY"`
	Identifier json.RawMessage `json:"SYSLOG_IDENTIFIER"`
	Unit       json.RawMessage `json:"_SYSTEMD_UNIT"`
	PID        json.RawMessage `json:"_PID"`
}

// parseJournal reads one line of a journalCutter. What is no entry gives none.
func parseJournal(read one) (entry, bool) {
	var l journalLine
	if json.Unmarshal(read.text, &l) != nil {
		return entry{}, false
	}
	e := entry{text: journalText(l.Message), left: read.left}
	micros, err := strconv.ParseInt(journalText(l.Received), 10, 64)
	if err != nil || micros < 0 {
		return entry{}, false
	}
	e.at = time.UnixMicro(micros).UTC()
	if level, err := strconv.Atoi(journalText(l.Priority)); err == nil {
		e.level = syslogLevel(level)
	}
	if said := levelIn(e.text[:min(len(e.text), maxText)]); said != "" && e.level == "info" { // the journal takes info for what says nothing
		e.level = said
	}
	for _, f := range []field{{"identifier", journalText(l.Identifier)}, {"unit", journalText(l.Unit)}, {"pid", journalText(l.PID)}} {
		if f.value != "" {
			e.fields = append(e.fields, f)
		}
	}
	if cursor := journalText(l.Cursor); cursor != "" {
		e.place = journalPlace + cursor
	}
	return e, true
}

// journalText is the text of a value.
func journalText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var several []json.RawMessage
	if json.Unmarshal(raw, &several) != nil || len(several) == 0 {
		return ""
	}
	var numbers []int
	if json.Unmarshal(raw, &numbers) != nil {
		if first := several[0]; first[0] == '"' || bytes.HasPrefix(first, []byte("[")) && !bytes.HasPrefix(first, []byte("[[")) {
			return journalText(first)
		}
		return ""
	}
	out := make([]byte, len(numbers))
	for i, n := range numbers {
		out[i] = byte(n)
	}
	return string(out)
}
