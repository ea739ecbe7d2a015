package gateway

import (
	"context"
	"fmt"
	"slices"

	"muster/gateway/api"
	"muster/gateway/api/trust"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/paste"
)

// CACommands returns the commands about the CA and about the keys that nodes trust.
func CACommands() []cli.Command { return slices.Concat(caCommands(), keyCommands(), taskKeyCommands()) }

func caCommands() []cli.Command {
	return []cli.Command{
		{Name: "ca init", Flags: []string{"root-out", "trust-domain", "master-key-file"}, Run: cli.With(caInit),
			Summary: "make the CA before the first start, or take its root's key out of the gateway",
			Text: "With --root-out the root's key goes into DIR/root.key (mode 0600, unencrypted: keep the directory on a medium that is " +
				"not connected) and its certificate into DIR/root.pem; the database keeps the certificate and an intermediate, which " +
				"signs from now on. " +
				"On a database that has a CA already the same moves the newest root's key out; drop an older root whose key is still " +
				"in the database (muster ca show, muster ca drop-root). " + cli.OfflineText,
			Examples: []string{"muster ca init --root-out /media/usb/muster-root", "muster ca init --trust-domain fleet.example"}},
		{Name: "ca show", Flags: []string{"output"}, Run: caShow,
			Summary:  "show roots, intermediate and where their keys are",
			Text:     "A root that is online has its key in the gateway's database. Nodes trust all the roots that are listed.",
			Examples: []string{"muster ca show", "muster ca show -o json"}},
		{Name: "ca intermediate", Flags: []string{"root"}, Run: cli.With(caIntermediate),
			Summary: "make a new intermediate and sign with it from now on",
			Text: "Nodes verify by root, so none of them hears of it. With --root DIR the root in that directory signs it here, and its " +
				"key does not leave this machine; roots whose key is in the gateway's database sign it too. " +
				"While two roots are trusted, have both sign it: then a node that knows only one of them is served too.",
			Examples: []string{"muster ca intermediate", "muster ca intermediate --root /media/usb/muster-root"}},
		{Name: "ca rotate-root", Flags: []string{"root-out", "trust-key"}, Run: cli.With(caRotateRoot),
			Summary: "announce a new root to all nodes",
			Text: "Nodes trust it beside the one before, from their next heartbeat on. It signs nothing yet: muster ca intermediate " +
				"makes an intermediate under it, muster ca drop-root ends the old one. A node that sleeps through all of that fetches " +
				"the signed sets and follows them. " +
				"With --root-out the new root's key is made in DIR and the gateway never sees it. A gateway whose root is kept out needs that.",
			Examples: []string{"muster ca rotate-root", "muster ca rotate-root --root-out /media/usb/root-2027"}},
		{Name: "ca drop-root", Args: "PIN", Least: 1, Most: 1, Flags: []string{"trust-key", "yes"}, Run: caDropRoot,
			Summary: "make nodes stop trusting a root",
			Text: "The root is named as muster ca show does; eight digits are enough. The " +
				"one that the intermediate stands under stays. It asks first unless --yes is given. " +
				"An agent that is older than this gateway may hold the root's pin in its settings and not start again without that root: " +
				"first join such nodes again with the present agent (muster push, or the printed command).",
			Examples: []string{"muster ca drop-root sha256:4f9a0c21"}},
	}
}

// caInit works on the files of a stopped gateway. The directory may be new: then the CA is made before the gateway's first start.
func caInit(ctx context.Context, s *cli.Session, o struct{ RootOut, TrustDomain string }) error {
	data, err := s.DataFiles()
	if err != nil {
		return err
	}
	out := o.RootOut
	pin, err := s.Local.InitCA(ctx, data, o.TrustDomain, out)
	if err != nil {
		return err
	}
	s.Printf("The CA in %s has the root %s.\n", data.Data, pin)
	if out != "" {
		s.Printf("The root's key is in %s and nowhere else: "+
			"keep two copies of that directory in safe places, not connected.\n", out)
		s.Printf("To make the next intermediate: muster ca intermediate --root %s\n", paste.Quote(datadir.Absolute(out)))
	}
	return nil
}

