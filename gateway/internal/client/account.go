package client

import (
	"context"
	"net/url"

	"muster/gateway/api"
)

// CreateAccount makes an account; its API token is in the answer and nowhere else.
func (c *Client) CreateAccount(ctx context.Context, q api.AccountRequest) (api.NewAccount, error) {
	var a api.NewAccount
	err := c.do(ctx, "POST", "accounts", nil, q, &a)
	return a, err
}

// Accounts lists accounts by name; with all also the expired and revoked ones.
func (c *Client) Accounts(ctx context.Context, tenant string, all bool) (api.AccountList, error) {
	q := url.Values{}
	set(q, "tenant", tenant)
	setIf(q, "all", all)
	var list api.AccountList
	err := c.do(ctx, "GET", "accounts", q, nil, &list)
	return list, err
}

// RevokeAccount ends an account at once, named by its name or its id.
func (c *Client) RevokeAccount(ctx context.Context, nameOrID string) (api.RevokedAccount, error) {
	var revoked api.RevokedAccount
	err := c.do(ctx, "DELETE", "accounts/"+url.PathEscape(nameOrID), nil, nil, &revoked)
	return revoked, err
}
