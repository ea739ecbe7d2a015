package node

import (
	"fmt"

	"muster/agent/wire"
	"muster/gateway/internal/cli/screen"
)

// channel is the one that the node follows.
func (v view) channel() string {
	switch {
	case v.Update == nil:
		return ""
	case v.Update.Pinned:
		return screen.OrUnknown(v.Update.Channel) + " (pinned)"
	}
	return v.Update.Channel
}

// update is the phase of the node's last update with its reason.
func (v view) update() string {
	u := v.Update
	switch {
	case u == nil:
		return ""
	case u.Unable:
		return "cannot update"
	case u.Phase == "" || u.Code == "":
		return u.Phase
	}
	return u.Phase + ": " + u.Code
}

// updateRows say how the node stands with its channel; none if nothing is known of it.
func (v view) updateRows() [][]string {
	u := v.Update
	if u == nil {
		return nil
	}
	channel := v.channel()
	switch {
	case u.Unable:
		channel += ", but this agent cannot update itself"
	case u.Sequence > 0:
		channel += fmt.Sprintf(", number %d", u.Sequence)
	}
	rows := [][]string{{"  channel", channel}}
	if u.Phase != "" {
		rows = append(rows, []string{"  update", v.updateLine()})
	}
	if u.Held != "" {
		rows = append(rows, []string{"  held", u.Held})
	}
	return rows
}

func (v view) updateLine() string {
	u := v.Update
	text := u.Phase
	if u.Version != "" {
		text += ", " + u.Version
	}
	if u.At != nil {
		text += ", " + screen.Ago(v.now, *u.At)
	}
	for _, part := range []string{u.Code, u.Detail} {
		if part != "" {
			text += ": " + part
		}
	}
	if u.Phase == wire.UpdateFailed || u.Phase == wire.UpdateRolledBack {
		text += "; muster help updates-failing"
	}
	return text
}
