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
	v.show(&out, v.identityRows(raw))
	columns(&out, [][]string{nodeHeader(true), v.row(true)})
	return out.String() + string(printableJSON(raw)), nil
}
