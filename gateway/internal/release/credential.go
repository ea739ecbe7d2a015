package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/release/build"
	"muster/store"
)

// secretPrefix begins the names of the gateway's own secrets that open registries elsewhere. The store seals them.
const secretPrefix = "registry-credential/"

// SetCredential stores a credential in place of the earlier one with its name.
func (d *Service) SetCredential(ctx context.Context, c Credential, by store.Actor) error {
	if !isName(c.Name) {
		return badCredential(fmt.Sprintf("%.80q is no name of a credential", c.Name))
	}
	if c.Password == "" || strings.ContainsAny(c.Username, ":\r\n") || len(c.Password) > 16<<10 {
		return badCredential("a credential has a password or a token, and a user name without a colon")
	}
	if !build.IsHost(c.Host) || c.Realm != "" && !build.IsHost(c.Realm) {
		return badCredential(fmt.Sprintf("%.80q is no host of a registry", c.Host))
	}
	value, err := json.Marshal(c)
	if err != nil {
		return err
	}
	e := d.event("registry_credential.set", by, true, map[string]string{"name": c.Name, "host": c.Host})
	return d.Store.SetSecret(ctx, secretPrefix+c.Name, value, e)
}

func badCredential(why string) error {
	return wire.Refuse(wire.CodeBadRequest, why, "give name, host, and the user name and password of a service account that may pull")
}

// Credentials lists all credentials, without their passwords.
func (d *Service) Credentials(ctx context.Context) ([]Credential, error) {
	names, err := d.Store.Secrets(ctx, secretPrefix)
	if err != nil {
		return nil, err
	}
	all := make([]Credential, 0, len(names))
	for _, name := range names {
		c, err := d.credential(ctx, name)
		if err != nil {
			return nil, err
		}
		c.Password = ""
		all = append(all, c)
	}
	return all, nil
}

// DropCredential deletes a credential. One that a release needs is refused.
func (d *Service) DropCredential(ctx context.Context, name string, by store.Actor) error {
	d.mu.Lock()
	for _, r := range d.releases {
		if r.Credential == name {
			d.mu.Unlock()
			return wire.Refuse(wire.CodeReleaseInUse, "the release "+r.Digest+" needs the credential "+name, "drop the release first")
		}
	}
	d.mu.Unlock()
	e := d.event("registry_credential.dropped", by, true, map[string]string{"name": name})
	err := d.Store.DropSecret(ctx, secretPrefix+name, e)
	if errors.Is(err, store.ErrNotFound) {
		return noCredential(name)
	}
	return err
}

// credential reads a credential; "": none is needed.
func (d *Service) credential(ctx context.Context, name string) (Credential, error) {
	var c Credential
	if name == "" {
		return c, nil
	}
	value, err := d.Store.Secret(ctx, secretPrefix+name)
	if errors.Is(err, store.ErrNotFound) {
		return c, noCredential(name)
	}
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(value, &c)
}

func noCredential(name string) error {
	return wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no credential %.80q for a registry", name), "store one first")
}
