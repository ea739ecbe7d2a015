package join

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// tokenCreate leaves out what no flag says, so that the gateway's defaults hold.
func tokenCreate(ctx context.Context, s *cli.Session, q api.TokenRequest) error {
	if err := s.AskTenant(ctx, q.Tenant); err != nil {
		return err
	}
	return cli.Show(ctx, s, http.MethodPost, api.PathTokens, q, func(t api.NewToken) {
		named := ""
		if t.Name != "" {
			named = " the node " + t.Name + ","
		}
		s.Printf("%s\n\nfor%s tenant %s, %s, until %s (%s); it is not shown again\n", t.Token, named, t.Tenant, screen.Plural(t.Uses, "use"),
			screen.Stamp(&t.ExpiresAt), screen.Age(t.ExpiresAt.Sub(s.Now())+time.Second/2))
		if t.Command != "" {
			fmt.Fprintf(s.Stdout, "\nOn the machine that joins:\n\n%s\n", screen.Indent(t.Command))
		}
		if t.Command != "" && t.Name == "" { // the command ends with -- or with flags of the join
			fmt.Fprintln(s.Stdout, "\nAdd join flags at the end: --name gpu-7")
		}
	})
}

func tokenList(ctx context.Context, s *cli.Session) error {
	return cli.ShowList(ctx, s, api.PathTokens, &api.ListFilter{}, tokenColumns(), func(l api.TokenList) [][]string {
		return cli.Rows(l.Tokens, func(t api.Token) []string { return tokenRow(t, s.Now()) })
	})
}

// tokenColumns keeps the id on every screen: without it no token can be revoked.
func tokenColumns() []screen.Column {
	return []screen.Column{
		{Name: "ID"}, {Name: "TENANT", Rank: 4, Least: 8, Most: 24}, {Name: "NODE", Least: 12, Most: 40},
		{Name: "STATUS", Rank: 1}, {Name: "USED", Rank: 3}, {Name: "EXPIRES"}, {Name: "GPUS", Rank: 5},
		{Name: "LABELS", Rank: 6, Least: 10, Most: 40},
		{Name: "CREATED", Wide: true}, {Name: "BY", Wide: true}, {Name: "BOUND", Wide: true}, {Name: "NODE ID", Wide: true},
	}
}

func tokenRow(t api.Token, now time.Time) []string {
	bound := screen.Unknown
	switch {
	case t.BindInstance:
		bound = "instance"
	case t.NodeID != "":
		bound = "node"
	}
	return []string{t.ID, t.Tenant, t.Node, t.Status, fmt.Sprintf("%d/%d", t.Used, t.Uses), screen.When(now, t.ExpiresAt),
		screen.Number(t.GPUs), screen.Labels(t.Labels), screen.Ago(now, t.CreatedAt), t.CreatedBy, bound, t.NodeID}
}

// tokenRevoke takes a whole token for its public part, so that the secret does not travel in a URL.
func tokenRevoke(ctx context.Context, s *cli.Session) error {
	ids := make([]string, 0, len(s.Words))
	for _, id := range s.Words {
		ids = append(ids, cli.PublicPart(id))
	}
	return s.OnEach(ctx, cli.Named(ids), func(t cli.Target) (string, error) {
		return api.StatusRevoked, cli.Drop(ctx, s, api.At(api.PathToken, t.ID), nil)
	})
}
