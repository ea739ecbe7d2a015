package node

import (
	"context"
	"fmt"
	"slices"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func recoveryCommand() cli.Command {
	return cli.Command{Name: "node allow-recovery", Args: "NAME...", Most: -1, Flags: []string{"selector", "fingerprint", "for", "yes"},
		Run:     cli.With(nodeAllowRecovery),
		Summary: "let a node back in without a visit",
		Text: "For an hour, or --for so long, the node's expired certificate may renew however long ago it expired, and a machine with a " +
			"token or the pre-shared key of its tenant may take its name over once.\n\n" +
			"A node whose identity two machines use (identity_conflict) takes --fingerprint: that certificate becomes the node's only " +
			"good one, all others are revoked. If both machines show the same one, stop the one that should not be there first; " +
			"muster node show lists what was seen of them. " + cli.AskText,
		Examples: []string{"muster node allow-recovery vast-h100-39467543", "muster node allow-recovery vast-h100-39467543 --for 12h",
			"muster node allow-recovery vast-h100-39467543 --fingerprint 1dffb077c49b8760"}}
}

// nodeAllowRecovery takes a fingerprint for one named node alone: a selector could pick another node than the person looked at.
func nodeAllowRecovery(ctx context.Context, s *cli.Session, q api.RecoveryRequest) error {
	if q.Fingerprint != "" && len(s.Words) != 1 {
		return cli.Usagef("name one node", "a fingerprint belongs to one node")
	}
	return s.ActOn(ctx, s.Words, "allow-recovery", false, func(t cli.Target) (string, error) {
		n, err := cli.Send[api.Node](ctx, s, "POST", api.At(api.PathRecovery, t.ID), q)
		if err != nil {
			return "", err
		}
		said := "it may come back until " + screen.Stamp(n.RecoveryUntil)
		if q.Fingerprint != "" && n.Certificate != nil {
			said = "certificate " + n.Certificate.Fingerprint[:16] + " is the good one, all others are revoked; " + said
		}
		return said, nil
	})
}

// identityRows shows the certificates and runs of a node where there is more than one to tell apart.
func (v view) identityRows(d api.NodeDetail) [][]string {
	var rows [][]string
	if d.Recoveries > 0 {
		rows = append(rows, []string{"  recovered", screen.Plural(d.Recoveries, "renewal") + " with an expired certificate"})
	}
	if d.RecoveryUntil != nil && d.RecoveryUntil.After(v.now) {
		rows = append(rows, []string{"  recovery", "allowed until " + screen.Stamp(d.RecoveryUntil)})
	}
	if len(d.Certificates) > 1 {
		for _, c := range d.Certificates {
			rows = append(rows, []string{"  on record", certificateRow(c)})
		}
	}
	if len(d.Runs) > 1 || slices.Contains(d.StateReasons, wire.ReasonConflict) {
		for _, r := range d.Runs {
			rows = append(rows, []string{"  run",
				fmt.Sprintf("%s from %s, certificate %s, heard %s ago, first %s", short(r.RunID, 8), screen.OrUnknown(r.Address),
					short(r.Fingerprint, 16), v.since(&r.LastHeard), screen.Stamp(&r.FirstHeard))})
		}
	}
	return rows
}

func certificateRow(c api.NodeCertificate) string {
	used := "never used"
	if c.FirstUsedAt != nil {
		used = "first used " + screen.Stamp(c.FirstUsedAt)
	}
	if c.Recovery {
		used += ", a recovery"
	}
	return fmt.Sprintf("generation %d, %s, %s, issued %s, %s", c.Generation, screen.OrUnknown(c.Status), short(c.Fingerprint, 16),
		screen.Stamp(&c.IssuedAt), used)
}

// short is the first part of an identifier, enough to tell it from others.
func short(id string, length int) string { return screen.OrUnknown(id[:min(len(id), length)]) }
