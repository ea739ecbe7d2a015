package task

import (
	"context"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
)

func secretSet(ctx context.Context, s *cli.Session, f api.ListFilter) error {
	value, err := s.ReadValue("secret", cli.FileOrPipe)
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
	s.Printf("The secret %s of the tenant %s is kept. Tasks of that tenant can name it.\n", set.Name, set.Tenant)
	return nil
}

func secretList(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "NAME", Least: 12}, {Name: "TENANT", Least: 8}, {Name: "SET"}, {Name: "BY", Rank: 1, Least: 8}}
	return cli.ShowList(ctx, s, api.PathSecrets, &api.ListFilter{}, columns, func(l api.SecretList) [][]string {
		return cli.Rows(l.Secrets, func(k api.Secret) []string {
			return []string{k.Name, k.Tenant, screen.Ago(s.Now(), k.ChangedAt), k.ChangedBy}
		})
	})
}

func secretDrop(ctx context.Context, s *cli.Session, f api.ListFilter) error {
	name := s.Words[0]
	return s.Drop(ctx, api.At(api.PathSecret, name), f, "drop the secret "+name, "The secret "+name+" is forgotten.")
}
