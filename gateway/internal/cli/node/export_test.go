package node

import (
	"encoding/json"
	"strings"
	"time"

	"muster/gateway/internal/cli/screen"
)

// Shown is all that is printed of a node that came as JSON.
func Shown(raw []byte, now time.Time) (string, error) {
	v, err := readNode(json.RawMessage(raw), now)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	v.show(&out, 0, v.identityRows(raw))
	_ = screen.NewList(&out, true, 0, nodeColumns()).Write([][]string{v.row(true)})
	return out.String() + string(screen.PrintableJSON(raw)), nil
}
