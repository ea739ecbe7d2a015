package console

import (
	"html/template"
	"maps"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/console/picture"
	"muster/gateway/internal/console/placement"
)

// funcs are what templates can call.
func (c *Console) funcs() template.FuncMap {
	return template.FuncMap{
		"when":     func(at any) picture.Moment { return picture.MomentOf(at, c.Now()) },
		"mark":     picture.MarkOf,
		"finding":  picture.FindingOf,
		"ended":    picture.OutcomeOf,
		"over":     wire.TaskEnded,
		"mib":      picture.MiB,
		"bytes":    picture.Bytes,
		"dash":     func(text string) string { return picture.Dash(picture.Drawn(text)) },
		"short":    picture.Short,
		"says":     picture.RecordingSays,
		"roots":    func() string { return wire.PathRoots },
		"waves":    picture.WaveText,
		"browser":  picture.Browser,
		"clock":    picture.Clock,
		"memory":   picture.OwnMemory,
		"join":     func(list []string) string { return strings.Join(list, ", ") },
		"pairs":    labelPairs,
		"many":     picture.Many,
		"count":    placement.Count,
		"money":    placement.Money,
		"rowmarks": picture.RowMarks,
		"modules":  fleetModules,
		"pick":     func(write bool, row picture.Row) pickRow { return pickRow{write, row} },
		"text":     func(name, value string) pair { return pair{name, value} },
	}
}

// labelPairs are labels in the order of their names, to be looked at.
func labelPairs(labels map[string]string) []pair {
	var all []pair
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, pair{picture.Drawn(name), picture.Drawn(labels[name])})
	}
	return all
}
