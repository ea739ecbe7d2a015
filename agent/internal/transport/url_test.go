package transport_test

import (
	"net/http"
	"strings"
	"testing"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
)

func TestURLs(t *testing.T) {
	for text, good := range map[string]bool{
		"https://gw.test:7443": true, "http://127.0.0.1:80/": true, "https://[::1]:7443": true,
		"": false, "gw.test:7443": false, "ftp://gw.test": false, "https://": false, "https://user:secret@gw.test": false,
		"https://gw.test/prefix": false, "https://gw.test?x=1": false, "://": false,
	} {
		client, err := transport.New(transport.Config{Gateway: text})
		if (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q repeats a secret", err)
		}
		if good && strings.HasSuffix(client.Gateway(), "/") {
			t.Errorf("%q keeps its slash", client.Gateway())
		}
	}
}

func TestTLSOnAPlainPort(t *testing.T) {
	g := gatewaytest.New(t)
	url := gatewaytest.Listen(t, http.Handler(g), nil)
	client, err := transport.New(transport.Config{Gateway: strings.Replace(url, "http:", "https:", 1)})
	if err != nil {
		t.Fatal(err)
	}
	client.Use(g.Identity(t))
	if _, err := call(client); err == nil || !strings.Contains(err.Error(), "use http://") {
		t.Errorf("error %v", err)
	}
}

func TestNoTLSOnATLSPort(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"whole": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Client sent an HTTP request to an HTTPS server.", http.StatusBadRequest)
		},
		"broken off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusBadRequest)
		},
	} {
		client, err := transport.New(transport.Config{Gateway: gatewaytest.Listen(t, answer, nil)})
		if err != nil {
			t.Fatal(err)
		}
		client.Use(gatewaytest.New(t).Identity(t))
		if _, err := call(client); err == nil || !strings.Contains(err.Error(), "give --gateway with https://") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
