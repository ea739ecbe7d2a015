package node

import (
	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
)

// findingRows says what is wrong with a node, and what to do.
func (v view) findingRows(d api.NodeDetail) [][]string {
	var rows [][]string
	for _, f := range d.Findings {
		text := f.Severity + ", " + f.Rule + ", since " + screen.Age(v.now.Sub(f.Since)) + ": " + f.Text
		if f.Old {
			text += " (old: the node is not heard from)"
		}
		rows = append(rows, []string{"  finding", text})
		rows = append(rows, []string{"    next", f.Next + " muster help " + f.Topic})
	}
	return rows
}
