package join

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
)

const bootstrapText = "The token enrols that one node, once. It ends 15 minutes after the first fetch of the script, and at its outer " +
	"limit at the latest: 15 minutes for manual, 24 hours for cloud-init, or --ttl. Earlier tokens of the node stay good until their own " +
	"end or until the node enrols."

const outputText = "-o command prints what to paste into a root shell of the machine, -o script the whole script with the token in it, " +
	"-o user-data what cloud-init takes, -o json all of it."

// BootstrapCommands make a node before its machine joins, with the script that joins it.
func BootstrapCommands() []cli.Command {
	says := map[string]string{"ttl": "the token's outer limit, 1m to 30d (manual: 15m, cloud-init: 1d)",
		"output": "command, script, user-data or json; without it a text to read", "label": "a label of the node; may be repeated",
		"gpus": "how many GPUs it should show"}
	return []cli.Command{
		{Name: "node create", Args: "NAME", Least: 1, Most: 1, Flags: []string{"tenant", "label", "gpus", "mode", "ttl", "output"},
			Run: nodeCreate, Says: says,
			Summary: "make a node that is yet to join, and its bootstrap command",
			Text:    "The node is ready, and waits for its machine. " + bootstrapText + "\n\n" + outputText,
			Examples: []string{"muster node create gpu-7 --tenant platform --label rack=7 --gpus 8",
				"muster node create gpu-8 -o user-data > user-data"}},
		{Name: "bootstrap", Args: "NODE", Least: 1, Most: 1, Flags: []string{"mode", "again", "ttl", "output"}, Run: bootstrapNode,
			Says:    says,
			Summary: "mint a bootstrap token for a node, with its script",
			Text: bootstrapText + "\n\n" + outputText + " " +
				"A node that has enrolled is bootstrapped again only with --again: the machine that uses the token takes its place.",
			Examples: []string{"muster bootstrap gpu-7", "muster bootstrap gpu-7 -o script | ssh root@gpu-7 sh",
				"muster bootstrap gpu-7 --mode cloud-init > user-data",
				"muster bootstrap gpu-7 --again"}},
	}
}

// modeOf is the mode in the API's word: the command line says cloud-init. Without --mode it follows from what is to be printed.
func modeOf(s *cli.Session, output string) (string, error) {
	usual := "manual"
	if output == "user-data" {
		usual = "cloud-init"
	}
	mode, err := s.Flags.OneOf("mode", usual, "manual", "cloud-init", "cloud_init")
	if mode == "cloud-init" {
		mode = "cloud_init"
	}
	return mode, err
}

// printed is what is to be printed of a bootstrap, and the mode that follows from it.
func printed(s *cli.Session) (output, mode string, err error) {
	var o struct{ Output string }
	if err := s.Flags.Into(&o); err != nil {
		return "", "", err
	}
	switch output = o.Output; output {
	case "table", "wide": // forms of lists; the environment may name one
	default:
		if output, err = s.Flags.OneOf("output", "", "command", "script", "json", "user-data"); err != nil {
			return "", "", err
		}
	}
	if mode, err = modeOf(s, output); err == nil && output == "user-data" && mode == "manual" {
		err = cli.Usagef("leave --mode out, or write --mode cloud-init", "user-data is for cloud-init")
	}
	return output, mode, err
}

func createNodeRequest(s *cli.Session, mode string) (q api.CreateNodeRequest, err error) {
	err = s.Flags.Into(&q)
	q.Name = s.Words[0]
	q.Mode = mode
	return q, err
}

func nodeCreate(ctx context.Context, s *cli.Session) error {
	output, mode, err := printed(s)
	if err != nil {
		return err
	}
	q, err := createNodeRequest(s, mode)
	if err != nil {
		return err
	}
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	answer, err := client.Send[client.Raw[api.CreatedNode]](ctx, c, "POST", api.PathNodes, q)
	if err != nil {
		return err
	}
	made := answer.Read
	warnPlatforms(s, made.Packages)
	if done, err := part(s, output, answer.Sent, made.Script, made.Command, made.UserData); done {
		return err
	}
	_, err = fmt.Fprintf(s.Stdout, "node %s, tenant %s, %s\n\n", screen.Printable(made.Node.Name), screen.Printable(made.Node.Tenant),
		screen.Printable(made.Node.State))
	if err != nil {
		return err
	}
	return showBootstrap(s, made.Command, made.UserData, made.ExpiresAt, time.Duration(made.FetchWindow))
}

func bootstrapNode(ctx context.Context, s *cli.Session) error {
	output, mode, err := printed(s)
	if err != nil {
		return err
	}
	var o api.BootstrapOptions
	if err := s.Flags.Into(&o); err != nil {
		return err
	}
	o.Mode = mode
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	answer, err := client.Ask[client.Raw[api.BootstrapScript]](ctx, c, "POST", api.At(api.PathBootstrap, s.Words[0]), o, nil)
	if err != nil {
		return err
	}
	made := answer.Read
	warnPlatforms(s, made.Metadata.Packages)
	if done, err := part(s, output, answer.Sent, made.Script, made.Command, made.UserData); done {
		return err
	}
	if made.UserData != "" {
		return s.Print(made.UserData)
	}
	return showBootstrap(s, made.Command, "", made.ExpiresAt, time.Duration(made.FetchWindow))
}

// part prints the one thing that --output names; done is false where it names none.
func part(s *cli.Session, output string, all json.RawMessage, script, command, userData string) (done bool, err error) {
	switch output {
	case "json":
		return true, s.Print(string(screen.PrintableJSON(all)) + "\n") // its first member makes it harmless in a shell
	case "script":
		return true, s.Print(script)
	case "user-data":
		return true, s.Print(userData)
	case "command":
		return true, s.Print(command + "\n")
	}
	return false, nil
}

// warnPlatforms says for which machines a script has no agent. Where the gateway names no platform at all it says nothing: that is an
// older gateway, because one without agents would have refused.
func warnPlatforms(s *cli.Session, packages []api.BootstrapPackage) {
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		if len(packages) > 0 && !slices.ContainsFunc(packages, func(p api.BootstrapPackage) bool { return p.Platform == platform }) {
			fmt.Fprintf(s.Stderr, "muster: this gateway carries no agent for %s: such a machine cannot use this script; make build puts "+
				"all of them into a gateway\n", platform)
		}
	}
}

// showBootstrap is the text for a person. The half second rounds a time that has just begun to run: 15m, and not 14m.
func showBootstrap(s *cli.Session, command, userData string, expires time.Time, window time.Duration) error {
	what := "On the machine, as root:"
	text := screen.Indent(command)
	if userData != "" {
		what = "The machine's user-data:"
		text = userData
	}
	_, err := fmt.Fprintf(s.Stdout, "%s\n\n%s\n\ngood until %s (%s), and for %s from the first fetch on; it is not shown again\n", what,
		text, screen.Stamp(&expires), screen.Age(expires.Sub(s.Now())+time.Second/2), screen.Age(window))
	return err
}
