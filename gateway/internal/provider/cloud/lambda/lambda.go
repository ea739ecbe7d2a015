// Package lambda speaks to Lambda Cloud, by its API v1.
//
// What it lists has no pages. An instance cannot be stopped: it is charged until it is terminated.
package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
)

const (
	launching   = "launch" // a class of calls
	longestList = 64 << 20 // bytes: 20,000 instances
)

// Cloud is one account with Lambda Cloud. It is safe for concurrent use.
type Cloud struct {
	calls *call.Client
	now   func() time.Time
}

// New makes a Cloud. It sends nothing.
func New(a call.Account) (*Cloud, error) {
	if a.Now == nil {
		a.Now = time.Now
	}
	calls, err := call.New(a, call.Rules{
		URL: "https://cloud.lambda.ai/api/v1", Every: map[string]time.Duration{"": time.Second, launching: 12 * time.Second},
		Longest: longestList, Judge: judge,
	})
	if err != nil {
		return nil, err
	}
	return &Cloud{calls, a.Now}, nil
}

// kinds are what Lambda's error codes mean. Those that are missing mean what their status says.
var kinds = map[string]string{
	"global/invalid-api-key":                           cloud.KeyRefused,
	"global/account-inactive":                          cloud.Refused,
	"global/forbidden":                                 cloud.Refused,
	"global/invalid-address":                           cloud.Refused,
	"global/object-does-not-exist":                     cloud.NoSuch,
	"global/quota-exceeded":                            cloud.Refused,
	"global/internal-error":                            cloud.Unclear,
	"instance-operations/launch/insufficient-capacity": cloud.NoOffer,
}

// judge reads an error. Codes that begin with provider/ come from behind Lambda.
func judge(_ int, body []byte) (kind, text string) {
	var answer struct {
		Error struct {
			Code       string `json:"code"`
			Message    string `json:"message"`
			Suggestion string `json:"suggestion"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Error.Code == "" {
		return "", ""
	}
	e := answer.Error
	kind = kinds[e.Code]
	if strings.HasPrefix(e.Code, "provider/") {
		kind = cloud.Unclear
	}
	return kind, strings.TrimSpace(e.Code + ": " + e.Message + " " + e.Suggestion)
}

// List passes all instances to take at once.
func (c *Cloud) List(ctx context.Context, take func([]cloud.Instance)) error {
	all, err := call.Ask(ctx, c.calls, call.Request{Method: http.MethodGet, Path: "/instances"}, readInstances)
	if err == nil {
		take(all)
	}
	return err
}

func readInstances(answer io.Reader) ([]cloud.Instance, error) {
	return call.Instances(answer, "data", instance.seen)
}

// readInstance reads one instance.
func readInstance(answer io.Reader) (cloud.Instance, error) {
	var one struct {
		Data instance `json:"data"`
	}
	if err := call.One(answer, &one); err != nil {
		return cloud.Instance{}, err
	}
	return one.Data.seen()
}

// Get returns one instance.
func (c *Cloud) Get(ctx context.Context, id string) (cloud.Instance, error) {
	if err := c.check(id); err != nil {
		return cloud.Instance{}, err
	}
	r := call.Request{Method: http.MethodGet, Path: "/instances/" + id}
	return call.Ask(ctx, c.calls, r, func(answer io.Reader) (cloud.Instance, error) {
		i, err := readInstance(answer)
		if err == nil && i.ID != id {
			err = errors.New("it is another instance")
		}
		return i, err
	})
}

func (c *Cloud) check(id string) error {
	if !cloud.ValidID(id) {
		return c.calls.Fail(cloud.Refused, 0, "that is no id of an instance")
	}
	return nil
}

// Start returns a Refused: no instance is ever stopped.
func (c *Cloud) Start(context.Context, string) error {
	return c.calls.Fail(cloud.Refused, 0, "Lambda Cloud cannot start an instance: none is ever stopped")
}

// Stop returns a Refused: Lambda Cloud charges an instance until it is terminated.
func (c *Cloud) Stop(context.Context, string) error {
	return c.calls.Fail(cloud.Refused, 0, "Lambda Cloud cannot stop an instance: it can only be destroyed")
}

// Rejoin returns a Refused: an instance runs its script once.
func (c *Cloud) Rejoin(context.Context, string, string) error {
	return c.calls.Fail(cloud.Refused, 0, "Lambda Cloud runs a start script only once: join the machine again over ssh")
}

// Destroy terminates an instance. Lambda answers with the instances that it terminates: a success without this one counts as a failure. It
// refuses an instance that is being terminated already; then only the instance itself tells how it is.
func (c *Cloud) Destroy(ctx context.Context, id string) error {
	if err := c.check(id); err != nil {
		return err
	}
	r := call.Request{Method: http.MethodPost, Path: "/instance-operations/terminate", Body: map[string][]string{"instance_ids": {id}}}
	ended, err := call.Ask(ctx, c.calls, r, readEnded)
	if err == nil && !slices.ContainsFunc(ended, func(i cloud.Instance) bool { return i.ID == id }) {
		err = c.calls.Fail(cloud.Unclear, http.StatusOK, "Lambda Cloud does not say that it terminates the instance")
	}
	var failed *cloud.Error
	if !errors.As(err, &failed) || failed.Kind == cloud.KeyRefused || failed.Kind == cloud.Limited || failed.Kind == cloud.Unreached {
		return err
	}
	now, look := c.Get(ctx, id)
	var absent *cloud.Error
	if look == nil && (now.State == cloud.Ending || now.State == cloud.Gone) || errors.As(look, &absent) && absent.Kind == cloud.NoSuch {
		return nil
	}
	return err
}

// readEnded reads the instances that are terminated.
func readEnded(answer io.Reader) (ended []cloud.Instance, err error) {
	var got struct {
		Data struct {
			Ended []instance `json:"terminated_instances"`
		} `json:"data"`
	}
	if err := call.One(answer, &got); err != nil {
		return nil, err
	}
	for _, i := range got.Data.Ended {
		s, err := i.seen()
		if err != nil {
			return nil, err
		}
		ended = append(ended, s)
	}
	return ended, nil
}
