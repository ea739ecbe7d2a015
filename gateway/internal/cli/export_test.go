package cli

import (
	"encoding/json"
	"strings"
	"time"
)

// Shown is all that is printed of a node that came as JSON.
func Shown(raw []byte, now time.Time) (string, error) {
	v, err := readNode(json.RawMessage(raw), now)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	v.show(&out, 0, v.identityRows(raw))
	l := (&session{Env: Env{Stdout: &out}}).list("wide", nodeColumns())
	_ = l.write([][]string{v.row(true)})
	return out.String() + string(printableJSON(raw)), nil
}

// ScreenOf is how wide the terminal is that a command writes to.
var ScreenOf = screenOf
