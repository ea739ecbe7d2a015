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

// parseJournal reads one line. left is how many bytes behind it were not kept. What is no entry gives none.
func parseJournal(raw []byte, left int) (entry, bool) {
	var l journalLine
	if left > 0 {
		raw = mend(raw)
	}
	if !bytes.HasPrefix(raw, []byte("{")) || json.Unmarshal(raw, &l) != nil {
		return entry{}, false
	}
	e := entry{text: journalText(l.Message), left: left}
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

// mend makes a whole object of the beginning of one: with the values that are whole, and with what there is of the message.
func mend(raw []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return nil
	}
	values := map[string]json.RawMessage{}
	for {
		token, err := decoder.Token()
		name, isText := token.(string)
		if err != nil || !isText {
			break
		}
		from := decoder.InputOffset()
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			if name == "MESSAGE" {
				values[name] = mendText(raw[from:])
			}
			break
		}
		values[name] = value
	}
	whole, err := json.Marshal(values)
	if err != nil {
		return nil
	}
	return whole
}

// mendText ends a text, or a list of numbers, that was cut off. More than a message may have is not needed.
func mendText(raw []byte) json.RawMessage {
	raw = bytes.TrimLeft(raw, ": ")
	switch {
	case bytes.HasPrefix(raw, []byte(`"`)):
		raw = raw[:min(len(raw), 6*maxText)] // a character takes six bytes at most
		for range 12 {                       // the cut may be within one that is written as two of six bytes
			if whole := append(bytes.Clone(raw), '"'); json.Valid(whole) {
				return whole
			}
			raw = raw[:len(raw)-1]
		}
	case bytes.HasPrefix(raw, []byte("[")):
		raw = raw[:min(len(raw), 4*maxText)]
		if last := bytes.LastIndexByte(raw, ','); last > 0 {
			return append(bytes.Clone(raw[:last]), ']')
		}
	}
	return json.RawMessage(`""`)
}
