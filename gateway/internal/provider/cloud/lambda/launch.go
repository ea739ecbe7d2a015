package lambda

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
)

const longestScript = 1 << 20 // bytes

// order is the body that launches an instance.
type order struct {
	Region string   `json:"region_name"`
	Type   string   `json:"instance_type_name"`
	Keys   []string `json:"ssh_key_names"` // exactly one
	Name   string   `json:"name"`
	Tags   []tag    `json:"tags"`
	Script string   `json:"user_data"` // cloud-init runs a text with #! as root, once
}

// Offers returns the types of instances for which a region has room. Each can be rented more than once, as long as there is room.
func (c *Cloud) Offers(ctx context.Context, w cloud.Want) ([]cloud.Offer, error) {
	r := call.Request{Method: http.MethodGet, Path: "/instance-types"}
	all, err := call.Ask(ctx, c.calls, r, func(answer io.Reader) ([]cloud.Offer, error) { return readOffers(answer, w) })
	cloud.Cheapest(all)
	return all, err
}

// readOffers reads the types, and gives what is wanted. A type has its disk, whatever is asked for.
func readOffers(answer io.Reader, w cloud.Want) ([]cloud.Offer, error) {
	var types struct {
		Data map[string]struct {
			Type    kind     `json:"instance_type"`
			Regions []region `json:"regions_with_capacity_available"`
		} `json:"data"`
	}
	if err := call.One(answer, &types); err != nil {
		return nil, err
	}
	if types.Data == nil {
		return nil, errors.New("it has no data")
	}
	wanted := []cloud.Offer{}
	for name, t := range types.Data {
		price := t.Type.price()
		if price == nil || name != t.Type.Name || !cloud.ValidID(name) || t.Type.Specs.GPUs < 1 {
			continue
		}
		for _, at := range t.Regions {
			o := cloud.Offer{
				ID: name + "/" + at.Name, Region: at.Name, GPU: cloud.Words(t.Type.GPU), GPUs: t.Type.Specs.GPUs, GPUMiB: t.Type.mib(),
				Price: *price,
			}
			if cloud.ValidID(at.Name) && w.Takes(o, name) {
				wanted = append(wanted, o)
			}
		}
	}
	return wanted, nil
}

// Create launches an instance.
func (c *Cloud) Create(ctx context.Context, o cloud.Order) (string, error) {
	body, err := c.order(o)
	if err != nil {
		return "", c.calls.Fail(cloud.Refused, 0, err.Error())
	}
	r := call.Request{Method: http.MethodPost, Path: "/instance-operations/launch", Body: body, Class: launching}
	ids, err := call.Ask(ctx, c.calls, r, readLaunched)
	if err != nil {
		return "", notOne(err)
	}
	return ids[0], nil
}

// order checks an order before it is sent.
func (c *Cloud) order(o cloud.Order) (order, error) {
	kind, at, ok := strings.Cut(o.Offer.ID, "/")
	switch {
	case !ok || !cloud.ValidID(kind) || !cloud.ValidID(at):
		return order{}, errors.New("that is no offer of Lambda Cloud: one is TYPE/REGION")
	case o.SSHKey == "":
		return order{}, errors.New("the account has no ssh key: Lambda Cloud launches nothing without the name of one that it has")
	case o.Name == "" || len(o.Name) > longestName:
		return order{}, errors.New("a name at Lambda Cloud has 1 to 64 characters")
	case !strings.HasPrefix(o.Script, "#!") || len(o.Script) > longestScript:
		return order{}, errors.New("a script for cloud-init begins with #! and has at most 1 MiB")
	}
	return order{
		Region: at, Type: kind, Keys: []string{o.SSHKey}, Name: o.Name, Script: o.Script, Tags: []tag{
			{rentalTag, strings.TrimPrefix(o.Name, "muster-")}, {launchedTag, c.now().UTC().Format(time.RFC3339)},
		},
	}, nil
}

// notOne says that what a launch names is not there, such as the key. It is not about an instance.
func notOne(err error) error {
	var failed *cloud.Error
	if errors.As(err, &failed) && failed.Kind == cloud.NoSuch {
		failed.Kind = cloud.Refused
	}
	return err
}

// readLaunched reads the ids of what was launched, which is one instance. Where there are more, the first is named, so that somebody ends
// it; the others have the same name.
func readLaunched(answer io.Reader) ([]string, error) {
	var got struct {
		Data struct {
			IDs []string `json:"instance_ids"`
		} `json:"data"`
	}
	if err := call.One(answer, &got); err != nil {
		return nil, err
	}
	ids := got.Data.IDs
	if len(ids) == 0 || !cloud.ValidID(ids[0]) {
		return nil, errors.New("it has no instance's id")
	}
	if len(ids) > 1 {
		return nil, &cloud.Error{Kind: cloud.Unclear, Status: http.StatusOK, Text: "it launched more than one instance", Instance: ids[0]}
	}
	return ids, nil
}
