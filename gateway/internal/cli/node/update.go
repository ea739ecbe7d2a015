package node

import (
	"fmt"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/cli/screen"
)

// channel is the one that the node follows.
func (v view) channel() string {
	switch {
	case v.Update == nil:
		return screen.Unknown
	case v.Update.Pinned:
		return screen.OrUnknown(v.Update.Channel) + " (pinned)"
	}
	return screen.OrUnknown(v.Update.Channel)
}

// update is the phase of the node's last update with its reason.
func (v view) update() string {
	u := v.Update
	switch {
	case u == nil:
		return screen.Unknown
	case u.Unable:
		return "cannot update"
	case u.Phase == "" || u.Code == "":
		return screen.OrUnknown(u.Phase)
	}
	return screen.Printable(u.Phase + ": " + u.Code)
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
		rows = append(rows, []string{"  held", screen.Printable(u.Held)})
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
	var why []string
	for _, part := range []string{u.Code, u.Detail} {
		if part != "" {
			why = append(why, part)
		}
	}
	if len(why) > 0 {
		text += ": " + strings.Join(why, ": ")
	}
	if u.Phase == wire.UpdateFailed || u.Phase == wire.UpdateRolledBack {
		text += "; muster help updates-failing"
	}
	return screen.Printable(text)
}
