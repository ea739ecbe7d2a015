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
		{Name: "node create", Args: "NAME", Least: 1, Most: 1, Flags: []string{"tenant", "label", "gpus", "mode", "ttl", "yes", "output"},
			Run: cli.With(nodeCreate), Says: says, Forms: forms(),
			Summary: "make a node that is yet to join, and its bootstrap command",
			Text:    "The node is ready, and waits for its machine. " + bootstrapText + "\n\n" + outputText + "\n\n" + cli.TenantText,
			Examples: []string{"muster node create gpu-7 --tenant platform --label rack=7 --gpus 8",
				"muster node create gpu-8 -o user-data > user-data"}},
		{Name: "bootstrap", Args: "NODE", Least: 1, Most: 1, Flags: []string{"mode", "again", "ttl", "output"}, Run: cli.With(bootstrapNode),
			Says:    says,
			Forms:   forms(),
			Summary: "mint a bootstrap token for a node, with its script",
			Text: bootstrapText + "\n\n" + outputText + " " +
				"A node that has enrolled is bootstrapped again only with --again: the machine that uses the token takes its place.",
			Examples: []string{"muster bootstrap gpu-7", "muster bootstrap gpu-7 -o script | ssh root@gpu-7 sh",
				"muster bootstrap gpu-7 --mode cloud-init > user-data",
				"muster bootstrap gpu-7 --again"}},
	}
}

const formUserData = "user-data"

// forms are what a bootstrap prints. A table is the text for a person.
func forms() []string {
	return []string{cli.FormTable, "command", "script", formUserData, cli.FormJSON}
}

// modeOf is the mode in the API's word: the command line says cloud-init. Without --mode it follows from what is to be printed.
func modeOf(s *cli.Session) (string, error) {
	usual := "manual"
	if s.Form == formUserData {
		usual = "cloud-init"
	}
	mode, err := s.Flags.OneOf("mode", usual, "manual", "cloud-init", "cloud_init")
	switch {
	case err == nil && s.Form == formUserData && mode == "manual":
		return "", cli.Usagef("leave --mode out, or write --mode cloud-init", "user-data is for cloud-init")
	case mode == "cloud-init":
		mode = "cloud_init"
	}
	return mode, err
}

func nodeCreate(ctx context.Context, s *cli.Session, q api.CreateNodeRequest) (err error) {
	q.Name = s.Words[0]
	if q.Mode, err = modeOf(s); err != nil {
		return err
	}
	if err := s.AskTenant(ctx, q.Tenant); err != nil {
		return err
	}
	answer, err := cli.Send[client.Raw[api.CreatedNode]](ctx, s, "POST", api.PathNodes, q)
	if err != nil {
		return err
	}
	made := answer.Read
	warnPlatforms(s, made.Packages)
	if done, err := part(s, answer.Sent, made.Script, made.Command, made.UserData); done {
		return err
	}
	_, err = fmt.Fprintf(s.Stdout, "node %s, tenant %s, %s\n\n", screen.Printable(made.Node.Name), screen.Printable(made.Node.Tenant),
		screen.Printable(made.Node.State))
	if err != nil {
		return err
	}
	return showBootstrap(s, made.Command, made.UserData, made.ExpiresAt, time.Duration(made.FetchWindow))
}

func bootstrapNode(ctx context.Context, s *cli.Session, o api.BootstrapOptions) (err error) {
	if o.Mode, err = modeOf(s); err != nil {
		return err
	}
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
	if done, err := part(s, answer.Sent, made.Script, made.Command, made.UserData); done {
		return err
	}
	if made.UserData != "" {
		return s.Print(made.UserData)
	}
	return showBootstrap(s, made.Command, "", made.ExpiresAt, time.Duration(made.FetchWindow))
}

// part prints the one thing that --output names; done is false if it names none.
func part(s *cli.Session, all json.RawMessage, script, command, userData string) (done bool, err error) {
	switch s.Form {
	case cli.FormJSON:
		return true, s.Print(string(screen.PrintableJSON(all)) + "\n") // its first member makes it harmless in a shell
	case "script":
		return true, s.Print(script)
	case formUserData:
		return true, s.Print(userData)
	case "command":
		return true, s.Print(command + "\n")
	}
	return false, nil
}

// warnPlatforms says for which machines a script has no agent.
func warnPlatforms(s *cli.Session, packages []api.BootstrapPackage) {
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		if !slices.ContainsFunc(packages, func(p api.BootstrapPackage) bool { return p.Platform == platform }) {
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
