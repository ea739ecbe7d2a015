// Package gateway has the commands that run a gateway: its accounts and logins, its CA and keys, its copies, and its service.
package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// allTenants is shown where an account is for every tenant.
const allTenants = "(all)"

// AccountCommands returns the commands about accounts, whose API tokens reach the gateway from elsewhere.
func AccountCommands() []cli.Command {
	return []cli.Command{
		{Name: "account create", Args: "NAME", Least: 1, Most: 1, Flags: []string{"role", "scope", "tenant", "ttl", "yes", "output"},
			Run:     cli.With(accountCreate),
			Says:    map[string]string{"ttl": "how long it is good for, a minute at least (as long as the account that makes it)"},
			Summary: "make an account, whose API token reaches the gateway from elsewhere",
			Text: "The API token is shown this once; it goes into MUSTER_API_TOKEN where it is used. " + rolesText() +
				" --scope gives single scopes, by themselves or besides a role: " + strings.Join(api.KnownScopes(), ", ") +
				"; * stands for all of them. Without --role and --scope the account may look at nodes, tokens and events, and change " +
				"nothing. muster help accounts says what each scope and each role opens.\n\n" +
				"With --tenant it sees and touches only what is that tenant's. Nobody can make an account that may do more, or lives " +
				"longer, than their own. Over the gateway's socket every scope can be given.\n\n" + cli.TenantText,
			Examples: []string{"muster account create alice --role operator", "muster account create bob --role viewer --tenant platform",
				"muster account create ci --scope tokens:write,nodes:read --tenant platform --ttl 90d",
				"muster account create grafana --scope nodes:read -o json"}},
		{Name: "account update", Args: "NAME", Least: 1, Most: 1, Flags: []string{"role", "scope", "tenant", "all-tenants", "yes", "output"},
			Run: cli.With(accountUpdate), Forms: []string{cli.FormTable, cli.FormJSON},
			Says:    map[string]string{"tenant": "from now on it is for this tenant alone"},
			Summary: "change what an account may do",
			Text: "--role and --scope take the place of all scopes that it has. --tenant and --all-tenants say what they are good for. What is " +
				"not named stays. The API token stays the same; it and the sessions of the account go by the new scopes from the next call on. " +
				rolesText() + "\n\nThis takes an account that has all scopes which the other one has now and gets: nobody can give more " +
				"than they have, to others or to themselves.\n\n" + cli.TenantText,
			Examples: []string{"muster account update alice --role operator", "muster account update ci --scope nodes:read --all-tenants"}},
		{Name: "account ls", Flags: []string{"tenant", "all", "output"}, Run: accountList,
			Summary: "list accounts",
			Text: "Accounts that expired or were revoked are left out unless --all is given. API tokens are " +
				"kept nowhere and cannot be shown again.",
			Examples: []string{"muster account ls", "muster account ls --all --tenant platform"}},
		{Name: "account whoami", Flags: []string{"output"}, Run: whoami, Forms: []string{cli.FormTable, cli.FormJSON},
			Summary:  "say who you are for the gateway, and what you may do",
			Text:     "Every account may ask this. muster help accounts says what each role and each scope opens.",
			Examples: []string{"muster account whoami"}},
		{Name: "account revoke", Args: "NAME...", Least: 1, Most: -1, Run: accountRevoke,
			Summary: "end accounts at once",
			Text: "An account is named by its name or its id. Its API token is refused from the next " +
				"call on, and its name becomes free. Accounts that it had made stay, and are named.",
			Examples: []string{"muster account revoke ci"}},
	}
}

// rolesText says what roles there are.
func rolesText() string {
	var roles []string
	for _, role := range api.Roles() {
		roles = append(roles, role.Name+" ("+role.Is+")")
	}
	return "A role is a name for scopes: " + strings.Join(roles, ", ") + "."
}

func accountUpdate(ctx context.Context, s *cli.Session, o struct {
	Role       string
	Scope      []string
	Tenant     string
	AllTenants bool
}) error {
	if !s.Flags.Given("tenant") { // MUSTER_TENANT says what lists show: it moves no account
		o.Tenant = ""
	}
	if !s.Flags.Given("scope") { // MUSTER_SCOPE is for new accounts
		o.Scope = nil
	}
	q := api.AccountPatch{Role: o.Role, Scopes: o.Scope}
	switch {
	case o.AllTenants && o.Tenant != "":
		return cli.Usagef("leave one of them out", "an account is for one tenant or for all")
	case o.AllTenants || o.Tenant != "":
		q.Tenant = &o.Tenant
	case o.Role == "" && len(o.Scope) == 0:
		return cli.Usagef("write --role operator, --scope nodes:read, --tenant platform or --all-tenants", "nothing is to be changed")
	}
	if err := s.AskTenant(ctx, o.Tenant); err != nil {
		return err
	}
	return cli.Show(ctx, s, http.MethodPatch, api.At(api.PathAccount, accountID(s.Words[0])), q, func(a api.ChangedAccount) {
		s.Printf("account %s, tenant %s, %s\n", a.Name, tenantText(a.Tenant), scopesText(a.Role, a.Scopes))
		if len(a.Made) > 0 {
			s.Printf("accounts that it had made keep what they may do: %s; to end them: muster account revoke %s\n", strings.Join(a.Made, ", "),
				strings.Join(a.Made, " "))
		}
	})
}

