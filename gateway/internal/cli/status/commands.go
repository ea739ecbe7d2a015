// Package status has the commands that look at everything at once: at the gateway and its fleet, and at what a person checks first when
// something is wrong.
package status

import "muster/gateway/internal/cli"

// Commands returns the commands that belong to no group.
func Commands() []cli.Command {
	return []cli.Command{
		{Name: "status", Flags: []string{"output"}, Forms: []string{cli.FormTable, cli.FormJSON}, Run: status,
			Says:    map[string]string{"output": "table or json"},
			Summary: "show gateway, fleet, what is wrong and what it costs",
			Text: "One screen: since when the gateway serves, how many nodes are in which state, how many GPUs are at work, what all of it " +
				"costs in an hour. Below stands what is wrong: the severe first, of these the node with the highest price, then the oldest. Each has the " +
				"command that shows more of it. Alerts that are silenced are left out.\n\nA part that your account may not read is named. The " +
				"exit code is 0 also where something is wrong: " +
				"muster doctor has another one.",
			Examples: []string{"muster status", "muster status -o json | jq '.wrong[].text'"}},
		{Name: "doctor", Flags: []string{"output"}, Forms: []string{cli.FormTable, cli.FormJSON}, Run: doctor,
			Says:    map[string]string{"output": "table or json"},
			Summary: "check clock, disk, backup, certificates, URL, versions",
			Text: "It looks at what a person checks first: whether the gateway answers, the clock of this machine, the room on the disk of " +
				"the data, the age of the last backup, how long the certificates are good, whether the public URL leads to this gateway, " +
				"which versions run, and where the master key is. It changes nothing.\n\nEach line is ok, warn, failed or unknown, with what " +
				"was seen and what to do. Unknown is not ok: nobody could tell. The exit code is 1 if something failed.",
			Examples: []string{"muster doctor", "muster doctor -o json | jq -r '.checks[] | select(.outcome != \"ok\") | .check'"}},
	}
}
