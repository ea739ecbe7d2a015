package maas_test

import (
	"bytes"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas"
)

// TestRegion: a MAAS whose certificate is of a CA of one's own is believed with that CA, and without it the error says what is missing.
func TestRegion(t *testing.T) {
	t.Parallel()
	sim := maassim.New(maassim.Config{})
	server := httptest.NewUnstartedServer(sim)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that the client ends
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	key := write("key", sim.Key()+"\n")
	root := write("root", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	var said bytes.Buffer
	region := func(s maas.Settings) (version string, err error) {
		c, err := s.Region(slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil {
			return "", err
		}
		defer c.Close()
		return c.Version(t.Context())
	}
	if version, err := region(maas.Settings{URL: server.URL, KeyFile: key, CAFile: root}); err != nil || version == "" || said.Len() > 0 {
		t.Errorf("with its CA: %q, %v, %s", version, err, &said)
	}
	const none = "/nowhere"
	for want, s := range map[string]maas.Settings{
		"unknown authority: where the CA is one of your own, --maas-ca FILE names it (unreached)": {URL: server.URL, KeyFile: key},
		"the CA of MAAS (--maas-ca): the file " + key + " has no certificate in PEM":              {URL: server.URL, KeyFile: key, CAFile: key},
		"the CA of MAAS (--maas-ca): open /nowhere":                                               {URL: server.URL, KeyFile: key, CAFile: none},
		"the key of MAAS (--maas-key-file): open /nowhere":                                        {URL: server.URL, KeyFile: none},
		"the key of MAAS (--maas-key-file): read " + dir:                                          {URL: server.URL, KeyFile: dir},
		"--maas-url and --maas-key-file: ":                                                        {URL: server.URL, KeyFile: root},
	} {
		if _, err := region(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	_, err := region(maas.Settings{URL: "http://127.0.0.1:1", KeyFile: key})
	if err == nil || !strings.Contains(said.String(), "without TLS") {
		t.Errorf("without TLS it says %q, %v", &said, err)
	}
	if c, err := (maas.Settings{}).Region(nil); c != nil || err != nil {
		t.Errorf("it is off: %v, %v", c, err)
	}
}

// TestSettings: what cannot work is refused before anything is opened, by the flag's name.
func TestSettings(t *testing.T) {
	t.Parallel()
	const url = "https://maas.lab:5443/MAAS"
	for want, s := range map[string]maas.Settings{
		"":                               {Timeout: time.Hour, Tenant: "team-1", Series: "ubuntu/noble"},
		"--maas-url and --maas-key-file": {URL: url, Timeout: time.Hour},
		"--maas-ca needs a --maas-url that begins with https://": {URL: "http://maas.lab", KeyFile: "f", CAFile: "f", Timeout: time.Hour},
		"--maas-ca needs a --maas-url that begins":               {CAFile: "f", Timeout: time.Hour},
		"--maas-tenant: \"No Such\" is not a tenant's name":      {URL: url, KeyFile: "f", Timeout: time.Hour, Tenant: "No Such"},
		"--maas-series: \"bad;x y\" is no series":                {URL: url, KeyFile: "f", Timeout: time.Hour, Series: "bad;x y"},
		"--maas-series: \"a/b/c\" is no series":                  {URL: url, KeyFile: "f", Timeout: time.Hour, Series: "a/b/c"},
		"--maas-deploy-timeout 1m0s: write a value between":      {URL: url, KeyFile: "f", Timeout: time.Minute},
	} {
		err := s.Check(func(flag string) string { return "--" + flag })
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
