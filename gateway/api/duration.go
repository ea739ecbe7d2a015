package api

import (
	"encoding/json"
	"time"

	"muster/agent/flags"
)

// Duration is a time.Duration that JSON spells "90m" or "7d"; a number of seconds is understood too.
type Duration time.Duration

// MarshalJSON writes Go's form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads a string or a number of seconds.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if string(raw) == "null" { // by encoding/json's convention no value at all
		return nil
	}
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw) + "s"
	}
	parsed, err := flags.ParseDuration(text)
	*d = Duration(parsed)
	return err
}
