package main

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/httpserver/post"
	"muster/gateway/internal/release/build"
	"muster/gateway/internal/task"
)

// tags finds the digests that tags of images stand for now: in the gateway's own registry, or in another one by its API.
type tags struct {
	own     *artifact.Registry
	url     string        // the gateway's public one
	all     *build.Remote // asks for operators of all tenants
	tenants *build.Remote // asks for a tenant's, who are not to learn what is in the gateway's network
}

func newTags(own *artifact.Registry, url string) tags {
	return tags{own, url, build.NewRemote(build.RemoteConfig{Control: post.Guard(false)}),
		build.NewRemote(build.RemoteConfig{Control: post.GuardPublic(), Direct: true})}
}

// digest is what task.Config asks for. Nothing that another registry says is trusted but the digest of what it gave, and the nodes check
// that again.
func (t tags) digest(ctx context.Context, tag task.Tag) (string, error) {
	if here, err := url.Parse(t.url); err == nil && here.Host == tag.Image.Host {
		m, err := t.own.Manifest(ctx, tag.Image.Path, tag.Image.Tag)
		var no *artifact.Error
		if errors.As(err, &no) {
			return "", wire.Refuse(wire.CodeTaskParamsInvalid, "this gateway's registry has no "+tag.Image.String()+": "+no.Message,
				"push it there first, or name another tag: muster help registry")
		}
		return m.Digest, err
	}
	digest, err := t.elsewhere(ctx, tag, "")
	if build.WantsCredential(err) && tag.Login != nil {
		var login string
		if login, err = tag.Login(ctx); err != nil {
			return "", err
		}
		digest, err = t.elsewhere(ctx, tag, login)
	}
	var no *wire.ErrorDetail
	if errors.As(err, &no) && no.Code != wire.CodeUnavailable {
		return "", wire.Refuse(wire.CodeTaskParamsInvalid, "the digest of "+tag.Image.String()+" is not known: "+no.Message,
			"check the name and the tag; registry_secret=NAME logs in; or give the digest yourself, as image="+tag.Image.Host+"/"+
				tag.Image.Path+"@sha256:DIGEST")
	}
	return digest, err
}

// elsewhere asks the registry of an image. Docker's own has another host than stands in the names of its images.
func (t tags) elsewhere(ctx context.Context, tag task.Tag, login string) (string, error) {
	host := tag.Image.Host
	credential := build.Credential{}
	if host == "docker.io" || host == "index.docker.io" {
		host = "registry-1.docker.io"
		credential.Realm = "auth.docker.io"
	}
	if login != "" {
		credential.Host = host
		credential.Name = "of the task"
		credential.Username, credential.Password, _ = strings.Cut(login, ":")
	}
	remote := t.all
	if tag.OfTenant {
		remote = t.tenants
	}
	repository, err := remote.Repository(host+"/"+tag.Image.Path, credential)
	if err != nil {
		return "", err
	}
	return repository.Tag(ctx, tag.Image.Tag)
}
