package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"muster/gateway/internal/client"
)

func (s *session) tokenRequest() (q client.TokenRequest, err error) {
	q.Tenant = s.options.text("tenant")
	if q.Uses, err = s.options.number("uses", 1); err != nil {
		return q, err
	}
	ttl, err := s.options.duration("ttl", 0)
	if err != nil {
		return q, err
	}
	q.TTL = client.Duration(ttl)
	if q.Labels, err = s.options.labels(); err != nil {
		return q, err
	}
	if q.GPUs, err = s.options.number("gpus", 0); err != nil {
		return q, err
	}
	q.BindInstance, err = s.options.flag("bind-instance")
	return q, err
}

func tokenCreate(ctx context.Context, s *session) error {
	q, err := s.tokenRequest()
	if err != nil {
		return err
	}
	c, format, err := s.begin(ctx)
	if err != nil {
		return err
	}
	t, err := c.CreateToken(ctx, q)
	if err != nil {
		return err
	}
	if format == "json" {
		return s.writeJSON(t)
	}
	_, err = fmt.Fprintf(s.Stdout, "%s\n\nfor tenant %s, %s, until %s (%s); it is not shown again\n", printable(t.Token), printable(t.Tenant), plural(t.Uses, "use"),
		stamp(&t.ExpiresAt), age(t.ExpiresAt.Sub(s.now())+time.Second/2))
	if err == nil && t.Command != "" {
		_, err = fmt.Fprintf(s.Stdout, "\nOn the machine that joins:\n\n%s\n", indent(t.Command))
	}
	return err
}

// indent sets a command off; it may have several lines.
func indent(command string) string {
	lines := strings.Split(strings.TrimSpace(command), "\n")
	for i := range lines {
		lines[i] = "  " + printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

func tokenList(ctx context.Context, s *session) error {
	all, err := s.options.flag("all")
	if err != nil {
		return err
	}
	c, format, err := s.begin(ctx)
	if err != nil {
		return err
	}
	list, err := c.Tokens(ctx, s.options.text("tenant"), all)
	if err != nil || format == "json" {
		return firstError(err, func() error { return s.writeJSON(list) })
	}
	rows := make([][]string, 0, len(list.Tokens))
	for _, t := range list.Tokens {
		rows = append(rows, tokenRow(t, s.now()))
	}
	return s.list(format, tokenColumns()).write(rows)
}

func tokenColumns() []column {
	return []column{{name: "ID"}, {name: "TENANT", rank: 4, least: 8, most: 24}, {name: "NODE", least: 12, most: 40}, {name: "STATUS", rank: 1}, {name: "USED", rank: 3},
		{name: "EXPIRES"}, {name: "GPUS", rank: 5}, {name: "LABELS", rank: 6, least: 10, most: 40},
		{name: "CREATED", wide: true}, {name: "BY", wide: true}, {name: "BOUND", wide: true}, {name: "NODE ID", wide: true}}
}

func firstError(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}

func tokenRow(t client.Token, now time.Time) []string {
	expires := "in " + age(t.ExpiresAt.Sub(now))
	if !now.Before(t.ExpiresAt) {
		expires = age(now.Sub(t.ExpiresAt)) + " ago"
	}
	node, bound := t.Node, unknown
	if node == "" { // a gateway of before names the id alone
		node = t.NodeID
	}
	switch {
	case t.BindInstance:
		bound = "instance"
	case t.NodeID != "":
		bound = "node"
	}
	return []string{orUnknown(t.ID), orUnknown(t.Tenant), orUnknown(node), orUnknown(t.Status), fmt.Sprintf("%d/%d", t.Used, t.Uses), expires, number(t.GPUs),
		labelText(t.Labels), age(now.Sub(t.CreatedAt)) + " ago", orUnknown(t.CreatedBy), bound, orUnknown(t.NodeID)}
}

func tokenRevoke(ctx context.Context, s *session) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	tokens := make([]target, 0, len(s.args))
	for _, id := range s.args {
		id = publicPart(id)
		tokens = append(tokens, target{id, id})
	}
	return s.onEach(ctx, tokens, func(t target) (string, error) { return client.StatusRevoked, c.RevokeToken(ctx, t.id) })
}

// publicPart cuts a whole token down to what may stand in a URL and on a screen.
func publicPart(id string) string {
	parts := strings.SplitN(id, "_", 3)
	return strings.Join(parts[:min(len(parts), 2)], "_")
}
