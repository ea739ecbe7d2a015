package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"muster/gateway/internal/client"
	"muster/gateway/internal/datadir"
)

const offlineText = "The gateway has to be stopped (systemctl stop muster)."

func caCommands() []command {
	return []command{
		{name: "ca init", options: []string{"root-out", "trust-domain", "master-key-file"}, run: caInit,
			summary: "make the CA before the first start, or take its root's key out of the gateway",
			text: "With --root-out the root's key goes into DIR/root.key (mode 0600, unencrypted: keep the directory on a medium that is not connected) and its certificate into DIR/root.pem; the database keeps the certificate and an intermediate, which signs from now on. " +
				"On a database that has a CA already the same moves that root's key out. " + offlineText,
			examples: []string{"muster ca init --root-out /media/usb/muster-root", "muster ca init --trust-domain fleet.example"}},
		{name: "ca show", options: []string{"output"}, run: caShow,
			summary: "show roots, intermediate and where their keys are", text: "A root that is online has its key in the gateway's database. Nodes trust all the roots that are listed.",
			examples: []string{"muster ca show", "muster ca show -o json"}},
		{name: "ca intermediate", options: []string{"root"}, run: caIntermediate,
			summary: "make a new intermediate and sign with it from now on",
			text: "Nodes verify by root, so none of them hears of it. With --root DIR the root in that directory signs it here, and its key does not leave this machine; roots whose key is in the gateway's database sign it too. " +
				"While two roots are trusted, have both sign it: then also a node that knows only one of them is served without a word.",
			examples: []string{"muster ca intermediate", "muster ca intermediate --root /media/usb/muster-root"}},
		{name: "ca rotate-root", options: []string{"root-out", "trust-key"}, run: caRotateRoot,
			summary: "announce a new root to all nodes",
			text: "Nodes trust it beside the one before, from their next heartbeat on. It signs nothing yet: muster ca intermediate makes an intermediate under it, muster ca drop-root ends the old one. A node that sleeps through all of that fetches the signed sets and follows them. " +
				"With --root-out the new root's key is made in DIR and the gateway never sees it; a gateway whose root is kept out needs that.",
			examples: []string{"muster ca rotate-root", "muster ca rotate-root --root-out /media/usb/root-2027"}},
		{name: "ca drop-root", args: "PIN", least: 1, most: 1, options: []string{"trust-key", "yes"}, run: caDropRoot,
			summary: "make nodes stop trusting a root", text: "The root is named as muster ca show does; eight digits are enough. The one that the intermediate stands under stays. It asks first unless --yes is given. " +
				"An agent that is older than this gateway may hold the root's pin in its settings and not start again without that root: first join such nodes again with the present agent (muster push, or the printed command).",
			examples: []string{"muster ca drop-root sha256:4f9a0c21"}},
	}
}

func caInit(ctx context.Context, s *session) error {
	data, err := s.dataFiles()
	if err != nil {
		return err
	}
	out := s.options.text("root-out")
	pin, err := s.Local.InitCA(ctx, data, s.options.text("trust-domain"), out)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, "The CA in %s has the root %s.\n", printable(data.Data), printable(pin))
	if out != "" {
		fmt.Fprintf(s.Stdout, "The root's key is in %s and nowhere else: keep two copies of that directory in safe places, not connected.\n", printable(out))
		s.printf("To make the next intermediate: muster ca intermediate --root %s\n", QuoteWord(datadir.Absolute(out)))
	}
	return nil
}

func caShow(ctx context.Context, s *session) error {
	c, format, err := s.begin(ctx)
	if err != nil {
		return err
	}
	ca, err := c.CA(ctx)
	if err != nil || format == "json" {
		return firstError(err, func() error { return s.writeJSON(ca) })
	}
	fmt.Fprintf(s.Stdout, "trust domain %s, trust set %d\n", printable(ca.TrustDomain), ca.TrustNumber)
	var rows [][]string
	for _, root := range ca.Roots {
		rows = append(rows, []string{"root", orUnknown(root.Pin), stamp(&root.NotAfter), online(root.Online), yesNo(root.Signing)})
	}
	rows = append(rows, []string{"intermediate", orUnknown(ca.Intermediate.Fingerprint), stamp(&ca.Intermediate.NotAfter), online(true), "yes"})
	return s.list(format, []column{{name: "LEVEL"}, {name: "PIN OR FINGERPRINT", least: 20}, {name: "UNTIL"}, {name: "KEY"}, {name: "SIGNS", rank: 1}}).write(rows)
}

