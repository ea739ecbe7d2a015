package cli

import (
	"context"
	"fmt"
	"strings"

	"muster/gateway/internal/client"
)

func pskSet(ctx context.Context, s *session) error {
	return s.newPSK(ctx, (*client.Client).SetPSK, "It is the only one from now on.")
}

func pskRotate(ctx context.Context, s *session) error {
	return s.newPSK(ctx, (*client.Client).RotatePSK, "The one before it is good too until: muster psk clear --keep %s")
}

func (s *session) newPSK(ctx context.Context, ask func(*client.Client, context.Context, client.PSKRequest) (client.NewPSK, error), next string) error {
	format, err := s.format()
	if err != nil {
		return err
	}
	q, err := s.pskRequest()
	if err != nil {
		return err
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	k, err := ask(c, ctx, q)
	if err != nil || format == "json" {
		return firstError(err, func() error { return s.writeJSON(k) })
	}
	if k.Secret != "" {
		fmt.Fprintf(s.Stdout, "%s\n\n", printable(k.Secret))
		fmt.Fprintln(s.Stdout, "This is the secret; it is not shown again.")
	}
	fmt.Fprintf(s.Stdout, "The key is called %s. %s\n", printable(k.ID), strings.ReplaceAll(next, "%s", printable(k.ID)))
	return nil
}

// pskRequest takes the secret from a file or standard input, where no other user of the machine can see it.
func (s *session) pskRequest() (client.PSKRequest, error) {
	generate, err := s.options.flag("generate")
	if err != nil {
		return client.PSKRequest{}, err
	}
	file := s.options.text("file")
	switch {
	case generate && s.options.given("file"):
		return client.PSKRequest{}, usagef("leave one of them out", "a secret is either generated or read from a file")
	case generate:
		return client.PSKRequest{Generate: true}, nil
	case file == "" && s.interactive():
		return client.PSKRequest{}, usagef("muster "+s.command.name+" --generate makes one; --file FILE or a pipe gives one", "where does the secret come from?")
	case file == "":
		file = "-"
	}
	raw, err := s.readFile(file)
	if err != nil {
		return client.PSKRequest{}, fmt.Errorf("read the secret: %w", err)
	}
	secret := strings.TrimRight(string(raw), "\r\n")
	if secret == "" {
		return client.PSKRequest{}, usagef("muster "+s.command.name+" --generate makes one", "the secret is empty")
	}
	return client.PSKRequest{Secret: secret}, nil
}

func pskClear(ctx context.Context, s *session) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	keep := s.options.text("keep")
	if err := c.ClearPSK(ctx, keep); err != nil {
		return err
	}
	if keep == "" {
		fmt.Fprintln(s.Stdout, "There is no pre-shared key any more. Nodes that joined with one stay.")
		return nil
	}
	fmt.Fprintf(s.Stdout, "%s is the only pre-shared key now.\n", printable(keep))
	return nil
}

func pskList(ctx context.Context, s *session) error {
	c, format, err := s.begin(ctx)
	if err != nil {
		return err
	}
	list, err := c.PSKs(ctx)
	if err != nil || format == "json" {
		return firstError(err, func() error { return s.writeJSON(list) })
	}
	var rows [][]string
	for _, k := range list.PSKs {
		rows = append(rows, []string{orUnknown(k.ID), age(s.now().Sub(k.CreatedAt)) + " ago"})
	}
	return s.list(format, []column{{name: "ID"}, {name: "CREATED"}}).write(rows)
}
