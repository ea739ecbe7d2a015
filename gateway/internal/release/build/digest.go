package build

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/httpserver/post"
)

// Digests finds the digests that tags of images stand for now: in the gateway's own registry, or in another one by its API.
type Digests struct {
	own     *artifact.Registry
	url     string  // the gateway's public one
	all     *Remote // asks for operators of all tenants
	tenants *Remote // asks for a tenant's, who are not to learn what is in the gateway's network
}

// NewDigests asks the gateway's own registry for what is at its public URL.
func NewDigests(own *artifact.Registry, url string) Digests {
	return Digests{own, url, NewRemote(RemoteConfig{Control: post.Guard(false)}),
		NewRemote(RemoteConfig{Control: post.GuardPublic(), Direct: true})}
}

// Find returns the digest of an image. Of another registry it trusts only the digest of the bytes that it sent, and the nodes check that
// again. ofTenant is true if the caller belongs to one tenant. login lends USER:PASSWORD for the registry, once the registry wants it; nil:
// there is none.
func (d Digests) Find(ctx context.Context, image wire.Image, ofTenant bool, login func(context.Context) (string, error)) (string, error) {
	if here, err := url.Parse(d.url); err == nil && here.Host == image.Host {
		m, err := d.own.Manifest(ctx, image.Path, image.Tag)
		var no *artifact.Error
		if errors.As(err, &no) {
			return "", wire.Refuse(wire.CodeTaskParamsInvalid, "this gateway's registry has no "+image.String()+": "+no.Message,
				"push it there first, or name another tag: muster help registry")
		}
		return m.Digest, err
	}
	remote := d.all
	if ofTenant {
		remote = d.tenants
	}
	digest, err := elsewhere(ctx, remote, image, "")
	if WantsCredential(err) && login != nil {
		var lent string
		if lent, err = login(ctx); err != nil {
			return "", err
		}
		digest, err = elsewhere(ctx, remote, image, lent)
	}
	var no *wire.ErrorDetail
	if errors.As(err, &no) && no.Code != wire.CodeUnavailable {
		return "", wire.Refuse(wire.CodeTaskParamsInvalid, "the digest of "+image.String()+" is not known: "+no.Message,
			"check the name and the tag; registry_secret=NAME logs in; or give the digest yourself, as image="+image.Host+"/"+image.Path+
				"@sha256:DIGEST")
	}
	return digest, err
}

// elsewhere asks the registry of an image. Docker's own has another host than stands in the names of its images.
func elsewhere(ctx context.Context, remote *Remote, image wire.Image, login string) (string, error) {
	host := image.Host
	credential := Credential{}
	if host == "docker.io" || host == "index.docker.io" {
		host = "registry-1.docker.io"
		credential.Realm = "auth.docker.io"
	}
	if login != "" {
		credential.Host = host
		credential.Name = "of the task"
		credential.Username, credential.Password, _ = strings.Cut(login, ":")
	}
	repository, err := remote.Repository(host+"/"+image.Path, credential)
	if err != nil {
		return "", err
	}
	return repository.Tag(ctx, image.Tag)
}
