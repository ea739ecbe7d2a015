package account

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account/secret"
	"muster/store"
)

// shortest is the shortest life of an account. Nobody could use one that ends earlier.
const shortest = time.Minute

// usualScopes are the scopes of an account for which none were asked: it can read, and change nothing.
func usualScopes() []string {
	return []string{api.ScopeNodesRead, api.ScopeTokensRead, api.ScopeEventsRead}
}

// Mint makes an account's API token, and puts the token's id and hash into the record. The token itself is kept nowhere.
func Mint(a *store.Account, random io.Reader) (sign.Token, error) {
	token, err := sign.NewToken(sign.AccountToken, random)
	if err != nil {
		return token, err
	}
	hash := token.SecretHash()
	a.ID = token.Public()
	a.SecretHash = hash[:]
	return token, nil
}

// First makes the account "operator" with all scopes, if there has never been an account. The token is good only if made is true.
func First(ctx context.Context, accounts *store.Store, now time.Time) (token sign.Token, made bool, err error) {
	a := store.Account{Name: "operator", Scopes: []string{api.ScopeAll}, CreatedAt: now, CreatedBy: "gateway"}
	if token, err = Mint(&a, nil); err != nil {
		return token, false, err
	}
	made, err = accounts.FirstAccount(ctx, a, store.Event{At: now, Kind: "account.created", Actor: a.CreatedBy, Outcome: store.OutcomeOK,
		Security: true,
		Detail:   map[string]string{"account": a.Name}})
	return token, made, err
}

// Make returns the account that a caller asks for, without its API token. The account cannot do more, or live longer, than the caller.
func (c Caller) Make(q api.AccountRequest, now time.Time) (store.Account, error) {
	a := store.Account{Name: q.Name, CreatedAt: now, CreatedBy: c.Actor.Name, Maker: c.Account.ID}
	if wire.CheckName(q.Name) != nil || strings.HasPrefix(q.Name, string(sign.AccountToken)+"_") || secret.HasToken(q.Name) {
		return a, wire.Refuse(wire.CodeBadName, fmt.Sprintf("%.80q is not an account's name", secret.Redact(q.Name)),
			"a name has 1 to 63 letters, digits, dots, dashes or underscores, a letter or digit at both ends, and does not begin with msa_")
	}
	var err error
	if a.Tenant, err = c.Within(q.Tenant); err != nil {
		return a, err
	}
	if a.Tenant != "" {
		if err := wire.CheckTenant(a.Tenant); err != nil {
			return a, err
		}
	}
	if a.Scopes, err = c.scopesFor(q.Role, q.Scopes); err != nil {
		return a, err
	}
	a.ExpiresAt, err = c.expiryFor(time.Duration(q.TTL), now)
	return a, err
}

// Change returns the account as a caller wants it to be. The caller can do all that the account may do now and then. So no caller cuts
// down an account that may do more than it, and none makes itself or another one wider. An account that outlives the caller gets nothing
// more: else what the caller may do would last longer than the caller.
func (c Caller) Change(a store.Account, q api.AccountPatch) (store.Account, error) {
	if missing := c.Lacks(a.Scopes); missing != "" {
		return a, wire.Refuse(wire.CodeForbidden, "this account lacks the scope "+missing+", which "+a.Name+" has, so it cannot change it",
			"use an account that has all its scopes, or the gateway's socket")
	}
	next := a
	if q.Role != "" || len(q.Scopes) > 0 {
		var err error
		if next.Scopes, err = c.scopesFor(q.Role, q.Scopes); err != nil {
			return a, err
		}
	}
	if q.Tenant != nil && *q.Tenant != a.Tenant {
		if c.Tenant != "" {
			return a, wire.Refuse(wire.CodeForbidden, "this account is for the tenant "+c.Tenant+" only, so it moves no account to another",
				"leave the tenant out, or use an account of all tenants")
		}
		if next.Tenant = *q.Tenant; next.Tenant != "" {
			if _, err := c.Within(next.Tenant); err != nil {
				return a, err
			}
			if err := wire.CheckTenant(next.Tenant); err != nil {
				return a, err
			}
		}
	}
	wider := Caller{Scopes: a.Scopes}.Lacks(next.Scopes) != "" || a.Tenant != "" && next.Tenant != a.Tenant
	if ends := c.Account.ExpiresAt; wider && ends != nil && (a.ExpiresAt == nil || a.ExpiresAt.After(*ends)) {
		return a, wire.Refuse(wire.CodeForbidden, "this account expires at "+ends.UTC().Format(time.RFC3339)+", so it cannot give more to "+
			a.Name+", which lives longer", "use an account that lives longer, or the gateway's socket")
	}
	return next, nil
}

// scopesFor returns the scopes in order, each once, so that lists and events of accounts can be compared.
func (c Caller) scopesFor(role string, asked []string) ([]string, error) {
	scopes, ok := api.ScopesOf(role)
	if role != "" && !ok {
		return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("there is no role %.60q", role), "the roles are "+roleNames())
	}
	scopes = append(slices.Clone(scopes), asked...)
	if slices.Contains(scopes, api.ScopeAll) { // it has all others in it
		scopes = []string{api.ScopeAll}
	}
	if len(scopes) == 0 {
		scopes = usualScopes()
	}
	slices.Sort(scopes)
	scopes = slices.Compact(scopes)
	known := api.KnownScopes()
	for _, scope := range scopes {
		if !slices.Contains(known, scope) {
			return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("there is no scope %.60q", scope), "the scopes are "+strings.Join(known, ", "))
		}
	}
	if missing := c.Lacks(scopes); missing != "" {
		return nil, wire.Refuse(wire.CodeForbidden, "this account lacks the scope "+missing+", so it cannot give it to another",
			"name scopes of its own: "+strings.Join(c.Scopes, ", "))
	}
	return scopes, nil
}

func roleNames() string {
	var names []string
	for _, role := range api.Roles() {
		names = append(names, role.Name)
	}
	return strings.Join(names, ", ")
}

// expiryFor returns when the account ends; nil: never. Without a ttl it ends with the caller's account.
func (c Caller) expiryFor(ttl time.Duration, now time.Time) (*time.Time, error) {
	limit := c.Account.ExpiresAt
	switch {
	case ttl < 0:
		return nil, wire.Refuse(wire.CodeBadRequest, "the field ttl is negative", "write 12h or 30d, or leave it out")
	case ttl == 0 && limit == nil:
		return nil, nil
	case ttl == 0:
		until := limit.UTC()
		return &until, nil
	case ttl < shortest:
		return nil, wire.Refuse(wire.CodeBadRequest, "an account cannot live "+ttl.String()+", which is too short to use it",
			"a minute or longer, such as 12h or 30d")
	}
	expires := now.Add(ttl).UTC().Truncate(time.Millisecond) // as the database keeps it
	if limit != nil && expires.After(*limit) {
		return nil, wire.Refuse(wire.CodeForbidden,
			"this account expires at "+limit.UTC().Format(time.RFC3339)+", so it cannot make one that lives longer",
			"ask for a shorter ttl, or use an account that lives longer")
	}
	return &expires, nil
}
