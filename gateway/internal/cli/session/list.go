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

// usualList is how many sessions a table has.
const usualList = 100

func sessionList(ctx context.Context, s *cli.Session, o struct {
	Filter api.SessionFilter
	Open   bool
}) error {
	if o.Filter.Type != "" {
		if _, err := wire.FindSessionType(o.Filter.Type); err != nil {
			return err
		}
	}
	limit := o.Filter.Limit
	if limit == 0 && s.Form != cli.FormJSON {
		limit = usualList
	}
	sessions, more, err := fetch(ctx, s, o.Filter, o.Open, limit)
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

// fetch gets so many sessions, page by page; 0: all. Those that have ended are left out where only open ones are asked for.
func fetch(ctx context.Context, s *cli.Session, f api.SessionFilter, open bool, limit int) (found []api.Session, more bool,
	err error) {
	states := []string{""}
	if open {
		states = []string{api.SessionWaiting, api.SessionOpen}
	}
	most := 0
	if limit > 0 {
		most = limit + 1 // that tells whether there are more
	}
	found = []api.Session{}
	for _, f.Status = range states {
		some, _, err := cli.Gather(most, func(limit int, cursor string) ([]api.Session, string, error) {
			f.Limit, f.Cursor = limit, cursor
			page, err := cli.Get[api.SessionPage](ctx, s, f.Path(), f)
			return page.Sessions, page.Next, err
		})
		if err != nil {
			return nil, false, err
		}
		found = append(found, some...)
	}
	if limit > 0 && len(found) > limit {
		return found[:limit], true, nil
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
	return []string{s.ID, s.Node, strings.TrimPrefix(s.Type, "session."), s.Status, screen.YesNo(s.Recorded), s.CreatedBy, s.Address,
		screen.Age(now.Sub(s.CreatedAt)), took(s, now), moved(s), s.End}
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
	rows := [][]string{{"id", one.ID}, {"node", one.Node}, {"node id", one.NodeID}, {"tenant", one.Tenant}, {"type", one.Type}}
	if params := string(one.Params); params != "null" {
		rows = append(rows, []string{"params", params})
	}
	for _, name := range slices.Sorted(maps.Keys(one.About)) {
		rows = append(rows, []string{name, one.About[name]})
	}
	bytes, play := "", ""
	if one.BytesIn != nil && one.BytesOut != nil {
		bytes = fmt.Sprintf("%d to the node, %d from it", *one.BytesIn, *one.BytesOut)
	}
	if one.Recorded {
		play = s.Pasted("session play " + one.ID)
	}
	rows = append(rows, [][]string{{"status", one.Status}, {"why", one.End}, {"exit code", screen.Number(one.ExitCode)}, {"by", one.CreatedBy},
		{"from", one.Address}, {"made", screen.Stamp(&one.CreatedAt) + " (" + screen.Ago(s.Now(), one.CreatedAt) + ")"},
		{"begun", screen.Stamp(one.OpenedAt)}, {"ended", screen.Stamp(one.EndedAt)}, {"took", took(one, s.Now())}, {"bytes", bytes},
		{"ends", bounds(one)}, {"signed with", one.SigningKeyID}, {"recorded", screen.YesNo(one.Recorded)}, {"play", play}}...)
	screen.Pairs(s.Stdout, s.Screen(), screen.Known(rows))
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
