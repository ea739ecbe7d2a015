package join

import (
	"context"
	"net/http"
	"strings"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func pskSet(ctx context.Context, s *cli.Session) error {
	return newPSK(ctx, s, api.PathPSK, "It is the only one from now on.")
}

func pskRotate(ctx context.Context, s *cli.Session) error {
	return newPSK(ctx, s, api.PathPSKRotate, "The one before it is good too until: muster psk clear --keep %s")
}

// newPSK sets or adds a key. next says what comes after, with %s for the key's id. The gateway prints a secret that it made this
// once; one that the operator brought is never shown.
func newPSK(ctx context.Context, s *cli.Session, path, next string) error {
	q, err := pskRequest(s)
	if err != nil {
		return err
	}
	return cli.Show(ctx, s, http.MethodPost, path, q, func(k api.NewPSK) {
		if k.Secret != "" {
			s.Printf("%s\n\nThis is the secret; it is not shown again.\n", k.Secret)
		}
		s.Printf("The key is called %s. %s\n", k.ID, strings.ReplaceAll(next, "%s", screen.Printable(k.ID)))
	})
}

// pskRequest takes the secret from a file or standard input, where no other user of the machine can see it.
func pskRequest(s *cli.Session) (api.PSKRequest, error) {
	var o struct{ Generate bool }
	if err := s.Flags.Into(&o); err != nil {
		return api.PSKRequest{}, err
	}
	switch {
	case o.Generate && s.Flags.Given("file"):
		return api.PSKRequest{}, cli.Usagef("leave one of them out", "a secret is either generated or read from a file")
	case o.Generate:
		return api.PSKRequest{Generate: true}, nil
	}
	secret, err := s.ReadValue("secret", "muster "+s.Name+" --generate makes one; --file FILE or a pipe gives one")
	return api.PSKRequest{Secret: secret}, err
}

func pskClear(ctx context.Context, s *cli.Session, f api.PSKFilter) error {
	said := "There is no pre-shared key any more. Nodes that joined with one stay."
	if f.Keep != "" {
		said = f.Keep + " is the only pre-shared key now."
	}
	return s.Drop(ctx, api.PathPSK, f, "", said)
}

func pskList(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "ID"}, {Name: "CREATED"}}
	return cli.ShowList(ctx, s, api.PathPSK, nil, columns, func(l api.PSKList) [][]string {
		return cli.Rows(l.PSKs, func(k api.PSK) []string { return []string{k.ID, screen.Ago(s.Now(), k.CreatedAt)} })
	})
}
