package task

import (
	"cmp"
	"context"
	"fmt"

	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// shownType is a type in JSON.
type shownType struct {
	Name           string           `json:"name"`
	About          string           `json:"about"`
	Touches        string           `json:"touches"`
	TimeoutSeconds int              `json:"timeout_seconds"`
	LongestSeconds int              `json:"longest_seconds"`
	Drained        bool             `json:"runs_on_drained_nodes"`
	Repeat         bool             `json:"may_be_repeated"`
	Params         []wire.TaskParam `json:"params"`
}

func taskTypes(_ context.Context, s *cli.Session) error {
	types := wire.TaskTypes()
	if len(s.Words) > 0 {
		one, err := findType(s.Words[0])
		if err != nil {
			return err
		}
		types = []wire.TaskType{one}
	}
	switch {
	case s.Form == cli.FormJSON:
		return s.WriteJSON(struct {
			Types []shownType `json:"types"`
		}{shownTypes(types)})
	case len(s.Words) > 0:
		return showType(s, types[0])
	}
	columns := []screen.Column{{Name: "TYPE"}, {Name: "WHAT IT DOES", Least: 20}, {Name: "PARAMS", Wide: true}}
	return s.List(columns).Write(cli.Rows(types, func(t wire.TaskType) []string {
		return []string{t.Name, t.About, paramNames(t)}
	}))
}

func shownTypes(types []wire.TaskType) []shownType {
	shown := make([]shownType, 0, len(types))
	for _, t := range types {
		shown = append(shown, shownType{
			Name: t.Name, About: t.About, Touches: t.Touches, TimeoutSeconds: int(t.Timeout.Seconds()),
			LongestSeconds: int(t.Longest.Seconds()), Drained: t.Drained, Repeat: t.Repeat, Params: t.Params(),
		})
	}
	return shown
}

func paramNames(t wire.TaskType) string {
	text := ""
	for _, p := range t.Params() {
		if text != "" {
			text += " "
		}
		if p.Required {
			text += p.Name + "=..."
		} else {
			text += "[" + p.Name + "=...]"
		}
	}
	return text
}

// showType prints one type with its params.
func showType(s *cli.Session, t wire.TaskType) error {
	screen.Pairs(s.Stdout, s.Screen(), [][]string{
		{"type", t.Name}, {"does", t.About}, {"touches", cmp.Or(t.Touches, "nothing: it only looks")},
		{"takes", fmt.Sprintf("at most %s, or as timeout_seconds says, up to %s", screen.Age(t.Timeout), screen.Age(t.Longest))},
		{"drained nodes", mayRun(t.Drained)}, {"if it gets lost", repeats(t.Repeat)},
	})
	fmt.Fprintln(s.Stdout)
	columns := []screen.Column{{Name: "PARAM"}, {Name: "KIND"}, {Name: "NEEDED", Rank: 1}, {Name: "WHAT IT IS", Least: 20}}
	return s.List(columns).Write(cli.Rows(t.Params(), func(p wire.TaskParam) []string {
		return []string{p.Name, p.Kind, screen.YesNo(p.Required), p.About}
	}))
}

func mayRun(drained bool) string {
	if drained {
		return "run it too"
	}
	return "do not run it"
}

func repeats(repeat bool) string {
	if repeat {
		return "it is queued anew, unless a later task would be undone by that"
	}
	return "it stays lost, because doing it twice may do harm; a person decides"
}
