package picture

import (
	"maps"
	"slices"
	"strings"

	"muster/gateway/api"
)

// Ways to group nodes, beside any label behind groupLabel.
const (
	groupTenant   = "tenant"
	groupProvider = "provider"
	groupLabel    = "label:"
)

// Group is some rows below one another. Without grouping there is one group, which has no name.
type Group struct {
	Name string
	Rows []Row
}

// Choice is one of the values that a person can choose from.
type Choice struct{ Value, Text string }

// GroupsOf puts the rows below the names of their groups. Within a group the rows keep their order. colour is what the heat map's colours
// say.
func GroupsOf(nodes []api.NodeRow, by, colour string) []Group {
	var all []Group
	at := map[string]int{}
	for i := range nodes {
		name := groupOf(&nodes[i], by)
		where, ok := at[name]
		if !ok {
			where = len(all)
			at[name] = where
			all = append(all, Group{Name: name})
		}
		all[where].Rows = append(all[where].Rows, RowOf(&nodes[i], colour))
	}
	slices.SortStableFunc(all, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func groupOf(n *api.NodeRow, by string) string {
	switch by {
	case "":
		return ""
	case groupTenant:
		return n.Tenant
	case groupProvider:
		return Dash(n.Provider)
	}
	return Dash(n.Labels[strings.TrimPrefix(by, groupLabel)])
}

// CanGroup reports whether nodes can be grouped by this.
func CanGroup(by string) bool {
	label, ok := strings.CutPrefix(by, groupLabel)
	return by == groupTenant || by == groupProvider || ok && label != ""
}

// GroupKeys returns the ways to group these nodes, and the one that was asked for.
func GroupKeys(nodes []api.NodeRow, asked string) []Choice {
	labels := map[string]bool{}
	for i := range nodes {
		for key := range nodes[i].Labels {
			labels[key] = true
		}
	}
	if key, ok := strings.CutPrefix(asked, groupLabel); ok {
		labels[key] = true
	}
	keys := []Choice{{groupTenant, groupTenant}, {groupProvider, groupProvider}}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		keys = append(keys, Choice{groupLabel + key, "label " + key})
	}
	return keys
}
