package task

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/store"
)

// Tag is the argument of Config.Digest.
type Tag struct {
	Image    wire.Image
	OfTenant bool // somebody of one tenant alone asks
	// Login lends USER:PASSWORD for the registry of the image, once the registry wants it; nil: there is none.
	Login func(context.Context) (string, error)
}

// pin writes into a launch the digest that its image's tag stands for now. The tag stays in front of it, for people. A tag may move while
// the task waits, and what the node runs is what was there when the task was given.
func (d *Service) pin(ctx context.Context, tenant string, node store.Node, o *order) error {
	launch, asked, err := unpinned(*o)
	if err != nil || launch == nil {
		return err
	}
	tag := Tag{Image: asked, OfTenant: tenant != ""}
	if launch.Login != "" {
		tag.Login = func(ctx context.Context) (string, error) { return d.login(ctx, launch.Login, asked.Host, node, *o) }
	}
	if d.Digest == nil {
		return byDigest(asked, "this gateway asks no registry")
	}
	if asked.Digest, err = d.Digest(ctx, tag); err != nil {
		return err
	}
	launch.Image = asked.String()
	if o.payload.Params, err = sign.Encode(launch); err != nil {
		return err
	}
	o.params = launch
	return launch.Check()
}

// login lends a secret to the gateway itself, to ask a registry with. Nothing is lent that is not on record.
func (d *Service) login(ctx context.Context, secret, host string, node store.Node, o order) (string, error) {
	value, err := d.Store.LentSecretValue(ctx, node.Tenant, secret)
	if errors.Is(err, store.ErrNotFound) {
		return "", noSecret(node.Tenant, secret)
	}
	if err != nil {
		return "", err
	}
	err = d.Store.AddEvents(ctx, store.Event{At: d.Now(), Kind: eventLent, Actor: o.by.Name, NodeID: node.ID, NodeName: node.Name,
		Tenant: node.Tenant, Address: o.by.Address, Outcome: store.OutcomeOK, Security: true,
		Detail: map[string]string{"task": o.payload.TaskID, "type": o.payload.Type, "secrets": secret, "host": host}})
	if err != nil {
		return "", err
	}
	return string(value), nil
}

// byDigest refuses a tag.
func byDigest(image wire.Image, why string) error {
	return wire.Refuse(wire.CodeTaskParamsInvalid, "the tag of "+image.String()+" is not known: "+why,
		"give the digest yourself: image="+image.Host+"/"+image.Path+"@sha256:DIGEST (docker buildx imagetools inspect shows it)")
}

// unpinned reads a launch whose image has a tag alone; nil: it is none, or its image is wrong in another way, which Check says.
func unpinned(o order) (*wire.WorkloadLaunch, wire.Image, error) {
	if o.payload.Type != wire.TaskWorkloadLaunch {
		return nil, wire.Image{}, nil
	}
	var launch wire.WorkloadLaunch
	if sign.DecodeStrict(o.payload.Params, &launch) != nil {
		return nil, wire.Image{}, nil // readParams says so
	}
	image, tagged := launch.Tagged()
	if !tagged {
		return nil, image, nil
	}
	if o.Signed != nil {
		return nil, image, byDigest(image, "a task that an operator signs says the digest itself, so that the gateway cannot choose the image")
	}
	return &launch, image, nil
}

// sameLaunch tells whether an earlier task is the one that is asked for again: its image has the digest that the tag had then.
func (o order) sameLaunch(earlier store.Task) bool {
	launch, asked, err := unpinned(o)
	var before wire.WorkloadLaunch
	if err != nil || launch == nil || json.Unmarshal(Params(earlier), &before) != nil {
		return false
	}
	image, ok := wire.ParseImage(before.Image)
	image.Digest = ""
	if !ok || image != asked {
		return false
	}
	launch.Image = before.Image
	return reflect.DeepEqual(*launch, before)
}
