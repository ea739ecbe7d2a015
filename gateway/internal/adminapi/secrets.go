package adminapi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/task"
	"muster/store"
)

// listSecrets shows names. No value ever leaves the gateway but for the node that runs a task which names it.
func (c *call) listSecrets(f ofTenant) (any, error) {
	secrets, err := c.Store.LentSecrets(c.Context(), f.Tenant)
	return api.SecretList{Secrets: api.Each(secrets, task.ShownSecret)}, err
}

// setSecret answers 201 for a new secret.
func (c *call) setSecret(q api.SecretRequest) (any, error) {
	tenant, name, err := c.secret()
	if err != nil {
		return nil, err
	}
	switch {
	case q.Value == "":
		return nil, wire.Refuse(wire.CodeBadRequest, "the value is empty", `send {"value":"..."}; muster secret rm deletes a secret`)
	case len(q.Value) > api.MaxSecret || strings.ContainsRune(q.Value, 0):
		return nil, wire.Refuse(wire.CodeBadRequest, "a process cannot take the value as a variable",
			fmt.Sprintf("a value has at most %d bytes, none of them zero", api.MaxSecret))
	}
	row := store.LentSecret{Tenant: tenant, Name: name, CreatedAt: c.now(), ChangedAt: c.now(), ChangedBy: c.Caller.Actor.Name}
	if err := c.Store.SetLentSecret(c.Context(), row, []byte(q.Value), c.secretEvent("secret.set", row)); err != nil {
		return nil, err
	}
	secrets, err := c.Store.LentSecrets(c.Context(), tenant)
	if err != nil {
		return nil, err
	}
	if at := slices.IndexFunc(secrets, func(kept store.LentSecret) bool { return kept.Name == name }); at >= 0 {
		row = secrets[at]
	}
	if row.CreatedAt.Equal(row.ChangedAt) {
		c.Created()
	}
	return task.ShownSecret(row), nil
}

func (c *call) dropSecret() (any, error) {
	tenant, name, err := c.secret()
	if err != nil {
		return nil, err
	}
	row := store.LentSecret{Tenant: tenant, Name: name}
	err = c.Store.DropLentSecret(c.Context(), tenant, name, c.secretEvent("secret.deleted", row))
	if errors.Is(err, store.ErrNotFound) {
		return nil, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("the tenant %s has no secret %q", tenant, name), "muster secret ls shows them")
	}
	return api.Done{ID: name, Status: "deleted"}, err
}

// secret is the tenant and the name of the secret that the call is about.
func (c *call) secret() (tenant, name string, err error) {
	var f ofTenant
	if err := c.Ask(&f); err != nil {
		return "", "", err
	}
	tenant = cmp.Or(f.Tenant, store.DefaultTenant)
	if err := wire.CheckTenant(tenant); err != nil {
		return "", "", err
	}
	name = c.Named("secret")
	if wire.CheckName(name) != nil {
		return "", "", wire.Refuse(wire.CodeBadName, "this is not a secret's name", // it may be the value
			"a name has 1 to 63 letters, digits, dots, dashes or underscores, and a letter or digit at both ends")
	}
	return tenant, name, nil
}

func (c *call) secretEvent(kind string, s store.LentSecret) store.Event {
	e := c.event(kind)
	e.Tenant = s.Tenant
	e.Detail = map[string]string{"secret": s.Name}
	return e
}
