package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"muster/store"
)

// registrySecret is the name under which the credential is sealed.
const registrySecret = "bootstrap/registry"

// RegistryCredential logs a container runtime in.
type RegistryCredential struct {
	Registry string `json:"registry"` // HOST[:PORT]
	Username string `json:"username"`
	Password string `json:"password"`
}

// ParseRegistryCredential reads USERNAME:PASSWORD, the one line of a credential file.
func ParseRegistryCredential(registry string, text []byte) (RegistryCredential, error) {
	user, password, ok := strings.Cut(strings.TrimSpace(string(text)), ":")
	if !ok || user == "" || password == "" || strings.ContainsAny(user+password, "\r\n\x00") {
		return RegistryCredential{}, errors.New("it is not one line of USERNAME:PASSWORD")
	}
	return RegistryCredential{Registry: registry, Username: user, Password: password}, nil
}

// SetRegistryCredential seals a credential in the place of the one before, unless it is the same.
func (b *Bootstrap) SetRegistryCredential(ctx context.Context, c RegistryCredential, by store.Actor) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	kept, err := b.store.Secret(ctx, registrySecret)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if bytes.Equal(kept, text) {
		return nil
	}
	e := b.event("bootstrap.registry_set", "", by)
	e.Detail = map[string]string{"registry": c.Registry, "username": c.Username}
	return b.store.SetSecret(ctx, registrySecret, text, e)
}

// registryCredential gives what is sealed for a registry; ok is false where there is nothing.
func (b *Bootstrap) registryCredential(ctx context.Context, registry string) (c RegistryCredential, ok bool, err error) {
	text, err := b.store.Secret(ctx, registrySecret)
	if errors.Is(err, store.ErrNotFound) || registry == "" {
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, false, fmt.Errorf("the registry credential as stored: %w", err)
	}
	return c, c.Registry == registry, nil
}
