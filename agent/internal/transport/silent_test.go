package transport_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/transport"
)

// TestSilence: the error says who has not answered, because each case has another next step.
func TestSilence(t *testing.T) {
	nowhere, cancel := context.WithCancel(t.Context())
	cancel()
	resolver := &net.Resolver{PreferGo: true}
	_, _ = resolver.LookupHost(nowhere, "gateway.test") // it keeps a channel, which must not be of synthetic time
	quiet := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, test := range map[string]struct {
		gateway string
		dial    func(ctx context.Context, network, address string) (net.Conn, error)
		dns     bool
		want    string
	}{
		"the name": {"http://gateway.test", (&net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: quiet}}).DialContext, true,
			"no DNS server has answered"},
		"the machine": {"http://gateway.test", quiet, false, "no answer within"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := transport.New(transport.Config{Gateway: test.gateway, Dial: test.dial, Timeout: 5 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				_, err = client.Look(t.Context())
				var lookup *net.DNSError
				if err == nil || !strings.Contains(err.Error(), test.want) || errors.As(err, &lookup) != test.dns ||
					!errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}
