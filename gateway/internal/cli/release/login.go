package release

import (
	"context"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func loginCommands() []cli.Command {
	return []cli.Command{
		{Name: "release login", Args: "NAME HOST", Least: 2, Most: 2, Flags: []string{"username", "realm", "file"}, Run: cli.With(releaseLogin),
			Says:    map[string]string{"file": "file with the password or token (- is standard input)"},
			Summary: "keep what opens another registry, for releases that lie there",
			Text: "The password comes from standard input or --file, never from the arguments; a newline at its end is cut. The gateway seals " +
				"it, and shows it never again. Nodes do not get it: the gateway asks that registry for tokens that live for minutes. Take an " +
				"account there that may only pull.",
			Examples: []string{"muster release login ghcr ghcr.io --username robot --file token.txt",
				"muster release add sha256:4f9a... --reference ghcr.io/example/muster-agent --credential ghcr"}},
		{Name: "release logins", Flags: []string{"output"}, Run: releaseLogins, Summary: "list what opens other registries, without passwords",
			Text: "A release names the one that it needs.", Examples: []string{"muster release logins"}},
		{Name: "release logout", Args: "NAME", Least: 1, Most: 1, Flags: []string{"yes"}, Run: releaseLogout,
			Summary: "forget what opens another registry", Text: "A login that a release needs stays. It asks first unless --yes is given.",
			Examples: []string{"muster release logout ghcr"}},
	}
}

func releaseLogin(ctx context.Context, s *cli.Session, q api.RegistryCredentialRequest) (err error) {
	q.Host = s.Words[1]
	q.Password, err = s.ReadValue("password", cli.FileOrPipe)
	if err != nil {
		return err
	}
	set, err := cli.Send[api.RegistryCredential](ctx, s, "PUT", api.At(api.PathRegistryCredential, s.Words[0]), q)
	if err != nil {
		return err
	}
	s.Printf("The credential %s of %s is kept.\n", set.Name, set.Host)
	return nil
}

func releaseLogins(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "NAME", Least: 12}, {Name: "HOST", Least: 12}, {Name: "USER", Least: 8}, {Name: "REALM", Rank: 1}}
	return cli.ShowList(ctx, s, api.PathRegistryCredentials, nil, columns, func(l api.RegistryCredentialList) [][]string {
		return cli.Rows(l.Credentials, func(r api.RegistryCredential) []string {
			return []string{r.Name, r.Host, r.Username, r.Realm}
		})
	})
}

func releaseLogout(ctx context.Context, s *cli.Session) error {
	name := s.Words[0]
	return s.Drop(ctx, api.At(api.PathRegistryCredential, name), nil, "forget the credential "+name, "The credential "+name+" is forgotten.")
}
