package transport_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// TestAnEdgeTakesThePlaceOfTheGateway puts something with a publicly trusted certificate where the gateway's own TLS was.
func TestAnEdgeTakesThePlaceOfTheGateway(t *testing.T) {
	revoked := gatewaytest.Reply{Status: 403, Body: gatewaytest.Refusal(403, wire.CodeRevoked).Body, Unproven: true}
	t.Run("a call", func(t *testing.T) {
		behindEdge(t, revoked, func(client *transport.Client) error { _, err := call(client); return err })
	})
	t.Run("a download", func(t *testing.T) {
		b := &blob{content: noise(1000)}
		var got bytes.Buffer
		behindEdge(t, gatewaytest.Reply{Status: 200, Body: b.content, Unproven: true}, func(client *transport.Client) error {
			return fetch(client, &transport.Download{To: &got, Digest: b.digest()})
		})
		if got.Len() > 0 {
			t.Errorf("%d bytes of an edge were kept", got.Len())
		}
	})
}

// behindEdge asks for something when an edge has taken the gateway's place, and answers so.
func behindEdge(t *testing.T, reply gatewaytest.Reply, ask func(*transport.Client) error) {
	g := gatewaytest.New(t)
	edge := gatewaytest.New(t)
	public := gatewaytest.NewCA(t, time.Now())
	certificate := public.Server(t, time.Now().AddDate(0, 0, -1), time.Now().AddDate(0, 0, 1), gatewaytest.Host)
	edge.Script = func(gatewaytest.Request) *gatewaytest.Reply { return new(reply) }
	networks := []*gatewaytest.Pipe{gatewaytest.ServePipe(t, g, g.Serving(t)), gatewaytest.ServePipe(t, edge, &certificate)}
	now := 0
	client, err := transport.New(transport.Config{
		Gateway: "https://" + gatewaytest.Host, SystemRoots: public.Pool(),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return networks[now].Dial(ctx, network, address)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	client.Use(g.Identity(t))
	for range 2 {
		if _, err := call(client); err != nil {
			t.Fatal(err)
		}
	}
	if client.Mode() != "mtls" {
		t.Fatalf("mode %s", client.Mode())
	}
	now = 1
	client.Close()
	err = ask(client)
	var unproven *transport.Unproven
	if !errors.As(err, &unproven) {
		t.Errorf("error %v: an edge was believed", err)
	}
	got := edge.Requests("")
	if len(got) != 2 || got[1].Signature == nil || got[0].Peer != nil || client.Mode() != "signed" {
		t.Errorf("%d requests reached the edge, mode %s", len(got), client.Mode())
	}
}
