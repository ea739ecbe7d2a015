package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"muster/gateway/internal/client"
)

const bootstrapText = "The token enrols that one node, once. It ends 15 minutes after the first fetch of the script, and at its outer limit at the latest: 15 minutes for manual, 24 hours for cloud-init, or --ttl. Earlier tokens of the node stay good until their own end or until the node enrols."

const outputText = "-o command prints what to paste into a root shell of the machine, -o script the whole script with the token in it, -o user-data what cloud-init takes, -o json all of it."

func bootstrapCommands() []command {
	says := map[string]string{"ttl": "the token's outer limit, 1m to 30d (manual: 15m, cloud-init: 1d)",
		"output": "command, script, user-data or json; without it a text to read", "label": "a label of the node; may be repeated",
		"gpus": "how many GPUs it should show"}
	return []command{
		{name: "node create", args: "NAME", least: 1, most: 1, options: []string{"tenant", "label", "gpus", "mode", "ttl", "output"}, run: nodeCreate, says: says,
			summary:  "make a node that is yet to join, and its bootstrap command",
			text:     "The node is ready, and waits for its machine. " + bootstrapText + "\n\n" + outputText,
			examples: []string{"muster node create gpu-7 --tenant platform --label rack=7 --gpus 8", "muster node create gpu-8 -o user-data > user-data"}},
		{name: "bootstrap", args: "NODE", least: 1, most: 1, options: []string{"mode", "again", "ttl", "output"}, run: bootstrapNode, says: says,
			summary: "mint a bootstrap token for a node, with its script",
			text: bootstrapText + "\n\n" + outputText + " " +
				"A node that has enrolled is bootstrapped again only with --again: the machine that uses the token takes its place.",
			examples: []string{"muster bootstrap gpu-7", "muster bootstrap gpu-7 -o script | ssh root@gpu-7 sh", "muster bootstrap gpu-7 --mode cloud-init > user-data",
				"muster bootstrap gpu-7 --again"}},
	}
}

// auditCommand is events with its eye on security.
func auditCommand() command {
	return command{name: "audit", options: []string{"node", "kind", "tenant", "since", "limit", "follow", "output"}, run: auditList,
		summary:  "show who did what: tokens, enrolments, refusals, moves and admin calls",
		text:     "The events that concern security, as muster events --security shows them: the latest 100 unless --since or --limit say otherwise, oldest first. With -o json one event a line.",
		examples: []string{"muster audit --since 1d", "muster audit --node gpu-7", "muster audit -f -o json"}}
}

func auditList(ctx context.Context, s *session) error {
	s.options.values["security"] = []string{"true"}
	return eventList(ctx, s)
}

// mode is the API's word for what the command line calls cloud-init; unsaid it follows from what is to be printed.
func (s *session) mode(output string) (string, error) {
	usual := "manual"
	if output == "user-data" {
		usual = "cloud-init"
	}
	mode, err := s.options.oneOf("mode", usual, "manual", "cloud-init", "cloud_init")
	if mode == "cloud-init" {
		mode = "cloud_init"
	}
	return mode, err
}

// printed is how a bootstrap is asked to be printed, and the mode that follows from that.
func (s *session) printed() (output, mode string, err error) {
	switch output = s.options.text("output"); output {
	case "table", "wide": // of lists; they may stand in the environment
	default:
		if output, err = s.options.oneOf("output", "", "command", "script", "json", "user-data"); err != nil {
			return "", "", err
		}
	}
	if mode, err = s.mode(output); err == nil && output == "user-data" && mode == "manual" {
		err = usagef("leave --mode out, or write --mode cloud-init", "user-data is for cloud-init")
	}
	return output, mode, err
}

func (s *session) createNodeRequest(mode string) (q client.CreateNodeRequest, err error) {
	q = client.CreateNodeRequest{Name: s.args[0], Tenant: s.options.text("tenant"), Mode: mode}
	if q.Labels, err = s.options.labels(); err != nil {
		return q, err
	}
	if q.GPUs, err = s.options.number("gpus", 0); err != nil {
		return q, err
	}
	ttl, err := s.options.duration("ttl", 0)
	q.TTL = client.Duration(ttl)
	return q, err
}

func nodeCreate(ctx context.Context, s *session) error {
	output, mode, err := s.printed()
	if err != nil {
		return err
	}
	q, err := s.createNodeRequest(mode)
	if err != nil {
		return err
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	raw, made, err := c.CreateNode(ctx, q)
	if err != nil {
		return err
	}
	s.warnPlatforms(made.Packages)
	if done, err := s.part(output, raw, made.Script, made.Command, made.UserData); done {
		return err
	}
	_, err = fmt.Fprintf(s.Stdout, "node %s, tenant %s, %s\n\n", printable(made.Node.Name), printable(made.Node.Tenant), printable(made.Node.State))
	if err != nil {
		return err
	}
	return s.showBootstrap(made.Command, made.UserData, made.ExpiresAt, time.Duration(made.FetchWindow))
}

func bootstrapNode(ctx context.Context, s *session) error {
	output, mode, err := s.printed()
	if err != nil {
		return err
	}
	o := client.BootstrapOptions{Mode: mode}
	if o.TTL, err = s.options.duration("ttl", 0); err != nil {
		return err
	}
	if o.Again, err = s.options.flag("again"); err != nil {
		return err
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	raw, made, err := c.Bootstrap(ctx, s.args[0], o)
	if err != nil {
		return err
	}
	s.warnPlatforms(made.Metadata.Packages)
	if done, err := s.part(output, raw, made.Script, made.Command, made.UserData); done {
		return err
	}
	if made.UserData != "" {
		return s.print(made.UserData)
	}
	return s.showBootstrap(made.Command, "", made.ExpiresAt, time.Duration(made.FetchWindow))
}

// part prints the one thing that --output names; done is false where it names none.
func (s *session) part(output string, all json.RawMessage, script, command, userData string) (done bool, err error) {
	switch output {
	case "json":
		return true, s.print(string(printableJSON(all)) + "\n") // as it came: it is harmless in a shell
	case "script":
		return true, s.print(script)
	case "user-data":
		return true, s.print(userData)
	case "command":
		return true, s.print(command + "\n")
	}
	return false, nil
}

// warnPlatforms says for which machines a script holds no agent. A gateway that names none is older, for one without any refuses.
func (s *session) warnPlatforms(packages []client.BootstrapPackage) {
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		if len(packages) > 0 && !slices.ContainsFunc(packages, func(p client.BootstrapPackage) bool { return p.Platform == platform }) {
			fmt.Fprintf(s.Stderr, "muster: this gateway carries no agent for %s: such a machine cannot use this script; make build puts all of them into a gateway\n", platform)
		}
	}
}

// print writes what goes into a file or a shell as it is.
func (s *session) print(text string) error {
	_, err := fmt.Fprint(s.Stdout, text)
	return err
}

func (s *session) showBootstrap(command, userData string, expires time.Time, window time.Duration) error {
	what, text := "On the machine, as root:", indent(command)
	if userData != "" {
		what, text = "The machine's user-data:", userData
	}
	_, err := fmt.Fprintf(s.Stdout, "%s\n\n%s\n\ngood until %s (%s), and for %s from the first fetch on; it is not shown again\n", what, text, stamp(&expires),
		age(expires.Sub(s.now())+time.Second/2), age(window))
	return err
}
