package gateway

import (
	"context"
	"strconv"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// TenantCommands returns the commands about tenants.
func TenantCommands() []cli.Command {
	return []cli.Command{{Name: "tenant ls", Flags: []string{"output"}, Run: tenantList,
		Summary: "list the tenants that there are",
		Text: "A tenant is a name that nodes, accounts and tokens have. It begins with the first of them, and needs no command of its own. The " +
			"list counts nodes, accounts that are for this tenant alone, and tokens that can still be used; -o wide also counts retired " +
			"nodes. An account of one tenant sees that tenant alone.",
		Examples: []string{"muster tenant ls", "muster tenant ls -o json"}}}
}

func tenantList(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "TENANT", Least: 8, Most: 63}, {Name: "NODES"}, {Name: "ACCOUNTS", Rank: 1}, {Name: "TOKENS", Rank: 2},
		{Name: "RETIRED", Wide: true}}
	return cli.ShowList(ctx, s, api.PathTenants, nil, columns, func(l api.TenantList) [][]string {
		return cli.Rows(l.Tenants, func(t api.Tenant) []string {
			return []string{t.Tenant, strconv.Itoa(t.Nodes), strconv.Itoa(t.Accounts), strconv.Itoa(t.Tokens), strconv.Itoa(t.Retired)}
		})
	})
}
