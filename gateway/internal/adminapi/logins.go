package adminapi

import (
	"slices"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/store"
)

// usualOperator is the account of the first start, which people on the socket mean when they name none.
const usualOperator = "operator"

// createLogin mints a code for the caller's own account. On the socket, which may do everything, it can be for any account.
func (c *call) createLogin(q api.LoginRequest) (any, error) {
	a, err := c.loginAccount(q.Account)
	if err != nil {
		return nil, err
	}
	code, expires, err := c.Logins.Mint(c.Context(), a, c.Caller.Actor)
	if err != nil {
		return nil, err
	}
	c.Created()
	return api.Login{Account: a.Name, Code: code, URL: c.Gateway.URL + api.PathLogin + "#" + code, ExpiresAt: expires}, nil
}

func (c *call) loginAccount(name string) (store.Account, error) {
	own := c.Caller.Account
	switch {
	case own.ID == "" && name == "":
		name = usualOperator
	case own.ID == "":
	case name == "" || name == own.Name || name == own.ID:
		return own, nil
	default:
		return own, wire.Refuse(wire.CodeForbidden, "an account can log in itself alone, and this is "+own.Name,
			"leave the account out, or run muster login on the gateway's machine, by its socket")
	}
	accounts, err := c.Store.Accounts(c.Context(), "")
	if err != nil {
		return own, err
	}
	now := c.now()
	at := slices.IndexFunc(accounts, func(a store.Account) bool {
		return (a.Name == name || a.ID == name) && account.Status(a, now) == api.StatusLive
	})
	if at < 0 {
		return own, noAccount(name)
	}
	return accounts[at], nil
}
