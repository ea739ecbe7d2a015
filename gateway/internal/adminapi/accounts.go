package adminapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/client"
	"muster/gateway/internal/secret"
	"muster/store"
)

// usualScopes are those of an account that was asked for without any: it may look and not touch.
func usualScopes() []string {
	return []string{client.ScopeNodesRead, client.ScopeTokensRead, client.ScopeEventsRead}
}

func (s *server) listAccounts(c *call) (any, error) {
	p, err := c.query("all", "tenant")
	if err != nil {
		return nil, err
	}
	all, err := p.flag("all")
	if err != nil {
		return nil, err
	}
	tenant, err := c.caller.within(p.text("tenant"))
	if err != nil {
		return nil, err
	}
	accounts, err := s.Store.Accounts(c.r.Context(), tenant)
	answer := client.AccountList{Accounts: make([]client.Account, 0, len(accounts))}
	for _, a := range accounts {
		if shape := accountShape(a, s.now()); all || shape.Status == client.StatusLive {
			answer.Accounts = append(answer.Accounts, shape)
		}
	}
	return answer, err
}

func (s *server) createAccount(c *call) (any, error) {
	var q client.AccountRequest
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	a, err := c.caller.accountFor(q, s.now())
	if err != nil {
		return nil, err
	}
	token, err := sign.NewToken(sign.AccountToken, nil)
	if err != nil {
		return nil, err
	}
	hash := token.SecretHash()
	a.ID, a.SecretHash = token.Public(), hash[:]
	err = s.Store.CreateAccount(c.r.Context(), a, c.accountEvent("account.created", a, a.CreatedAt))
	if errors.Is(err, store.ErrConflict) {
		return nil, s.nameTaken(c, a.Name)
	}
	if err != nil {
		return nil, err
	}
	c.status = http.StatusCreated
	return client.NewAccount{ID: a.ID, Token: token.Reveal(), Name: a.Name, Scopes: a.Scopes, Tenant: a.Tenant, ExpiresAt: a.ExpiresAt}, nil
}

// nameTaken says nothing of another tenant's account.
func (s *server) nameTaken(c *call, name string) error {
	accounts, err := s.Store.Accounts(c.r.Context(), c.caller.tenant)
	if err != nil {
		return err
	}
	taken := wire.Refuse(wire.CodeAlreadyThere, "the name "+name+" is taken", "choose another")
	if slices.ContainsFunc(accounts, func(a store.Account) bool { return a.RevokedAt == nil && a.Name == name }) {
		taken.Message = fmt.Sprintf("an account is called %q already", name)
		taken.Hint = "choose another name; to give it a new token, revoke it and make it again"
	}
	return taken
}

// accountFor is the account that a caller asks for. Nobody makes one that may more, or lives longer, than the caller.
func (c caller) accountFor(q client.AccountRequest, now time.Time) (a store.Account, err error) {
	a = store.Account{Name: q.Name, CreatedAt: now, CreatedBy: c.actor.Name, Maker: c.account.ID}
	if wire.CheckName(q.Name) != nil || strings.HasPrefix(q.Name, string(sign.AccountToken)+"_") || secret.HasToken(q.Name) {
		return a, wire.Refuse(wire.CodeBadName, fmt.Sprintf("%.80q is not an account's name", secret.Redact(q.Name)),
			"a name has 1 to 63 letters, digits, dots, dashes or underscores, a letter or digit at both ends, and does not begin with msa_")

	}
	if a.Tenant, err = c.within(q.Tenant); err != nil {
		return a, err
	}
	if a.Tenant != "" {
		if err := wire.CheckTenant(a.Tenant); err != nil {
			return a, err
		}
	}
	if a.Scopes, err = c.scopesFor(q.Scopes); err != nil {
		return a, err
	}
	a.ExpiresAt, err = c.expiryFor(time.Duration(q.TTL), now)
	return a, err
}

func (c caller) scopesFor(asked []string) ([]string, error) {
	scopes := slices.Clone(asked)
	if len(scopes) == 0 {
		scopes = usualScopes()
	}
	slices.Sort(scopes)
	scopes = slices.Compact(scopes)
	for _, scope := range scopes {
		if !slices.Contains(client.KnownScopes(), scope) {
			return nil, badRequest(fmt.Sprintf("there is no scope %.60q", scope), "the scopes are "+strings.Join(client.KnownScopes(), ", "))
		}
		if !c.may(scope) {
			return nil, forbidden("this account lacks the scope "+scope+", so it cannot give it to another",
				"name scopes of its own: "+strings.Join(c.scopes, ", "))
		}
	}
	return scopes, nil
}

