package task

import (
	"context"
	"fmt"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
)

func secretSet(ctx context.Context, s *cli.Session, f api.ListFilter) error {
	value, err := s.ReadValue("secret")
	if err != nil {
		return err
	}
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	set, err := client.Ask[api.Secret](ctx, c, "PUT", api.At(api.PathSecret, s.Words[0]), f, api.SecretRequest{Value: value})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, "The secret %s of the tenant %s is kept. Tasks of that tenant can name it.\n", screen.Printable(set.Name),
		screen.Printable(set.Tenant))
	return nil
}

func secretList(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "NAME", Least: 12}, {Name: "TENANT", Least: 8}, {Name: "SET"}, {Name: "BY", Rank: 1, Least: 8}}
	return cli.ShowList(ctx, s, api.PathSecrets, &api.ListFilter{}, columns, func(l api.SecretList) [][]string {
		return cli.Rows(l.Secrets, func(k api.Secret) []string {
			return []string{screen.OrUnknown(k.Name), screen.OrUnknown(k.Tenant), screen.Ago(s.Now(), k.ChangedAt),
				screen.OrUnknown(k.ChangedBy)}
		})
	})
}

func secretDrop(ctx context.Context, s *cli.Session, f api.ListFilter) error {
	deed := "drop the secret " + s.Words[0]
	if err := s.Agree(deed, deed); err != nil {
		return err
	}
	if err := cli.Drop(ctx, s, api.At(api.PathSecret, s.Words[0]), f); err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, "The secret %s is forgotten.\n", screen.Printable(s.Words[0]))
	return nil
}
