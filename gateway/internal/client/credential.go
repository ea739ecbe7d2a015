package client

import (
	"context"
	"net/url"

	"muster/gateway/api"
)

// RegistryCredentials lists the credentials of other registries.
func (c *Client) RegistryCredentials(ctx context.Context) (api.RegistryCredentialList, error) {
	var list api.RegistryCredentialList
	err := c.do(ctx, "GET", "registry-credentials", nil, nil, &list)
	return list, err
}

// SetRegistryCredential keeps a credential in the place of the earlier one of its name.
func (c *Client) SetRegistryCredential(ctx context.Context, name string, q api.RegistryCredentialRequest) (api.RegistryCredential, error) {
	var set api.RegistryCredential
	err := c.do(ctx, "PUT", "registry-credentials/"+url.PathEscape(name), nil, q, &set)
	return set, err
}

// DropRegistryCredential forgets a credential.
func (c *Client) DropRegistryCredential(ctx context.Context, name string) error {
	return c.do(ctx, "DELETE", "registry-credentials/"+url.PathEscape(name), nil, nil, &api.Done{})
}
