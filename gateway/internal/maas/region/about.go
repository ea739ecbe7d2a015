package region

import (
	"context"
	"errors"

	"muster/agent/wire"
)

// Version returns the version of MAAS, such as 3.6.1. It asks without the key: so a URL can be tried before the key goes there.
func (c *Client) Version(ctx context.Context) (string, error) {
	version := ""
	err := c.do(ctx, request{path: "version/", bare: true}, one(func(raw struct{ Version string }) error {
		if version = wire.Plain(raw.Version, longestWord); version == "" {
			return errors.New("it has no version")
		}
		return nil
	}))
	return version, err
}

// User is the user whose key the client has.
type User struct {
	Name  string
	Admin bool // commissioning, mark_fixed and tags are for admins
}

// WhoAmI returns the user whose key the client has.
func (c *Client) WhoAmI(ctx context.Context) (User, error) {
	var u User
	err := c.do(ctx, request{path: "users/", op: "whoami"}, one(func(raw struct {
		Username string
		Admin    maybe[bool] `json:"is_superuser"`
	}) error {
		u.Name = wire.Plain(raw.Username, longestWord)
		if u.Name == "" || raw.Admin.v == nil {
			return errors.New("it names no user")
		}
		u.Admin = *raw.Admin.v
		return nil
	}))
	return u, err
}
