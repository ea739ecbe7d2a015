package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"muster/gateway/internal/client"
)

// allTenants is shown where an account is for every tenant.
const allTenants = "(all)"

func accountCommands() []command {
	return []command{
		{name: "account create", args: "NAME", least: 1, most: 1, options: []string{"scope", "tenant", "ttl", "output"}, run: accountCreate,
			says:    map[string]string{"ttl": "how long it is good for, a minute at least (as long as the account that makes it)"},
			summary: "make an account, whose API token reaches the gateway from elsewhere",
			text: "The API token is shown this once; it goes into MUSTER_API_TOKEN where it is used. Scopes are " + strings.Join(client.KnownScopes(), ", ") +
				"; * stands for all of them. Without --scope the account may look at nodes, tokens and events, and change nothing. To make or bootstrap a node takes nodes:write and tokens:write.\n\n" +
				"With --tenant it sees and touches only what is that tenant's. Nobody can make an account that may more, or lives longer, than their own; through the gateway's socket everything may be given.",
			examples: []string{"muster account create alice --scope '*'", "muster account create ci --scope tokens:write,nodes:read --tenant platform --ttl 90d",
				"muster account create grafana --scope nodes:read -o json"}},
		{name: "account ls", options: []string{"tenant", "all", "output"}, run: accountList,
			summary: "list accounts", text: "Accounts that expired or were revoked are left out unless --all is given. API tokens are kept nowhere and cannot be shown again.",
			examples: []string{"muster account ls", "muster account ls --all --tenant platform"}},
		{name: "account revoke", args: "NAME...", least: 1, most: -1, run: accountRevoke,
			summary: "end accounts at once", text: "An account is named by its name or its id. Its API token is refused from the next call on, and its name becomes free. Accounts that it had made stay, and are named. Those that were made before gateways kept by which account name no maker, and are named as ones that it may have made.",
			examples: []string{"muster account revoke ci"}},
	}
}

func accountCreate(ctx context.Context, s *session) error {
	ttl, err := s.options.duration("ttl", 0)
	if err != nil {
		return err
	}
	c, format, err := s.begin(ctx)
	if err != nil {
		return err
	}
	a, err := c.CreateAccount(ctx, client.AccountRequest{Name: s.args[0], Scopes: s.options.list("scope"), Tenant: s.options.text("tenant"), TTL: client.Duration(ttl)})
	if err != nil || format == "json" {
		return firstError(err, func() error { return s.writeJSON(a) })
	}
	until := "without an end"
	if a.ExpiresAt != nil {
		until = "until " + stamp(a.ExpiresAt)
	}
	_, err = fmt.Fprintf(s.Stdout, "%s\n\naccount %s, tenant %s, scopes %s, %s; the API token is not shown again\n",
		printable(a.Token), printable(a.Name), tenantText(a.Tenant), printable(strings.Join(a.Scopes, ",")), until)
	if err == nil {
		s.whereUsed(ctx, c)
	}
	return err
}

// whereUsed says how to use an API token from elsewhere, as far as the gateway knows. The account is made already, so
// that a gateway which does not answer now fails nothing.
func (s *session) whereUsed(ctx context.Context, c *client.Client) {
	g, err := c.Gateway(ctx)
	if err != nil || g.URL == "" {
		return
	}
	fmt.Fprintf(s.Stdout, "\nWhere it is used, set MUSTER_API_TOKEN to it, and:\n\n  MUSTER_URL=%s\n  MUSTER_ROOT_PIN=%s   only where the gateway shows its own certificate\n",
		printable(g.URL), printable(g.RootPin))
}

func tenantText(tenant string) string {
	if tenant == "" {
		return allTenants
	}
	return printable(tenant)
}

func accountList(ctx context.Context, s *session) error {
	all, err := s.options.flag("all")
	if err != nil {
		return err
	}
	c, format, err := s.begin(ctx)
	if err != nil {
		return err
	}
	list, err := c.Accounts(ctx, s.options.text("tenant"), all)
	if err != nil || format == "json" {
		return firstError(err, func() error { return s.writeJSON(list) })
	}
	rows := make([][]string, 0, len(list.Accounts))
	for _, a := range list.Accounts {
		rows = append(rows, accountRow(a, s.now()))
	}
	return s.list(format, accountColumns()).write(rows)
}

func accountColumns() []column {
	return []column{{name: "NAME", least: 16, most: 40}, {name: "TENANT", rank: 3, least: 8, most: 24}, {name: "STATUS", rank: 2}, {name: "EXPIRES", rank: 1},
		{name: "USED", rank: 4}, {name: "SCOPES", least: 16, most: 60}, {name: "ID", wide: true}, {name: "CREATED", wide: true}, {name: "BY", wide: true}}
}

func accountRow(a client.Account, now time.Time) []string {
	expires, used := "never", "never"
	switch {
	case a.ExpiresAt == nil:
	case now.Before(*a.ExpiresAt):
		expires = "in " + age(a.ExpiresAt.Sub(now))
	default:
		expires = age(now.Sub(*a.ExpiresAt)) + " ago"
	}
	if a.LastUsedAt != nil {
		used = age(now.Sub(*a.LastUsedAt)) + " ago"
	}
	return []string{orUnknown(a.Name), tenantText(a.Tenant), orUnknown(a.Status), expires, used, orUnknown(strings.Join(a.Scopes, ",")),
		orUnknown(a.ID), age(now.Sub(a.CreatedAt)) + " ago", orUnknown(a.CreatedBy)}
}

func accountRevoke(ctx context.Context, s *session) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	accounts := make([]target, 0, len(s.args))
	for _, name := range s.args {
		if strings.HasPrefix(name, "msa_") {
			name = publicPart(name)
		}
		accounts = append(accounts, target{name, name})
	}
	return s.onEach(ctx, accounts, func(t target) (string, error) {
		revoked, err := c.RevokeAccount(ctx, t.id)
		return revokedText(revoked), err
	})
}

func revokedText(a client.RevokedAccount) string {
	text := client.StatusRevoked
	if len(a.Made) > 0 {
		text += "; accounts that it had made stay live: " + strings.Join(a.Made, ", ") + "; to end them: muster account revoke " + strings.Join(a.Made, " ")
	}
	if len(a.PerhapsMade) > 0 {
		text += "; accounts of before gateways kept the maker, made by one of this name, stay live: " + strings.Join(a.PerhapsMade, ", ") +
			"; look at them (muster account ls -o wide) and end those that were its own"
	}
	return text
}
