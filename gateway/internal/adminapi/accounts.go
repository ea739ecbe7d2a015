package adminapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/store"
)

// whoami is open to every account, so that a caller can find out what its token is good for.
func (c *call) whoami() (any, error) {
	who := c.Caller
	return api.Caller{Actor: who.Actor.Name, AccountID: who.Account.ID, Tenant: who.Tenant, Scopes: append([]string{}, who.Scopes...),
		ExpiresAt: api.UTC(who.Account.ExpiresAt)}, nil
}

// listAccounts leaves out expired and revoked accounts, unless all are asked for.
func (c *call) listAccounts(f api.ListFilter) (any, error) {
	now := c.now()
	accounts, err := c.Store.Accounts(c.Context(), f.Tenant)
	if !f.All {
		accounts = slices.DeleteFunc(accounts, func(a store.Account) bool { return account.Status(a, now) != api.StatusLive })
	}
	return api.AccountList{Accounts: api.Each(accounts, func(a store.Account) api.Account { return account.Shown(a, now) })}, err
}

// createAccount shows the API token once: the record has only its hash.
func (c *call) createAccount(q api.AccountRequest) (any, error) {
	a, err := c.Caller.Make(q, c.now())
	if err != nil {
		return nil, err
	}
	token, err := account.Mint(&a, nil)
	if err != nil {
		return nil, err
	}
	err = c.Store.CreateAccount(c.Context(), a, c.accountEvent("account.created", a))
	if errors.Is(err, store.ErrConflict) {
		return nil, c.nameTaken(a.Name)
	}
	if err != nil {
		return nil, err
	}
	c.Created()
	return api.NewAccount{ID: a.ID, Token: token.Reveal(), Name: a.Name, Role: api.RoleOf(a.Scopes), Scopes: a.Scopes, Tenant: a.Tenant,
		ExpiresAt: a.ExpiresAt}, nil
}

// updateAccount changes what an account may do. Its API token stays. What it does with it, and its sessions, go by the new scopes at once:
// every call looks the account up.
func (c *call) updateAccount(q api.AccountPatch) (any, error) {
	if q.Role == "" && len(q.Scopes) == 0 && q.Tenant == nil {
		return nil, wire.Refuse(wire.CodeBadRequest, "nothing is to be changed",
			`send {"role":"operator"}, {"scopes":["nodes:read"]} or {"tenant":"platform"}`)
	}
	for range accountTries {
		a, accounts, err := c.account()
		if err != nil {
			return nil, err
		}
		next, err := c.Caller.Change(a, q)
		if err != nil {
			return nil, err
		}
		if slices.Equal(next.Scopes, a.Scopes) && next.Tenant == a.Tenant {
			return api.ChangedAccount{Account: account.Shown(a, c.now()), Made: []string{}}, nil
		}
		err = c.Store.UpdateAccount(c.Context(), a, next.Tenant, next.Scopes,
			account.Changed(c.accountEvent("account.updated", next), a, next)...)
		if err == nil {
			made := func(by store.Account) bool { return by.Maker == a.ID && account.Loses(a, next) }
			return api.ChangedAccount{Account: account.Shown(next, c.now()), Made: liveNames(accounts, c.now(), made)}, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
	}
	return nil, wire.Refuse(wire.CodeUnavailable, "the account changes too fast", "try again")
}

// accountTries bounds how often a change of an account is decided again because somebody else changed the account meanwhile.
const accountTries = 5

// account is the live account that the path names, and all accounts that the caller may see.
func (c *call) account() (store.Account, []store.Account, error) {
	name := c.Named("account")
	accounts, err := c.Store.Accounts(c.Context(), c.Caller.Tenant)
	if err != nil {
		return store.Account{}, nil, err
	}
	at := slices.IndexFunc(accounts, func(a store.Account) bool { return a.RevokedAt == nil && (a.ID == name || a.Name == name) })
	if at < 0 {
		return store.Account{}, nil, noAccount(name)
	}
	return accounts[at], accounts, nil
}

// nameTaken tells nothing about an account of another tenant, except that its name is taken: names are unique in the fleet.
func (c *call) nameTaken(name string) error {
	accounts, err := c.Store.Accounts(c.Context(), c.Caller.Tenant)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(accounts, func(a store.Account) bool { return a.RevokedAt == nil && a.Name == name }) {
		return wire.Refuse(wire.CodeAlreadyThere, fmt.Sprintf("an account is called %q already", name),
			"choose another name; to give it a new token, revoke it and make it again")
	}
	return wire.Refuse(wire.CodeAlreadyThere, "the name "+name+" is taken", "choose another")
}

// revokeAccount ends an account at once. Accounts and tokens that it made stay. The answer names them, because the operator may want to end
// them too. A caller cannot revoke an account with more scopes than its own: otherwise it could shut the operator out.
func (c *call) revokeAccount() (any, error) {
	a, accounts, err := c.account()
	if err != nil {
		return nil, err
	}
	if missing := c.Caller.Lacks(a.Scopes); missing != "" {
		return nil, wire.Refuse(wire.CodeForbidden, "this account lacks the scope "+missing+", which "+a.Name+" has, so it cannot revoke it",
			"use an account that has all its scopes, or the gateway's socket")
	}
	now := c.now()
	err = c.Store.RevokeAccount(c.Context(), c.Caller.Tenant, a.ID, now, c.accountEvent("account.revoked", a))
	if errors.Is(err, store.ErrNotFound) { // somebody else was faster
		return nil, noAccount(a.Name)
	}
	if err != nil {
		return nil, err
	}
	tokens, err := c.tokensOf(a, now)
	return api.RevokedAccount{
		Done:   api.Done{ID: a.ID, Status: api.StatusRevoked},
		Made:   liveNames(accounts, now, func(made store.Account) bool { return made.Maker == a.ID }),
		Tokens: tokens,
	}, err
}

// tokensOf are the live tokens that an account has made, as far as the caller may see them: it may have belonged to another tenant before.
// An account of the same name that was there before has made none of them.
func (c *call) tokensOf(a store.Account, now time.Time) ([]string, error) {
	live, err := c.Store.Tokens(c.Context(), store.TokenQuery{Tenant: c.Caller.Tenant, Now: now})
	ids := []string{}
	for _, t := range live {
		if t.CreatedBy == account.ActorName(a) && !t.CreatedAt.Before(a.CreatedAt) {
			ids = append(ids, t.ID)
		}
	}
	return ids, err
}

// liveNames are the names of the live accounts for which asked is true.
func liveNames(accounts []store.Account, now time.Time, asked func(store.Account) bool) []string {
	names := []string{}
	for _, a := range accounts {
		if asked(a) && account.Status(a, now) == api.StatusLive {
			names = append(names, a.Name)
		}
	}
	return names
}

// noAccount is the refusal for an unknown account, and for one of another tenant: both are answered alike.
func noAccount(name string) error {
	return wire.Refuse(wire.CodeNotFound, fmt.Sprintf("no live account is called %.80q", name), "muster account ls shows them")
}

// accountEvent belongs to the account's tenant, whoever makes the change.
func (c *call) accountEvent(kind string, a store.Account) store.Event {
	e := c.event(kind)
	e.Tenant = a.Tenant
	e.Detail = map[string]string{"account": a.Name, "id": a.ID, "scopes": strings.Join(a.Scopes, ",")}
	return e
}
