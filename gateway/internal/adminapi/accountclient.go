package adminapi

import (
	"context"
	"net/url"
)

// CreateAccount makes an account; its API token is in the answer and nowhere else.
func (c *Client) CreateAccount(ctx context.Context, q AccountRequest) (NewAccount, error) {
	var a NewAccount
	err := c.do(ctx, "POST", "accounts", nil, q, &a)
	return a, err
}

// Accounts lists accounts by name; with all also the expired and revoked ones.
func (c *Client) Accounts(ctx context.Context, tenant string, all bool) (AccountList, error) {
	q := url.Values{}
	set(q, "tenant", tenant)
	if all {
		q.Set("all", "true")
	}
	var list AccountList
	err := c.do(ctx, "GET", "accounts", q, nil, &list)
	return list, err
}

// RevokeAccount ends an account at once, named by its name or its id.
func (c *Client) RevokeAccount(ctx context.Context, nameOrID string) (RevokedAccount, error) {
	var revoked RevokedAccount
	err := c.do(ctx, "DELETE", "accounts/"+url.PathEscape(nameOrID), nil, nil, &revoked)
	return revoked, err
}
