package picture

import (
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

// SessionRow is a session as a row of a table.
type SessionRow struct {
	api.Session
	Kind string // such as shell
	User string // on the node; empty: it is nobody's
	What string // it is for: a program, a port, a file; empty: nothing more than its kind says
	Took string // how long it lasted, or has lasted by now
	How  string // it ended; empty: it goes on
}

// SessionRowOf says what is known of a session. Texts that come from a node are without characters that cannot be drawn.
func SessionRowOf(s api.Session, now time.Time) SessionRow {
	row := SessionRow{Session: s, Kind: strings.TrimPrefix(s.Type, "session."), What: Drawn(purpose(s)), Took: Unknown}
	switch s.Type {
	case wire.SessionShell, wire.SessionExec, wire.SessionCopy:
		row.User = Drawn(s.About["user"])
		if row.User == "" {
			row.User = "the agent's own"
		}
	}
	if s.OpenedAt != nil {
		until := now
		if s.EndedAt != nil {
			until = *s.EndedAt
		}
		row.Took = span(max(until.Sub(*s.OpenedAt), 0))
	}
	if s.Status == api.SessionEnded {
		row.How = Drawn(s.End)
	}
	return row
}

// SessionRowsOf returns the rows in the order of the sessions.
func SessionRowsOf(list []api.Session, now time.Time) []SessionRow {
	rows := make([]SessionRow, 0, len(list))
	for _, s := range list {
		rows = append(rows, SessionRowOf(s, now))
	}
	return rows
}

// purpose is what a session is for, as far as everybody may see it.
func purpose(s api.Session) string {
	switch s.Type {
	case wire.SessionForward:
		return "port " + strings.TrimPrefix(s.About["host"]+":"+s.About["port"], ":")
	case wire.SessionCopy:
		what := s.About["path"]
		if s.About["folder"] == "true" {
			what = "the folder " + what
		}
		if s.About["write"] == "true" {
			return "writes " + what
		}
		return "reads " + what
	}
	text := s.About["program"]
	switch count := s.About["arguments"]; count {
	case "", "0":
	case "1":
		text += " with 1 argument"
	default:
		text += " with " + count + " arguments"
	}
	return text
}

// Ends says when a session that goes on ends by itself; empty: nothing is known of that.
func (r SessionRow) Ends() string {
	var parts []string
	if r.Status != api.SessionEnded && r.IdleSeconds > 0 {
		parts = append(parts, "after "+seconds(r.IdleSeconds)+" without a byte")
	}
	if r.Status != api.SessionEnded && r.LimitSeconds > 0 {
		parts = append(parts, "after "+seconds(r.LimitSeconds)+" in any case")
	}
	return strings.Join(parts, ", ")
}

func seconds(n int) string { return span(time.Duration(n) * time.Second) }
