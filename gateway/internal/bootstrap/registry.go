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

// RegistryCredential is the user and password with which a container runtime logs in to a registry.
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

// SetRegistryCredential seals a credential in place of the earlier one. If both are equal, it does nothing, and makes no event.
func (b *Bootstrap) SetRegistryCredential(ctx context.Context, c RegistryCredential, by store.Actor) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	kept, err := b.config.Store.Secret(ctx, registrySecret)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if bytes.Equal(kept, text) {
		return nil
	}
	e := b.event("bootstrap.registry_set", "", by)
	e.Detail = map[string]string{"registry": c.Registry, "username": c.Username}
	return b.config.Store.SetSecret(ctx, registrySecret, text, e)
}

// DropRegistryCredential forgets the sealed credential, if there is one.
func (b *Bootstrap) DropRegistryCredential(ctx context.Context, by store.Actor) error {
	err := b.config.Store.DropSecret(ctx, registrySecret, b.event("bootstrap.registry_removed", "", by))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// SealedRegistry returns the registry for which a credential is sealed; empty: there is none.
func (b *Bootstrap) SealedRegistry(ctx context.Context) (string, error) {
	c, err := b.sealed(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return c.Registry, err
}

// lendable returns the credential for the registry of a script, or says why there is none. The present setting and the sealed credential
// must both be for that registry, so that a registry never gets the password of another one.
func (b *Bootstrap) lendable(ctx context.Context, registry string) (c RegistryCredential, why string, err error) {
	if registry == "" {
		return c, "the script logs in to no registry", nil
	}
	if b.config.Site != nil {
		site, err := b.config.Site()
		if err != nil {
			return c, "", err
		}
		if site.Registry != registry {
			return c, "the gateway's registry is another now", nil
		}
	}
	return b.sealedFor(ctx, registry)
}

// sealedFor returns the sealed credential if it is for this registry.
func (b *Bootstrap) sealedFor(ctx context.Context, registry string) (c RegistryCredential, why string, err error) {
	c, err = b.sealed(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return c, "no credential is sealed", nil
	}
	if err != nil {
		return c, "", err
	}
	if c.Registry != registry {
		return RegistryCredential{}, "the sealed credential is another registry's", nil
	}
	return c, "", nil
}

func (b *Bootstrap) sealed(ctx context.Context) (c RegistryCredential, err error) {
	text, err := b.config.Store.Secret(ctx, registrySecret)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return RegistryCredential{}, fmt.Errorf("the registry credential as stored: %w", err)
	}
	return c, nil
}
