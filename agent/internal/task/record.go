package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"

	"muster/agent/wire"
)

// record is one line of the journal: the CRC-32 of what follows in 8 hex digits, a space, and JSON. It says what is new with a step of a
// task.
type record struct {
	Task    string           `json:"task,omitempty"`
	Step    string           `json:"step,omitempty"`
	Expires time.Time        `json:"expires,omitzero"`
	Signed  *wire.SignedTask `json:"signed,omitempty"`
	Started *time.Time       `json:"started,omitempty"`
	Result  *wire.TaskResult `json:"result,omitempty"`
	Archive string           `json:"archive,omitempty"`
	Follows bool             `json:"follows,omitempty"` // something is to be done once the gateway has the result
	Horizon time.Time        `json:"horizon,omitzero"`
	Doubt   time.Time        `json:"doubt,omitzero"`
}

var (
	errDamaged = errors.New("a damaged line in the journal") // it is not as it was written
	errCutOff  = errors.New("a line that was not written to its end")
)

const sumLength = 8 // hex digits of a CRC-32

func (r record) line() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%0*x %s\n", sumLength, crc32.ChecksumIEEE(text), text), nil
}

// readRecord reads one line. What the checksum does not fit was overwritten. A record that says nothing usable is damaged too. A last line
// that is the beginning of one was cut off, unless only its last byte is wrong.
func readRecord(line []byte) (record, error) {
	text, whole := bytes.CutSuffix(line, []byte("\n"))
	if whole {
		return readText(text)
	}
	sum, rest, _ := bytes.Cut(line, []byte(" "))
	_, err := readText(line[:len(line)-1])
	if err == nil || len(sum) > sumLength || len(bytes.Trim(sum, "0123456789abcdef")) > 0 || len(rest) > 0 && rest[0] != '{' {
		return record{}, errDamaged
	}
	return record{}, errCutOff
}

func readText(text []byte) (record, error) {
	var r record
	if len(text) < sumLength+1 || text[sumLength] != ' ' {
		return r, errDamaged
	}
	sum, err := strconv.ParseUint(string(text[:sumLength]), 16, 32)
	text = text[sumLength+1:]
	if err != nil || uint32(sum) != crc32.ChecksumIEEE(text) || json.Unmarshal(text, &r) != nil {
		return record{}, errDamaged
	}
	empty := r.Step == stepAccepted && r.Signed == nil || r.Step == stepFinished && r.Result == nil
	if r.Task != "" && wire.CheckTaskID(r.Task) != nil || empty {
		return record{}, errDamaged
	}
	return r, nil
}