func online(on bool) string {
	if on {
		return "online"
	}
	return "offline"
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func caIntermediate(ctx context.Context, s *session) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	var q client.IntermediateRequest
	if dirs := s.options.list("root"); len(dirs) > 0 {
		prepared, err := c.Intermediate(ctx, client.IntermediateRequest{Prepare: true})
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			certificate, err := s.Local.SignIntermediate(dir, prepared.Request, prepared.TrustDomain)
			if err != nil {
				return err
			}
			q.Certificates += certificate
		}
	}
	if _, err := c.Intermediate(ctx, q); err != nil {
		return err
	}
	ca, err := c.CA(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, "Signing with intermediate %.16s until %s. Nodes need not be told.\n", printable(ca.Intermediate.Fingerprint), stamp(&ca.Intermediate.NotAfter))
	for _, root := range ca.Roots {
		if !root.Signing {
			fmt.Fprintf(s.Stdout, "It is not signed by the root %s, which nodes still trust: those that know only that one fetch the signed sets first.\n", printable(root.Pin))
		}
	}
	return nil
}

func caRotateRoot(ctx context.Context, s *session) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	before, err := c.CA(ctx)
	if err != nil {
		return err
	}
	var q client.RootRequest
	out := s.options.text("root-out")
	if out != "" {
		if q.Certificate, err = s.Local.NewRoot(out, before.TrustDomain); err != nil {
			return err
		}
	}
	change, err := c.AddRoot(ctx, q)
	if err != nil {
		return err
	}
	if err := s.publish(ctx, c, change); err != nil {
		return err
	}
	next := "muster ca intermediate"
	if out != "" {
		next += " --root " + QuoteWord(datadir.Absolute(out))
	}
	s.printf("Nodes trust it from their next heartbeat on. It signs nothing yet: in a quarter of an hour, give %s\n", next)
	return nil
}

func caDropRoot(ctx context.Context, s *session) error {
	return s.distrust(ctx, "root", (*client.Client).DropRoot)
}

// distrust takes what the argument names out of the trust set, once the operator is sure.
func (s *session) distrust(ctx context.Context, what string, drop func(*client.Client, context.Context, string) (client.TrustChange, error)) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	if err := s.sure("drop the " + what + " " + s.args[0]); err != nil {
		return err
	}
	change, err := drop(c, ctx, s.args[0])
	if err != nil {
		return err
	}
	return s.publish(ctx, c, change)
}

// publish tells what became of a change, and signs its draft here where the trust key is kept out of the gateway.
func (s *session) publish(ctx context.Context, c *client.Client, change client.TrustChange) error {
	if !change.Published {
		file := s.options.text("trust-key")
		if file == "" {
			return usagef("add --trust-key FILE, where it is", "the trust key is kept out of this gateway, and nothing has changed yet")
		}
		if err := s.showDraft(change.Draft); err != nil {
			return err
		}
		set, err := s.Local.SignSet(file, change.Draft)
		if err != nil {
			return err
		}
		if change, err = c.PublishTrust(ctx, set); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.Stdout, "Trust set %d is published.\n", change.Number)
	return nil
}

// sure asks before something that has no way back.
func (s *session) sure(what string) error {
	yes, err := s.options.flag("yes")
	if err != nil || yes {
		return err
	}
	if !s.interactive() {
		return usagef("add --yes", "to %s needs a yes, and there is no terminal to ask on", what)
	}
	fmt.Fprintf(s.Stderr, "%s? [y/N] ", printable(what))
	switch answer, err := s.readLine(); {
	case err != nil:
		return err
	case strings.EqualFold(answer, "y"), strings.EqualFold(answer, "yes"):
		return nil
	}
	return errors.New("nothing was done")
}
