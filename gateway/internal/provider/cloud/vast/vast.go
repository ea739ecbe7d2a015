// Package vast speaks to vast.ai. Its list of instances has API v1, all else v0.
//
// A row of vast.ai has secrets: what a machine runs at its start, its environment, tokens. They are not asked for, and not read.
package vast

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
)

// Classes of calls. vast.ai has a least time between calls for each; a tenth of a second more is for the way.
const (
	listing    = "list"
	showing    = "show"
	managing   = "manage"
	destroying = "destroy"
	creating   = "create"
	searching  = "search"
)

// perPage is how many rows vast.ai gives at most.
const perPage = 25

// Cloud is one account with vast.ai. It is safe for concurrent use.
type Cloud struct{ calls *call.Client }

// New makes a Cloud. It sends nothing.
func New(a call.Account) (*Cloud, error) {
	calls, err := call.New(a, call.Rules{URL: "https://console.vast.ai", Judge: judge, Every: map[string]time.Duration{
		listing:    1100 * time.Millisecond,
		showing:    2100 * time.Millisecond,
		managing:   1100 * time.Millisecond,
		destroying: 3100 * time.Millisecond,
		creating:   4600 * time.Millisecond,
		searching:  6100 * time.Millisecond,
	}})
	if err != nil {
		return nil, err
	}
	return &Cloud{calls}, nil
}

// verdict is what vast.ai says of a call, beside what was asked for. Any part may be missing.
type verdict struct {
	Success  *bool `json:"success"`
	Error    word  `json:"error"`
	Msg      word  `json:"msg"`
	Message  word  `json:"message"`
	Contract word  `json:"new_contract"` // an instance that was made, even where success is false
}

// words are those by which vast.ai says what is wrong. They stand in error or in msg, and the status is not always the one to expect: a
// key that is not taken is a 404 too.
var words = []struct{ word, kind string }{
	{"auth_error", cloud.KeyRefused},
	{"invalid user key", cloud.KeyRefused},
	{"no_such_instance", cloud.NoSuch},
	{"instance not found", cloud.NoSuch},
	{"no_such_ask", cloud.NoOffer},
	{"too frequent", cloud.Limited},
	{"deprecated_endpoint", cloud.Refused},
	{"invalid_args", cloud.Refused}, // with 403 too, which is then not of the key
}

// kind is what a verdict says; empty: it has no word that is known.
func (v *verdict) kind() string {
	text := strings.ToLower(v.text())
	for _, w := range words {
		if strings.Contains(text, w.word) {
			return w.kind
		}
	}
	return ""
}

// text is what vast.ai says, on one line.
func (v *verdict) text() string {
	return strings.Join(strings.Fields(string(v.Error+" "+v.Msg+" "+v.Message)), " ")
}

// judge reads a verdict that came with a failure.
func judge(_ int, body []byte) (kind, text string) {
	var v verdict
	if json.Unmarshal(body, &v) != nil {
		return "", ""
	}
	return v.kind(), v.text()
}

// judged is nil for a success. Without the word success, nobody knows.
func (c *Cloud) judged(v *verdict) *cloud.Error {
	switch {
	case v.Success != nil && *v.Success:
		return nil
	case v.kind() != "":
		return c.calls.Fail(v.kind(), http.StatusOK, v.text())
	case v.Success != nil:
		return c.calls.Fail(cloud.Refused, http.StatusOK, "vast.ai says no: "+v.text())
	}
	return c.calls.Fail(cloud.Unclear, http.StatusOK, "vast.ai does not say whether it did it")
}

// act is a call that is answered with a verdict alone.
func (c *Cloud) act(ctx context.Context, r call.Request) error {
	var v verdict
	if err := c.calls.Do(ctx, r, func(answer io.Reader) error { return call.One(answer, &v) }); err != nil {
		return err
	}
	if e := c.judged(&v); e != nil {
		return e
	}
	return nil
}

// instance is the path of an instance. An id that is none of vast.ai's is not sent.
func (c *Cloud) instance(below, id string) (string, error) {
	n, ok := idOf(id)
	if !ok {
		return "", c.calls.Fail(cloud.Refused, 0, "an instance of vast.ai has a number as its id")
	}
	return "/api/v0/instances/" + below + strconv.FormatInt(n, 10) + "/", nil
}