func caShow(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "LEVEL"}, {Name: "PIN OR FINGERPRINT", Least: 20}, {Name: "UNTIL"}, {Name: "KEY"},
		{Name: "SIGNS", Rank: 1}}
	return cli.ShowList(ctx, s, api.PathCA, nil, columns, func(ca trust.CA) [][]string {
		s.Printf("trust domain %s, trust set %d\n", ca.TrustDomain, ca.TrustNumber)
		rows := cli.Rows(ca.Roots, func(r trust.Root) []string {
			return []string{"root", r.Pin, screen.Stamp(&r.NotAfter), online(r.Online), screen.YesNo(r.Signing)}
		})
		i := ca.Intermediate
		return append(rows, []string{"intermediate", i.Fingerprint, screen.Stamp(&i.NotAfter), online(true), "yes"})
	})
}

func online(on bool) string {
	if on {
		return "online"
	}
	return "offline"
}

// caIntermediate has a new intermediate made. If roots are kept elsewhere it takes two steps: the gateway gives a request, each root
// signs it here, and the certificates go back together. A root's key never leaves this machine.
func caIntermediate(ctx context.Context, s *cli.Session, o struct{ Root []string }) error {
	var q trust.IntermediateRequest
	if len(o.Root) > 0 {
		prepared, err := cli.Send[trust.IntermediateAnswer](ctx, s, "POST", api.PathIntermediate, trust.IntermediateRequest{Prepare: true})
		if err != nil {
			return err
		}
		for _, dir := range o.Root {
			certificate, err := s.Local.SignIntermediate(dir, prepared.Request, prepared.TrustDomain)
			if err != nil {
				return err
			}
			q.Certificates += certificate
		}
	}
	if _, err := cli.Send[trust.IntermediateAnswer](ctx, s, "POST", api.PathIntermediate, q); err != nil {
		return err
	}
	ca, err := cli.Get[trust.CA](ctx, s, api.PathCA, nil)
	if err != nil {
		return err
	}
	s.Printf("Signing with intermediate %.16s until %s. Nodes need not be told.\n", ca.Intermediate.Fingerprint,
		screen.Stamp(&ca.Intermediate.NotAfter))
	for _, root := range ca.Roots {
		if !root.Signing {
			s.Printf("It is not signed by the root %s, which nodes still trust: those that know only that one fetch the "+
				"signed sets first.\n", root.Pin)
		}
	}
	return nil
}

// caRotateRoot announces a new root that signs nothing yet. Nodes have to hear of it before a certificate under it reaches them.
func caRotateRoot(ctx context.Context, s *cli.Session, o struct{ RootOut string }) error {
	before, err := cli.Get[trust.CA](ctx, s, api.PathCA, nil)
	if err != nil {
		return err
	}
	var q trust.RootRequest
	out := o.RootOut
	if out != "" {
		if q.Certificate, err = s.Local.NewRoot(out, before.TrustDomain); err != nil {
			return err
		}
	}
	change, err := cli.Send[trust.TrustChange](ctx, s, "POST", api.PathRoots, q)
	if err != nil {
		return err
	}
	if err := publish(ctx, s, change); err != nil {
		return err
	}
	next := "muster ca intermediate"
	if out != "" {
		next += " --root " + paste.Quote(datadir.Absolute(out))
	}
	s.Printf("Nodes trust it from their next heartbeat on. It signs nothing yet: in a quarter of an hour, give %s\n", next)
	return nil
}

func caDropRoot(ctx context.Context, s *cli.Session) error {
	return distrust(ctx, s, "root", api.PathRoot)
}

// distrust takes what the argument names out of the trust set, once the operator has said yes.
func distrust(ctx context.Context, s *cli.Session, what, path string) error {
	deed := "drop the " + what + " " + s.Words[0]
	if err := s.Agree(deed, deed); err != nil {
		return err
	}
	change, err := cli.Send[trust.TrustChange](ctx, s, "DELETE", api.At(path, s.Words[0]), nil)
	if err != nil {
		return err
	}
	return publish(ctx, s, change)
}

// publish tells what became of a change. If the trust key is kept out of the gateway, it signs the draft here and sends it.
func publish(ctx context.Context, s *cli.Session, change trust.TrustChange) error {
	if !change.Published {
		file := s.Flags.Text("trust-key")
		if file == "" {
			return cli.Usagef("add --trust-key FILE, where it is", "the trust key is kept out of this gateway, and nothing has changed yet")
		}
		if err := showDraft(s, change.Draft); err != nil {
			return err
		}
		set, err := s.Local.SignSet(file, change.Draft)
		if err != nil {
			return err
		}
		if change, err = cli.Send[trust.TrustChange](ctx, s, "POST", api.PathTrust, trust.SignedSet{Set: set}); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.Stdout, "Trust set %d is published.\n", change.Number)
	return nil
}
