// Package runpod speaks to RunPod, by its REST API v2.
//
// What it lists has no pages. The members of clusters are in it: they are charged too. It does not tell a pod's machine, nor the UUIDs of
// its GPUs.
package runpod

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
)

const (
	every       = time.Second // RunPod lets an account send 60 requests a minute
	longestList = 128 << 20   // bytes: 10,000 pods, each with an environment of 12 KiB
)

// Cloud is one account with RunPod. It is safe for concurrent use.
type Cloud struct{ calls *call.Client }

// New makes a Cloud. It sends nothing.
func New(a call.Account) (*Cloud, error) {
	calls, err := call.New(a, call.Rules{
		URL: "https://api.runpod.io/v2", Every: map[string]time.Duration{"": every}, Longest: longestList, Judge: judge,
	})
	if err != nil {
		return nil, err
	}
	return &Cloud{calls}, nil
}

// judge reads a problem of RFC 9457. Only one that says 404 or 403 itself is RunPod's word that something is not there, or that the key
// does not do: a proxy says 404 and 403 too.
func judge(status int, body []byte) (kind, text string) {
	var problem struct {
		Title  string   `json:"title"`
		Status int      `json:"status"`
		Detail string   `json:"detail"`
		Errors []string `json:"errors"`
	}
	if json.Unmarshal(body, &problem) != nil || problem.Status != status {
		return "", ""
	}
	switch status {
	case http.StatusNotFound:
		kind = cloud.NoSuch
	case http.StatusForbidden:
		kind = cloud.KeyRefused
	}
	text = problem.Detail
	if text == "" {
		text = problem.Title
	}
	return kind, strings.Join(append([]string{text}, problem.Errors...), "; ")
}

// List passes all pods to take at once.
func (c *Cloud) List(ctx context.Context, take func([]cloud.Instance)) error {
	r := call.Request{Method: http.MethodGet, Path: "/pods", Query: url.Values{"includeClusterPods": {"true"}}}
	all, err := call.Ask(ctx, c.calls, r, readPods)
	if err == nil {
		take(all)
	}
	return err
}

func readPods(answer io.Reader) ([]cloud.Instance, error) {
	return call.Instances(answer, "pods", pod.instance)
}

// readPod reads one pod.
func readPod(answer io.Reader) (cloud.Instance, error) {
	var p pod
	if err := call.One(answer, &p); err != nil {
		return cloud.Instance{}, err
	}
	return p.instance()
}

// Get returns one pod.
func (c *Cloud) Get(ctx context.Context, id string) (cloud.Instance, error) {
	var i cloud.Instance
	err := c.do(ctx, http.MethodGet, id, "", nil, func(answer io.Reader) (err error) {
		if i, err = readPod(answer); err == nil && i.ID != id {
			err = errors.New("it is another pod")
		}
		return err
	})
	if err != nil {
		return cloud.Instance{}, err
	}
	return i, nil
}

// do sends a request about one pod.
func (c *Cloud) do(ctx context.Context, method, id, below string, body any, read func(io.Reader) error) error {
	if !cloud.ValidID(id) {
		return c.calls.Fail(cloud.Refused, 0, "that is no id of a pod")
	}
	return c.calls.Do(ctx, call.Request{Method: method, Path: "/pods/" + id + below, Body: body}, read)
}

// Start starts a stopped pod. It keeps its host but not its GPUs: others may have them now.
func (c *Cloud) Start(ctx context.Context, id string) error {
	return c.act(ctx, id, "start", cloud.Starting, cloud.Running)
}

// Stop stops a pod.
func (c *Cloud) Stop(ctx context.Context, id string) error {
	return c.act(ctx, id, "stop", cloud.Stopped, cloud.Gone)
}

// act has a pod change its state. RunPod refuses (409) what does not fit the state it is in. That is no error where it is as it shall be.
func (c *Cloud) act(ctx context.Context, id, action string, done ...string) error {
	err := c.do(ctx, http.MethodPost, id, "/action", map[string]string{"action": action}, nil)
	var failed *cloud.Error
	if !errors.As(err, &failed) || failed.Status != http.StatusConflict {
		return err
	}
	now, look := c.Get(ctx, id)
	if look != nil {
		return look
	}
	if slices.Contains(done, now.State) {
		return nil
	}
	return err
}

// Destroy deletes a pod and its volume. The error is a Refused for a member of a cluster.
func (c *Cloud) Destroy(ctx context.Context, id string) error {
	err := c.do(ctx, http.MethodDelete, id, "", nil, nil)
	var failed *cloud.Error
	if errors.As(err, &failed) && failed.Kind == cloud.NoSuch {
		return nil
	}
	return err
}
