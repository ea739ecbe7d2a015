package logs

import (
	"bytes"
	"encoding/json"
)

const (
	// maxEscaped is how many bytes of JSON a byte of a text takes at most.
	maxEscaped = 6
	// maxMessage and maxOther bound what is kept of a value, in bytes of JSON.
	maxMessage = maxEscaped * maxText
	maxOther   = maxEscaped * (maxValue + slack)
)

// journalCutter makes a small line of each line of journalctl --output=json: with the fields of a journalLine alone, and with the beginning
// of a value that is long. It reads a line as a stream, because its fields have no order and each of them may be larger than the memory.
type journalCutter struct {
	depth   int  // of brackets that are open
	text    bool // within a text
	escaped bool // behind a backslash in a text
	named   bool // behind the name of a field

	name  []byte // as JSON
	value []byte
	most  int // bytes that are kept of the value

	line []byte // the fields so far
	left int    // bytes of the message that were not kept
}

func (c *journalCutter) feed(data []byte, give func(one) error) error {
	for _, b := range data {
		if b != '\n' { // within a text it is escaped
			c.take(b)
		} else if err := c.flush(give); err != nil {
			return err
		}
	}
	return nil
}

// take takes a byte of a line.
func (c *journalCutter) take(b byte) {
	switch {
	case c.escaped:
		c.escaped = false
	case c.text:
		c.escaped = b == '\\'
		c.text = b != '"'
	case b == '"':
		c.text = true
	case b == '{' || b == '[':
		c.depth++
	case b == '}' || b == ']':
		c.depth--
	}
	outer := !c.text && c.depth <= 1
	switch {
	case outer && (b == '{' || b == ',' || b == '}'):
		c.end()
	case c.named:
		c.keep(b)
	case outer && b == ':':
		c.named = true
		c.most = mostOf(c.name)
	case len(c.name) < maxName:
		c.name = append(c.name, b)
	}
}

// mostOf is how much is kept of the value of a field.
func mostOf(name []byte) int {
	switch string(name) {
	case `"MESSAGE"`:
		return maxMessage
	case `"__CURSOR"`, `"__REALTIME_TIMESTAMP"`, `"PRIORITY"`, `"SYSLOG_IDENTIFIER"`, `"_SYSTEMD_UNIT"`, `"_PID"`:
		return maxOther
	}
	return 0
}

// keep takes a byte of a value. What does not fit is counted in bytes of the message, not of JSON.
func (c *journalCutter) keep(b byte) {
	switch {
	case len(c.value) < c.most:
		c.value = append(c.value, b)
	case c.most == maxMessage && (c.text && !c.escaped || !c.text && b == ','):
		c.left++
	}
}

// end ends a field.
func (c *journalCutter) end() {
	if c.most > 0 {
		separator := byte(',')
		if len(c.line) == 0 {
			separator = '{'
		}
		value := c.value
		if !json.Valid(value) {
			var whole bool
			if value, whole = mend(value); whole && c.most == maxMessage {
				c.left = 0
			}
		}
		c.line = append(append(append(append(c.line, separator), c.name...), ':'), value...)
	}
	c.name = c.name[:0]
	c.value = c.value[:0]
	c.most = 0
	c.named = false
}

// flush gives the line. One whose object has not ended gives none.
func (c *journalCutter) flush(give func(one) error) error {
	whole := one{left: c.left}
	if c.depth == 0 && len(c.line) > 0 {
		whole.text = append(c.line, '}')
	}
	*c = journalCutter{line: c.line[:0], name: c.name[:0], value: c.value[:0]}
	return give(whole)
}

// mend makes a value of the beginning of one: the text, or the list of numbers, as far as it goes; of a list of values the first. whole
// says that nothing of it is missing.
func mend(raw []byte) (value []byte, whole bool) {
	switch {
	case bytes.HasPrefix(raw, []byte(`"`)):
		for cut := range min(2*maxEscaped, len(raw)) { // the end may be within a character that is written as two of six bytes
			if text := append(bytes.Clone(raw[:len(raw)-cut]), '"'); json.Valid(text) {
				return text, false
			}
		}
	case bytes.HasPrefix(raw, []byte(`["`)), bytes.HasPrefix(raw, []byte("[[")):
		var first json.RawMessage
		if json.NewDecoder(bytes.NewReader(raw[1:])).Decode(&first) == nil {
			return first, true
		}
		return mend(raw[1:])
	case bytes.HasPrefix(raw, []byte("[")):
		if last := bytes.LastIndexByte(raw, ','); last > 0 {
			if numbers := append(bytes.Clone(raw[:last]), ']'); json.Valid(numbers) {
				return numbers, false
			}
		}
	}
	return []byte(`""`), false
}
