package runpod

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"

	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
)

const (
	usualImage = "runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404"
	usualDisk  = 50 // GB
)

// RunPod has no start script: a container has a command. The script is in the environment, and not in the command, since every process of
// the machine may read the arguments of another. The command takes the script out of the environment before it starts anything, so that
// neither the script's children nor the image's own start have it. /start.sh is the start of RunPod's own images: it starts sshd. A command
// that ends is started again, hence the sleep.
//
// RunPod splits the command as a shell does, and hands the words to the image's entrypoint, if it has one, which must run them.
const (
	scriptIn = "MUSTER_START"
	command  = `/bin/sh -c 's=$MUSTER_START; unset MUSTER_START; (eval "$s") & [ ! -x /start.sh ] || exec /start.sh; exec sleep infinity'`
)

// order is the body that makes a pod.
type order struct {
	Name        string            `json:"name"`
	Image       string            `json:"image"`
	Args        string            `json:"args"`
	Env         map[string]string `json:"env"`
	Disk        int               `json:"disk"`
	Ports       []string          `json:"ports"`
	StartSSH    bool              `json:"startSsh"` // for the account's keys
	Cloud       string            `json:"cloud"`
	DataCenters []string          `json:"dataCenterIds,omitempty"`
	GPU         gpu               `json:"gpu"`
}

type gpu struct {
	ID    string `json:"id"`
	Count int    `json:"count"`
}

// Create makes a pod.
func (c *Cloud) Create(ctx context.Context, o cloud.Order) (string, error) {
	body, err := offered(o.Offer.ID)
	if err != nil {
		return "", c.calls.Fail(cloud.Refused, 0, err.Error())
	}
	body.Name, body.Image, body.Disk = o.Name, cmp.Or(o.Image, usualImage), diskOf(o.DiskGB)
	body.Args, body.Env, body.Ports, body.StartSSH = command, map[string]string{scriptIn: o.Script}, []string{"22/tcp"}, true
	r := call.Request{Method: http.MethodPost, Path: "/pods", Body: body}
	made, err := call.Ask(ctx, c.calls, r, readPod)
	if err != nil {
		return "", elsewhere(err)
	}
	return made.ID, nil
}

func diskOf(gb int) int {
	if gb > 0 {
		return gb
	}
	return usualDisk
}

// elsewhere says that another offer may do. RunPod answers 400 when there is no room, and 403 for hardware that an account must not use.
func elsewhere(err error) error {
	var failed *cloud.Error
	if !errors.As(err, &failed) || failed.Kind == cloud.Unclear {
		return err
	}
	switch failed.Status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound:
		failed.Kind = cloud.NoOffer
	}
	return err
}

// Rejoin starts a pod again with another script. It refuses pods without muster's command: they do what their owner wants.
func (c *Cloud) Rejoin(ctx context.Context, id, script string) error {
	now, err := c.start(ctx, id)
	switch {
	case err != nil:
		return err
	case now.Args != command:
		return c.calls.Fail(cloud.Refused, 0, "the pod has a command of its own, which takes no start script")
	}
	env := maps.Clone(now.Env) // a new one replaces it whole
	if env == nil {
		env = map[string]string{}
	}
	env[scriptIn] = script
	err = c.do(ctx, http.MethodPatch, id, "", map[string]any{"env": env}, nil)
	var failed *cloud.Error
	if errors.As(err, &failed) && failed.Kind == cloud.Unclear { // the pod says whether it was done all the same
		if now, look := c.start(ctx, id); look == nil && now.Env[scriptIn] == script {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	return c.act(ctx, id, "restart", cloud.Starting)
}

// startOf is what a pod does at its start.
type startOf struct {
	ID   string            `json:"id"`
	Args string            `json:"args"`
	Env  map[string]string `json:"env"`
}

func (c *Cloud) start(ctx context.Context, id string) (now startOf, err error) {
	err = c.do(ctx, http.MethodGet, id, "", nil, func(answer io.Reader) error { return call.One(answer, &now) })
	if err == nil && now.ID != id {
		err = c.calls.Fail(cloud.Unclear, http.StatusOK, "the answer is about another pod")
	}
	return now, err
}