func whoami(ctx context.Context, s *cli.Session) error {
	return cli.Show(ctx, s, http.MethodGet, api.PathWhoAmI, nil, func(c api.Caller) {
		until := "without an end"
		if c.ExpiresAt != nil {
			until = "until " + screen.Stamp(c.ExpiresAt)
		}
		s.Printf("%s, tenant %s, %s, %s\n", c.Actor, tenantText(c.Tenant), scopesText(api.RoleOf(c.Scopes), c.Scopes), until)
	})
}

// scopesText is a role with its scopes, or the scopes alone.
func scopesText(role string, scopes []string) string {
	text := "scopes " + screen.Printable(strings.Join(scopes, ","))
	if role != "" {
		text = "role " + screen.Printable(role) + ", " + text
	}
	return text
}

// accountID takes a whole API token for its public part, which is the account's id: the token must not stand in a URL.
func accountID(name string) string {
	if strings.HasPrefix(name, "msa_") {
		return cli.PublicPart(name)
	}
	return name
}

func accountCreate(ctx context.Context, s *cli.Session, q api.AccountRequest) error {
	q.Name = s.Words[0]
	if err := s.AskTenant(ctx, q.Tenant); err != nil {
		return err
	}
	return cli.Show(ctx, s, http.MethodPost, api.PathAccounts, q, func(a api.NewAccount) {
		until := "without an end"
		if a.ExpiresAt != nil {
			until = "until " + screen.Stamp(a.ExpiresAt)
		}
		s.Printf("%s\n\naccount %s, tenant %s, %s, %s; the API token is not shown again\n", a.Token, a.Name, tenantText(a.Tenant),
			scopesText(a.Role, a.Scopes), until)
		whereUsed(ctx, s)
	})
}

// whereUsed says how to use an API token from elsewhere. The account is made already, so it is no failure where the gateway does not
// answer this question.
func whereUsed(ctx context.Context, s *cli.Session) {
	g, err := cli.Get[api.Gateway](ctx, s, api.PathGateway, nil)
	if err != nil || g.URL == "" {
		return
	}
	s.Printf("\nWhere it is used, paste these lines, and then the API token, which the last line waits for:\n\n"+
		"  export MUSTER_URL=%s\n", g.URL)
	if g.OwnCertificate {
		s.Printf("  export MUSTER_ROOT_PIN=%s\n", g.RootPin)
	}
	fmt.Fprintln(s.Stdout, "  export MUSTER_API_TOKEN && read -rs MUSTER_API_TOKEN")
}

func tenantText(tenant string) string { return cmp.Or(screen.Printable(tenant), allTenants) }

func accountList(ctx context.Context, s *cli.Session) error {
	return cli.ShowList(ctx, s, api.PathAccounts, &api.ListFilter{}, accountColumns(), func(l api.AccountList) [][]string {
		return cli.Rows(l.Accounts, func(a api.Account) []string { return accountRow(a, s.Now()) })
	})
}

func accountColumns() []screen.Column {
	return []screen.Column{{Name: "NAME", Least: 16, Most: 40}, {Name: "TENANT", Rank: 3, Least: 8, Most: 24}, {Name: "STATUS", Rank: 2},
		{Name: "EXPIRES", Rank: 1}, {Name: "USED", Rank: 4}, {Name: "ROLE", Rank: 5}, {Name: "SCOPES", Least: 16, Most: 60},
		{Name: "ID", Wide: true}, {Name: "CREATED", Wide: true}, {Name: "BY", Wide: true}}
}

func accountRow(a api.Account, now time.Time) []string {
	expires := "never"
	if a.ExpiresAt != nil {
		expires = screen.When(now, *a.ExpiresAt)
	}
	used := "never"
	if a.LastUsedAt != nil {
		used = screen.Ago(now, *a.LastUsedAt)
	}
	return []string{a.Name, tenantText(a.Tenant), a.Status, expires, used, a.Role, strings.Join(a.Scopes, ","), a.ID,
		screen.Ago(now, a.CreatedAt), a.CreatedBy}
}

func accountRevoke(ctx context.Context, s *cli.Session) error {
	names := slices.Clone(s.Words)
	for i, name := range names {
		names[i] = accountID(name)
	}
	return s.OnEach(ctx, cli.Named(names), func(t cli.Target) (string, error) {
		revoked, err := cli.Send[api.RevokedAccount](ctx, s, "DELETE", api.At(api.PathAccount, t.ID), nil)
		return revokedText(revoked), err
	})
}

func revokedText(a api.RevokedAccount) string {
	text := api.StatusRevoked
	if len(a.Made) > 0 {
		text += "; accounts that it had made stay live: " + strings.Join(a.Made, ", ") + "; to end them: muster account revoke " +
			strings.Join(a.Made, " ")
	}
	if len(a.Tokens) > 0 {
		text += "; tokens that it had made stay live: " + strings.Join(a.Tokens, ", ") + "; to end them: muster token revoke " +
			strings.Join(a.Tokens, " ")
	}
	return text
}
