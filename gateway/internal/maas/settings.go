package maas

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"muster/gateway/internal/maas/region"
)

// Settings say where MAAS is. Without a URL it is off.
type Settings struct {
	URL     string        `flag:"maas-url"`
	KeyFile string        `flag:"maas-key-file"`
	Tenant  string        `flag:"maas-tenant"`
	Series  string        `flag:"maas-series"`
	Timeout time.Duration `flag:"maas-deploy-timeout"`
}

// UsualSettings are those if nothing is given.
func UsualSettings() Settings { return Settings{Timeout: usualDeadline} }

const longestKey = 4096 // bytes of a file with an API key

// Enabled tells whether MAAS is on.
func (s Settings) Enabled() bool { return s.URL != "" }

// Check refuses settings that cannot work. named says where a flag's value came from.
func (s Settings) Check(named func(flag string) string) error {
	switch {
	case (s.URL == "") != (s.KeyFile == ""):
		return errors.New("--maas-url and --maas-key-file belong together")
	case s.Timeout < 5*time.Minute || s.Timeout > 24*time.Hour:
		return fmt.Errorf("%s %s: write a value between 5m and 24h", named("maas-deploy-timeout"), s.Timeout)
	}
	return nil
}

// Region reads the key and makes what speaks to MAAS; nil: it is off.
func (s Settings) Region() (*region.Client, error) {
	if !s.Enabled() {
		return nil, nil
	}
	f, err := os.Open(s.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the key of MAAS: %w", err)
	}
	defer f.Close() // it was read
	raw, err := io.ReadAll(io.LimitReader(f, longestKey))
	if err != nil {
		return nil, fmt.Errorf("read the key of MAAS: %w", err)
	}
	c, err := region.New(region.Config{URL: s.URL, Key: strings.TrimSpace(string(raw)), Plain: true})
	if err != nil {
		return nil, fmt.Errorf("--maas-url and --maas-key-file: %w", err)
	}
	return c, nil
}
