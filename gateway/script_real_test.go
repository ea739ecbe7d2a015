//go:build real

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
)

// answerTime is how long a script waits for one gateway.
const answerTime = 5 * time.Second

// script is an operator's script: it asks the admin API of several gateways, one after the other until one of them answers.
type script struct {
	t    *testing.T
	http *http.Client
	each []*client.Client // one for each gateway

	lost func() // is told of each request that has no answer; nil: nobody is
}

func newScript(t *testing.T, token string, gateways ...*member) *script {
	s := &script{t: t, http: &http.Client{Timeout: answerTime, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the test is about which gateway answers
	}}}
	t.Cleanup(s.http.CloseIdleConnections)
	for _, m := range gateways {
		s.each = append(s.each, &client.Client{BaseURL: m.url, Token: token, HTTP: s.http})
	}
	return s
}

// refusal is what a gateway says, if it answered at all. That the store does not answer it is no refusal.
func refusal(err error) *wire.ErrorDetail {
	var said *wire.ErrorDetail
	if errors.As(err, &said) && said.Code != wire.CodeUnavailable && said.Code != wire.CodeInternal {
		return said
	}
	return nil
}

// try asks one gateway once.
func try[T any](s *script, gateway int, ask func(ctx context.Context, c *client.Client) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	out, err := ask(ctx, s.each[gateway%len(s.each)])
	if err != nil && refusal(err) == nil && s.lost != nil {
		s.lost()
	}
	return out, err
}

// insist asks until a gateway answers, first the one of a number. Who asks so does not mind that a request is done twice.
func insist[T any](s *script, gateway int, ask func(ctx context.Context, c *client.Client) (T, error)) (T, error) {
	for end := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		out, err := try(s, gateway, ask)
		if err == nil || refusal(err) != nil || time.Now().After(end) {
			return out, err
		}
		gateway++
	}
}

// read is insist for what a path gives.
func read[T any](s *script, path string, filter any) T {
	s.t.Helper()
	out, err := insist(s, 0, func(ctx context.Context, c *client.Client) (T, error) { return client.Get[T](ctx, c, path, filter) })
	if err != nil {
		s.t.Errorf("%s: %v", path, err)
	}
	return out
}

// nodes are all that the gateways know, by their names.
func (s *script) nodes() map[string][]api.Node {
	s.t.Helper()
	all := map[string][]api.Node{}
	for filter := (api.NodeFilter{All: true, Limit: 1000}); ; {
		page := read[api.NodePage](s, api.PathNodes, filter)
		for _, n := range page.Nodes {
			all[n.Name] = append(all[n.Name], n)
		}
		if filter.Cursor = page.Next; filter.Cursor == "" {
			return all
		}
	}
}

// events are all of a kind.
func (s *script) events(kind string) (all []api.Event) {
	s.t.Helper()
	for after := int64(0); ; {
		page := read[api.EventList](s, api.PathEvents, api.EventFilter{Kind: kind, After: &after, Limit: 1000})
		if len(page.Events) == 0 {
			return all
		}
		all = slices.Concat(all, page.Events)
		after = page.Events[len(page.Events)-1].ID
	}
}
