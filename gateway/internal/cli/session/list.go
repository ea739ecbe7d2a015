package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

const (
	usualList = 100 // sessions of a table
	pageSize  = 500 // sessions of one question
)

func sessionList(ctx context.Context, s *cli.Session) error {
	filter, limit, err := filterOf(s)
	if err != nil {
		return err
	}
	var o struct{ Open bool }
	if err := s.Flags.Into(&o); err != nil {
		return err
	}
	if limit == 0 && s.Form != cli.FormJSON {
		limit = usualList
	}
	sessions, more, err := fetch(ctx, s, filter, o.Open, limit)
	if err != nil {
		return err
	}
	if s.Form == cli.FormJSON {
		return s.WriteJSON(api.SessionPage{Sessions: sessions})
	}
	rows := cli.Rows(sessions, func(one api.Session) []string { return row(one, s.Now()) })
	if err := s.List(columns()).Write(rows); err != nil {
		return err
	}
	footer := screen.Plural(len(sessions), "session")
	if more {
		footer += "; there are older ones: --limit N shows more"
	}
	fmt.Fprintln(s.Stdout, footer)
	return nil
}

func filterOf(s *cli.Session) (f api.SessionFilter, limit int, err error) {
	if err := s.Flags.Into(&f); err != nil {
		return f, 0, err
	}
	if f.Type != "" {
		if _, err := wire.FindSessionType(f.Type); err != nil {
			return f, 0, err
		}
	}
	return f, f.Limit, nil
}

// fetch gets so many sessions, page by page; 0: all. Those that have ended are left out where only open ones are asked for.
func fetch(ctx context.Context, s *cli.Session, f api.SessionFilter, open bool, limit int) (found []api.Session, more bool,
	err error) {
	states := []string{""}
	if open {
		states = []string{api.SessionWaiting, api.SessionOpen}
	}
	found = []api.Session{}
	for _, f.Status = range states {
		f.Cursor = ""
		for more := true; more; more = f.Cursor != "" {
			f.Limit = pageSize
			page, err := cli.Get[api.SessionPage](ctx, s, f.Path(), f)
			if err != nil {
				return nil, false, err
			}
			found = append(found, page.Sessions...)
			if limit > 0 && (len(found) > limit || len(found) == limit && page.Next != "") {
				return found[:limit], true, nil
			}
			f.Cursor = page.Next
		}
	}
	return found, false, nil
}

func columns() []screen.Column {
	return []screen.Column{
		{Name: "ID"}, {Name: "NODE", Least: 12, Most: 40}, {Name: "TYPE", Least: 10}, {Name: "STATUS"}, {Name: "REC", Rank: 2},
		{Name: "BY", Rank: 1, Least: 8, Most: 30}, {Name: "FROM", Rank: 6, Least: 8, Most: 40}, {Name: "AGE", Rank: 3},
		{Name: "TOOK", Rank: 4}, {Name: "BYTES", Rank: 5}, {Name: "WHY", Rank: 7, Least: 12, Most: 60},
	}
}

func row(s api.Session, now time.Time) []string {
	return []string{
		screen.Printable(s.ID), screen.OrUnknown(s.Node), screen.Printable(strings.TrimPrefix(s.Type, "session.")),
		screen.OrUnknown(s.Status), yes(s.Recorded), screen.OrUnknown(s.CreatedBy), screen.OrUnknown(s.Address),
		screen.Age(now.Sub(s.CreatedAt)), took(s, now), moved(s), screen.OrUnknown(s.End),
	}
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// moved are the bytes in both directions.
func moved(s api.Session) string {
	if s.BytesIn == nil || s.BytesOut == nil {
		return screen.Unknown
	}
	return strconv.FormatInt(*s.BytesIn+*s.BytesOut, 10)
}

// took is how long the session has lasted until its end, or until now.
func took(s api.Session, now time.Time) string {
	switch {
	case s.OpenedAt == nil:
		return screen.Unknown
	case s.EndedAt != nil:
		return screen.Age(s.EndedAt.Sub(*s.OpenedAt))
	}
	return screen.Age(now.Sub(*s.OpenedAt))
}

func sessionShow(ctx context.Context, s *cli.Session) error {
	return cli.ShowEach(ctx, s, api.PathSession, func(one api.Session) { show(s, one) })
}

// show prints one session. What is not known is left out.
func show(s *cli.Session, one api.Session) {
	var rows [][]string
	add := func(name, text string) {
		if text != "" && text != screen.Unknown {
			rows = append(rows, []string{name, text})
		}
	}
	add("id", screen.Printable(one.ID))
	add("node", screen.OrUnknown(one.Node))
	add("node id", screen.OrUnknown(one.NodeID))
	add("tenant", screen.OrUnknown(one.Tenant))
	add("type", screen.OrUnknown(one.Type))
	if params := string(one.Params); params != "null" {
		add("params", screen.Printable(params))
	}
	for _, name := range slices.Sorted(maps.Keys(one.About)) {
		add(screen.Printable(name), screen.Printable(one.About[name]))
	}
	add("status", screen.OrUnknown(one.Status))
	add("why", screen.Printable(one.End))
	add("exit code", screen.Number(one.ExitCode))
	add("by", screen.OrUnknown(one.CreatedBy))
	add("from", screen.OrUnknown(one.Address))
	add("made", screen.Stamp(&one.CreatedAt)+" ("+screen.Ago(s.Now(), one.CreatedAt)+")")
	add("begun", screen.Stamp(one.OpenedAt))
	add("ended", screen.Stamp(one.EndedAt))
	add("took", took(one, s.Now()))
	if one.BytesIn != nil && one.BytesOut != nil {
		add("bytes", fmt.Sprintf("%d to the node, %d from it", *one.BytesIn, *one.BytesOut))
	}
	add("ends", bounds(one))
	add("signed with", screen.Printable(one.SigningKeyID))
	add("recorded", yes(one.Recorded))
	if one.Recorded {
		add("play", s.Pasted("session play "+one.ID))
	}
	screen.Pairs(s.Stdout, s.Screen(), rows)
}

// bounds say when a session that goes on ends by itself.
func bounds(one api.Session) string {
	if one.Status == api.SessionEnded {
		return ""
	}
	var parts []string
	if one.IdleSeconds > 0 {
		parts = append(parts, "after "+seconds(one.IdleSeconds)+" without a byte")
	}
	if one.LimitSeconds > 0 {
		parts = append(parts, "after "+seconds(one.LimitSeconds)+" in any case")
	}
	return strings.Join(parts, ", ")
}

func seconds(n int) string { return screen.Age(time.Duration(n) * time.Second) }

func sessionKill(ctx context.Context, s *cli.Session) error {
	count := screen.Plural(len(s.Words), "session")
	question := "end " + count
	if len(s.Words) == 1 {
		question = "end session " + s.Words[0]
	}
	if err := s.Agree(question, "end "+count); err != nil {
		return err
	}
	return s.OnEach(ctx, cli.Named(s.Words), func(t cli.Target) (string, error) {
		one, err := cli.Get[api.Session](ctx, s, api.At(api.PathSession, t.ID), nil)
		if err != nil {
			return "", err
		}
		one, err = cli.Send[api.Session](ctx, s, "DELETE", api.At(api.PathNodeSession, one.NodeID, t.ID), nil)
		return one.Status, err
	})
}