const shortestAccount = time.Minute

func (c caller) expiryFor(ttl time.Duration, now time.Time) (*time.Time, error) {
	if ttl < 0 {
		return nil, badRequest("the field ttl is negative", "write 12h or 30d, or leave it out")
	}
	if ttl > 0 && ttl < shortestAccount {
		return nil, badRequest("an account cannot live "+ttl.String()+", which is too short to use it", "a minute or longer, such as 12h or 30d")
	}
	if ttl == 0 {
		return utc(c.account.ExpiresAt), nil
	}
	expires := now.Add(ttl).UTC().Truncate(time.Millisecond) // as the database keeps it
	if limit := c.account.ExpiresAt; limit != nil && expires.After(*limit) {
		return nil, forbidden("this account expires at "+limit.UTC().Format(time.RFC3339)+", so it cannot make one that lives longer",
			"ask for a shorter ttl, or use an account that lives longer")
	}
	return &expires, nil
}

func (s *server) revokeAccount(c *call) (any, error) {
	name := c.r.PathValue("account")
	accounts, err := s.Store.Accounts(c.r.Context(), c.caller.tenant)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(accounts, func(a store.Account) bool { return a.RevokedAt == nil && (a.ID == name || a.Name == name) })
	if at < 0 {
		return nil, noAccount(name)
	}
	a := accounts[at]
	if missing := slices.IndexFunc(a.Scopes, func(scope string) bool { return !c.caller.may(scope) }); missing >= 0 {
		return nil, forbidden("this account lacks the scope "+a.Scopes[missing]+", which "+a.Name+" has, so it cannot revoke it",
			"use an account that may all that this one may, or the gateway's socket")
	}
	now := s.now()
	err = s.Store.RevokeAccount(c.r.Context(), c.caller.tenant, a.ID, now, c.accountEvent("account.revoked", a, now))
	if errors.Is(err, store.ErrNotFound) { // somebody else was faster
		return nil, noAccount(name)
	}
	return client.RevokedAccount{Done: client.Done{ID: a.ID, Status: client.StatusRevoked}, Made: madeBy(a, accounts, now), PerhapsMade: perhapsMadeBy(a, accounts, now)}, err
}

// madeBy names the live ones of the accounts that an account has made.
func madeBy(maker store.Account, accounts []store.Account, now time.Time) []string {
	made := []string{}
	for _, a := range accounts {
		if a.Maker == maker.ID && accountShape(a, now).Status == client.StatusLive {
			made = append(made, a.Name)
		}
	}
	return made
}

// perhapsMadeBy names those among the live ones that name no maker: they were made before that was kept. Their record has the
// maker's name alone, which others may have had.
func perhapsMadeBy(maker store.Account, accounts []store.Account, now time.Time) []string {
	made := []string{}
	for _, a := range accounts {
		if a.Maker == "" && a.CreatedBy == "account:"+maker.Name && !a.CreatedAt.Before(maker.CreatedAt) && accountShape(a, now).Status == client.StatusLive {
			made = append(made, a.Name)
		}
	}
	return made
}

func noAccount(name string) error {
	return wire.Refuse(wire.CodeNotFound, fmt.Sprintf("no live account is called %.80q", name), "muster account ls shows them")
}

func (c *call) accountEvent(kind string, a store.Account, at time.Time) store.Event {
	return store.Event{At: at, Kind: kind, Actor: c.caller.actor.Name, Tenant: a.Tenant, Address: c.caller.actor.Address, Outcome: store.OutcomeOK, Security: true,
		Detail: map[string]string{"account": a.Name, "id": a.ID, "scopes": strings.Join(a.Scopes, ",")}}
}

func accountShape(a store.Account, now time.Time) client.Account {
	out := client.Account{ID: a.ID, Name: a.Name, Scopes: a.Scopes, Tenant: a.Tenant, Status: client.StatusLive, CreatedAt: a.CreatedAt.UTC(),
		ExpiresAt: utc(a.ExpiresAt), RevokedAt: utc(a.RevokedAt), LastUsedAt: utc(a.LastUsedAt), CreatedBy: a.CreatedBy}
	if out.Scopes == nil {
		out.Scopes = []string{}
	}
	switch {
	case a.RevokedAt != nil:
		out.Status = client.StatusRevoked
	case a.ExpiresAt != nil && !now.Before(*a.ExpiresAt):
		out.Status = client.StatusExpired
	}
	return out
}

func utc(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	u := at.UTC()
	return &u
}
