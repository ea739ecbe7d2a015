package masterkey

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWithData: a key that a copy of the data directory has in it is with the data, wherever else keys may lie.
func TestWithData(t *testing.T) {
	data, lent := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(lent, "master.key"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(name, value string) func(string) string {
		return func(asked string) string {
			if asked == name {
				return value
			}
			return ""
		}
	}
	for name, c := range map[string]struct {
		source Source
		want   bool
	}{
		"its own":       {Source{Getenv: nothing}, true},
		"named there":   {Source{Named: filepath.Join(data, "other.key"), Getenv: nothing}, true},
		"named away":    {Source{Named: filepath.Join(lent, "other.key"), Getenv: nothing}, false},
		"lent":          {Source{Getenv: env("CREDENTIALS_DIRECTORY", lent)}, false},
		"a variable":    {Source{Getenv: env(variable, "x")}, false},
		"the service's": {Source{ServiceKey: "/etc/muster/master.key", Getenv: nothing}, false},
	} {
		c.source.Data = data
		if got := c.source.WithData(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