// List reads page after page, by ids that rise. The pages must have as many rows as vast.ai says that there are. Rows that are destroyed
// while it reads make the number fall: then it must be between the last and the highest that was said.
func (c *Cloud) List(ctx context.Context, take func([]cloud.Instance)) error {
	var seen, most int
	for last := (page{}); ; {
		p, err := c.page(ctx, last)
		if err != nil {
			return err
		}
		take(p.rows)
		seen, most, last = seen+len(p.rows), max(most, p.total), p
		if p.next != "" {
			continue
		}
		if seen < p.total || seen > most {
			return c.calls.Fail(cloud.Unclear, http.StatusOK, "vast.ai gave "+strconv.Itoa(seen)+" instances, and says that there are "+
				strconv.Itoa(p.total))
		}
		return nil
	}
}

// page asks for the page after another.
func (c *Cloud) page(ctx context.Context, last page) (p page, err error) {
	query := url.Values{"limit": {strconv.Itoa(perPage)}, "order_by": {`[{"col":"id","dir":"asc"}]`}, "select_cols": {columns}}
	if last.next != "" {
		query.Set("after_token", last.next)
	}
	r := call.Request{Method: http.MethodGet, Path: "/api/v1/instances/", Query: query, Class: listing}
	err = c.calls.Do(ctx, r, func(answer io.Reader) error {
		p, err = readPage(answer, last.highest)
		var no *refusal
		if errors.As(err, &no) {
			return c.judged(&no.verdict)
		}
		return err
	})
	return p, err
}

// Get returns one instance. After its end, vast.ai says null, or that there is no such instance.
func (c *Cloud) Get(ctx context.Context, id string) (cloud.Instance, error) {
	path, err := c.instance("", id)
	if err != nil {
		return cloud.Instance{}, err
	}
	var one *cloud.Instance
	r := call.Request{Method: http.MethodGet, Path: path, Query: url.Values{"owner": {"me"}}, Class: showing}
	err = c.calls.Do(ctx, r, func(answer io.Reader) error {
		one, err = readOne(answer, id)
		var no *refusal
		if errors.As(err, &no) {
			return c.judged(&no.verdict)
		}
		return err
	})
	switch {
	case err != nil:
		return cloud.Instance{}, err
	case one == nil:
		return cloud.Instance{}, c.calls.Fail(cloud.NoSuch, http.StatusOK, "vast.ai has no such instance")
	}
	return *one, nil
}

// Start starts a stopped instance. It waits for the GPUs that it had.
func (c *Cloud) Start(ctx context.Context, id string) error { return c.set(ctx, id, "running") }

// Stop stops an instance. Its disk is kept and charged.
func (c *Cloud) Stop(ctx context.Context, id string) error { return c.set(ctx, id, "stopped") }

func (c *Cloud) set(ctx context.Context, id, state string) error {
	path, err := c.instance("", id)
	if err != nil {
		return err
	}
	return c.act(ctx, call.Request{Method: http.MethodPut, Path: path, Body: map[string]string{"state": state}, Class: managing})
}

// Destroy asks vast.ai to end an instance.
func (c *Cloud) Destroy(ctx context.Context, id string) error {
	path, err := c.instance("", id)
	if err != nil {
		return err
	}
	err = c.act(ctx, call.Request{Method: http.MethodDelete, Path: path, Body: struct{}{}, Class: destroying})
	var e *cloud.Error
	if errors.As(err, &e) && e.Kind == cloud.NoSuch {
		return nil
	}
	return err
}

// Rejoin has vast.ai make an instance's container again, on the same machine, with another script at its start. What it had on its disk
// is lost.
func (c *Cloud) Rejoin(ctx context.Context, id, script string) error {
	path, err := c.instance("update_template/", id)
	if err != nil {
		return err
	}
	if len(script) > longestScript {
		return c.calls.Fail(cloud.Refused, 0, scriptTooLong)
	}
	n, _ := idOf(id)
	body := map[string]any{"id": n, "onstart": script}
	return c.act(ctx, call.Request{Method: http.MethodPut, Path: path, Body: body, Class: managing})
}
