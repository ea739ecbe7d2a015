package client

import (
	"context"
	"net/url"
)

// RegistryCredential opens a registry elsewhere for the gateway, which lends nodes tokens of it that live for minutes.
type RegistryCredential struct {
	Name     string `json:"name"`
	Host     string `json:"host"`     // of the registry
	Realm    string `json:"realm"`    // host that gives out its tokens, where that is another one
	Username string `json:"username"` // empty: the password is a token
}

// RegistryCredentialList answers GET registry-credentials, without passwords.
type RegistryCredentialList struct {
	Credentials []RegistryCredential `json:"credentials"`
}

// RegistryCredentialRequest sets one. The password is never shown again.
type RegistryCredentialRequest struct {
	Host     string `json:"host"`
	Realm    string `json:"realm,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password"`
}

// RegistryCredentials lists the credentials of other registries.
func (c *Client) RegistryCredentials(ctx context.Context) (RegistryCredentialList, error) {
	var list RegistryCredentialList
	err := c.do(ctx, "GET", "registry-credentials", nil, nil, &list)
	return list, err
}

// SetRegistryCredential keeps a credential in the place of the earlier one of its name.
func (c *Client) SetRegistryCredential(ctx context.Context, name string, q RegistryCredentialRequest) (RegistryCredential, error) {
	var set RegistryCredential
	err := c.do(ctx, "PUT", "registry-credentials/"+url.PathEscape(name), nil, q, &set)
	return set, err
}

// DropRegistryCredential forgets a credential.
func (c *Client) DropRegistryCredential(ctx context.Context, name string) error {
	return c.do(ctx, "DELETE", "registry-credentials/"+url.PathEscape(name), nil, nil, &Done{})
}
