package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/cli/spelling"
)

// TenantText is what help says of a tenant that a command names.
const TenantText = "A tenant begins when something is made for it. If nothing has the tenant yet, and it looks like a tenant that is there " +
	"with a letter mistyped, the command asks first. Without a terminal it makes nothing then; --yes makes the new tenant. muster tenant ls shows " +
	"the tenants that there are."

// AskTenant asks before a mistyped tenant becomes a new one. If the tenant looks like no other one, there is no question, so that a script
// can begin a tenant. If the caller may not look at tenants, there is no question either: the gateway itself judges what is made.
func (s *Session) AskTenant(ctx context.Context, tenant string) error {
	if tenant == "" {
		return nil
	}
	list, err := Get[api.TenantList](ctx, s, api.PathTenants, nil)
	if err != nil || slices.ContainsFunc(list.Tenants, func(t api.Tenant) bool { return t.Tenant == tenant }) {
		return nil
	}
	at := slices.IndexFunc(list.Tenants, func(t api.Tenant) bool { return mistyped(tenant, t.Tenant) })
	if at < 0 {
		return nil
	}
	near := list.Tenants[at].Tenant
	said := fmt.Sprintf("no node, account or token has tenant %s; did you mean %s?", tenant, near)
	if yes, err := s.yes(); err == nil && !yes && !s.Interactive() {
		return Usagef("write --tenant "+screen.Printable(near)+", or add --yes to make the tenant "+screen.Printable(tenant), "%s", said)
	}
	return s.Agree(said+" make it anew", "make the tenant "+tenant)
}

// mistyped tells whether a word looks like another one with one mistake of the hand: a capital, another sign between its parts, or, in a
// part of four letters or more, one letter too many, too few, wrong, or two that changed places. A digit or a short part that differs is
// meant so: team-a is not team-b, and site1 is not site2.
func mistyped(typed, known string) bool {
	flat := strings.NewReplacer("_", "-", ".", "-").Replace
	a := strings.Split(flat(strings.ToLower(typed)), "-")
	b := strings.Split(flat(strings.ToLower(known)), "-")
	if slices.Equal(a, b) {
		return typed != known
	}
	if joined := strings.Join(a, ""); joined == strings.Join(b, "") {
		return true
	}
	if len(a) != len(b) {
		return false
	}
	mistakes := 0
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		mistakes++
		if !slip(a[i], b[i]) {
			return false
		}
	}
	return mistakes == 1
}

// slip tells whether two parts of words differ in one letter, or in two that changed places.
func slip(a, b string) bool {
	const shortest = 4
	digit := func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}
	return max(len(a), len(b)) >= shortest && min(len(a), len(b)) >= shortest-1 && spelling.Distance(a, b) == 1 &&
		strings.Map(digit, a) == strings.Map(digit, b)
}
