package maas

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/maas/region"
)

// Settings say where MAAS is. Without a URL it is off.
type Settings struct {
	URL     string        `flag:"maas-url"`
	KeyFile string        `flag:"maas-key-file"`
	CAFile  string        `flag:"maas-ca"` // PEM; empty: the roots of the machine
	Tenant  string        `flag:"maas-tenant"`
	Series  string        `flag:"maas-series"`
	Timeout time.Duration `flag:"maas-deploy-timeout"`
}

// UsualSettings returns the defaults.
func UsualSettings() Settings { return Settings{Timeout: usualDeadline} }

const (
	longestKey = 4 << 10   // bytes of a file with an API key
	longestCA  = 256 << 10 // bytes of a file with certificates
)

// Enabled reports whether MAAS is on.
func (s Settings) Enabled() bool { return s.URL != "" }

// Check refuses settings that cannot work. named says where a flag's value came from.
func (s Settings) Check(named func(flag string) string) error {
	switch {
	case (s.URL == "") != (s.KeyFile == ""):
		return errors.New("--maas-url and --maas-key-file belong together")
	case s.CAFile != "" && !strings.HasPrefix(s.URL, "https://"):
		return fmt.Errorf("%s needs a --maas-url that begins with https://", named("maas-ca"))
	case s.Timeout < 5*time.Minute || s.Timeout > 24*time.Hour:
		return fmt.Errorf("%s %s: write a value between 5m and 24h", named("maas-deploy-timeout"), s.Timeout)
	case s.Tenant != "" && wire.CheckTenant(s.Tenant) != nil:
		return fmt.Errorf("%s: %w", named("maas-tenant"), wire.CheckTenant(s.Tenant))
	case s.Series != "" && !isSeries(s.Series):
		return fmt.Errorf("%s: %.40q is no series: %s", named("maas-series"), s.Series, seriesForm)
	}
	return nil
}

const seriesForm = "write it as MAAS does, such as ubuntu/noble"

// isSeries tells whether a text can be a system of MAAS, such as ubuntu/noble or noble. Only MAAS tells whether there is one.
func isSeries(s string) bool {
	system, release, both := strings.Cut(s, "/")
	return wire.CheckName(system) == nil && (!both || wire.CheckName(release) == nil) // both have the form of a name
}

// Region reads the files and makes the client of MAAS; nil: MAAS is off.
func (s Settings) Region(log *slog.Logger) (*region.Client, error) {
	switch {
	case !s.Enabled():
		return nil, nil
	case strings.HasPrefix(s.URL, "http://"):
		log.Warn("MAAS is asked without TLS: who listens on the way to it reads the key", "url", s.URL)
	}
	key, err := read(s.KeyFile, longestKey)
	if err != nil {
		return nil, fmt.Errorf("the key of MAAS (--maas-key-file): %w", err)
	}
	roots, err := s.roots()
	if err != nil {
		return nil, fmt.Errorf("the CA of MAAS (--maas-ca): %w", err)
	}
	c, err := region.New(region.Config{URL: s.URL, Key: strings.TrimSpace(string(key)), Roots: roots})
	if err != nil {
		return nil, fmt.Errorf("--maas-url and --maas-key-file: %w", err)
	}
	return c, nil
}

// roots are those that vouch for MAAS; nil: the machine's.
func (s Settings) roots() (*x509.CertPool, error) {
	if s.CAFile == "" {
		return nil, nil
	}
	text, err := read(s.CAFile, longestCA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("the file %s has no certificate in PEM", s.CAFile)
	}
	return pool, nil
}

// read reads a file up to a limit.
func read(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was read
	return io.ReadAll(io.LimitReader(f, limit))
}
