package node

import (
	"encoding/json"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
)

// Shown is all that is printed of a node that came as JSON.
func Shown(raw []byte, now time.Time) (string, error) {
	var d api.NodeDetail
	if err := json.Unmarshal(raw, &d); err != nil {
		return "", err
	}
	v := viewOf(d.Node, now)
	var out strings.Builder
	v.show(&out, 0, v.identityRows(d))
	_ = screen.NewList(&out, true, 0, nodeColumns()).Write([][]string{v.row(true)})
	return out.String() + string(screen.PrintableJSON(raw)), nil
}
