// Package health has the commands that show what is wrong and what happened: findings, alerts and events.
package health

import "muster/gateway/internal/cli"

const whichText = "The setting with the most selector terms wins; on a tie, the newest. It wins as a whole: a limit that it leaves out is " +
	"the rule's own."

// HealthCommands show what is wrong with nodes, and set the rules which find it.
func HealthCommands() []cli.Command {
	return []cli.Command{
		{Name: "health ls", Flags: []string{"selector", "severe", "tenant", "output"}, Run: cli.With(healthList),
			Summary: "list what is wrong with nodes now",
			Text: "The severe findings come first: they keep a node from work until they are cured. A finding of a node that is not heard from " +
				"is marked as old. -o wide says what to do.",
			Examples: []string{"muster health ls", "muster health ls --severe -l tier=sovereign", "muster health ls -o json | jq '.total'"}},
		{Name: "health rules", Flags: []string{"output"}, Run: healthRules, Summary: "list the rules with their limits and settings",
			Text: "muster help conditions says what each rule means, and what to do.", Examples: []string{"muster health rules",
				"muster health rules -o wide"}},
		{Name: "health set", Args: "RULE", Least: 1, Most: 1, Flags: []string{"selector", "limit", "for", "off", "output"}, Run: cli.With(healthSet),
			Says: map[string]string{"limit": "the rule's limit, in its unit", "for": "so long it must be bad at each look, at most 168h",
				"output": "table or json; json prints the rule"},
			Summary: "set a rule's limit, or switch it off",
			Text: "Without -l it is for all nodes. What is open of a rule that is switched off closes, and no longer keeps nodes from work. " +
				whichText,
			Examples: []string{"muster health set gpu_hot --limit 85", "muster health set gpu_hot -l rack=7 --limit 80",
				"muster health set gpu_idle --limit 5 --for 2h", "muster health set pcie_slow -l tier=lab --off"}},
		{Name: "health unset", Args: "RULE", Least: 1, Most: 1, Flags: []string{"selector"}, Run: cli.With(healthUnset),
			Summary: "drop what was set for a rule", Text: "The selector must be written as it was set. " + whichText,
			Examples: []string{"muster health unset gpu_hot", "muster health unset gpu_hot -l rack=7"}},
	}
}
