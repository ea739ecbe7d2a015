package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"muster/agent/wire"
	"muster/gateway/internal/client"
)

func recoveryCommand() command {
	return command{name: "node allow-recovery", args: "NAME...", most: -1, options: []string{"selector", "fingerprint", "for", "yes"}, run: nodeAllowRecovery,
		summary: "let a node back in without a visit",
		text: "For an hour, or --for so long, the node's expired certificate may renew however long ago it expired, and a machine with a token or the pre-shared key of its tenant may take its name over once.\n\n" +
			"A node whose identity two machines use (identity_conflict) takes --fingerprint: that certificate becomes the node's only good one, all others are revoked. Where both machines show the same one, stop the one that should not be there first; muster node show lists what was seen of them. " + askText,
		examples: []string{"muster node allow-recovery vast-h100-39467543", "muster node allow-recovery vast-h100-39467543 --for 12h",
			"muster node allow-recovery vast-h100-39467543 --fingerprint 1dffb077c49b8760"}}
}

func nodeAllowRecovery(ctx context.Context, s *session) error {
	window, err := s.options.duration("for", 0)
	if err != nil {
		return err
	}
	fingerprint := s.options.text("fingerprint")
	if fingerprint != "" && len(s.args) != 1 {
		return usagef("name one node", "a fingerprint belongs to one node")
	}
	return s.actOn(ctx, s.args, "allow-recovery", false, func(c *client.Client, t target) (string, error) {
		n, err := c.AllowRecovery(ctx, t.id, client.RecoveryRequest{Fingerprint: fingerprint, For: client.Duration(window)})
		if err != nil {
			return "", err
		}
		said := "it may come back until " + stamp(n.RecoveryUntil)
		if fingerprint != "" && n.Certificate != nil {
			said = "certificate " + n.Certificate.Fingerprint[:16] + " is the good one, all others are revoked; " + said
		}
		return said, nil
	})
}

// identityRows shows the certificates and runs of a node where there is more than one to tell apart.
func (v view) identityRows(raw json.RawMessage) [][]string {
	var d client.NodeDetail
	if json.Unmarshal(raw, &d) != nil { // an older gateway does not say
		return nil
	}
	var rows [][]string
	if d.Recoveries > 0 {
		rows = append(rows, []string{"  recovered", plural(d.Recoveries, "renewal") + " with an expired certificate"})
	}
	if d.RecoveryUntil != nil && d.RecoveryUntil.After(v.now) {
		rows = append(rows, []string{"  recovery", "allowed until " + stamp(d.RecoveryUntil)})
	}
	if len(d.Certificates) > 1 {
		for _, c := range d.Certificates {
			rows = append(rows, []string{"  on record", certificateRow(c)})
		}
	}
	if len(d.Runs) > 1 || slices.Contains(d.StateReasons, wire.ReasonConflict) {
		for _, r := range d.Runs {
			rows = append(rows, []string{"  run", fmt.Sprintf("%s from %s, certificate %s, heard %s ago, first %s", short(r.RunID, 8), orUnknown(r.Address),
				short(r.Fingerprint, 16), v.since(&r.LastHeard), stamp(&r.FirstHeard))})
		}
	}
	return rows
}

func certificateRow(c client.NodeCertificate) string {
	used := "never used"
	if c.FirstUsedAt != nil {
		used = "first used " + stamp(c.FirstUsedAt)
	}
	if c.Recovery {
		used += ", a recovery"
	}
	return fmt.Sprintf("generation %d, %s, %s, issued %s, %s", c.Generation, orUnknown(c.Status), short(c.Fingerprint, 16), stamp(&c.IssuedAt), used)
}

// short cuts an identifier to what tells it from others.
func short(id string, length int) string { return orUnknown(id[:min(len(id), length)]) }
