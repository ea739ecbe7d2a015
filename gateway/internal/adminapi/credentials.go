package adminapi

import (
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/release"
)

// listCredentials shows what opens registries elsewhere. No password ever leaves the gateway but to its own registry.
func (c *call) listCredentials() (any, error) {
	all, err := c.Releases.Credentials(c.Context())
	return api.RegistryCredentialList{Credentials: api.Each(all, shownCredential)}, err
}

func (c *call) setCredential(q api.RegistryCredentialRequest) (any, error) {
	name, err := c.credential()
	if err != nil {
		return nil, err
	}
	set := release.Credential{Name: name, Host: q.Host, Realm: q.Realm, Username: q.Username, Password: q.Password}
	return shownCredential(set), c.Releases.SetCredential(c.Context(), set, c.Caller.Actor)
}

func (c *call) dropCredential() (any, error) {
	name, err := c.credential()
	if err != nil {
		return nil, err
	}
	return api.Done{ID: name, Status: "deleted"}, c.Releases.DropCredential(c.Context(), name, c.Caller.Actor)
}

// credential is the name that the path has. What is not a name is not repeated: it may be the password.
func (c *call) credential() (string, error) {
	name := c.Named("credential")
	if wire.CheckName(name) != nil {
		return "", wire.Refuse(wire.CodeBadName, "this is not a credential's name",
			"a name has 1 to 63 letters, digits, dots, dashes or underscores, and a letter or digit at both ends")
	}
	return name, nil
}

// shownCredential is what opens a registry elsewhere, without its password.
func shownCredential(c release.Credential) api.RegistryCredential {
	return api.RegistryCredential{Name: c.Name, Host: c.Host, Realm: c.Realm, Username: c.Username}
}
