package service

import (
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"muster/gateway/internal/cli"
	"muster/gateway/internal/datadir"
)

// serviceSettings are serve's flags as the service's settings file shall have them.
type serviceSettings struct {
	flags    cli.ServeFlags
	text     string   // of the file
	readable []string // files that the service's user must be able to read
	keyFile  string   // --master-key-file: where the key comes from, this once
}

// settings puts the arguments over this process's environment, and that over what the settings file has. serve itself reads all of
// them, so that a setting that serve would refuse is refused before anything is changed.
func (s *service) settings() (*serviceSettings, error) {
	if s.Serve == nil {
		return nil, cli.Hinted("this program has no gateway in it", "use the one that make build makes")
	}
	raw, err := s.read(datadir.ServiceSettings)
	if err != nil {
		return nil, cli.Hinted("cannot read the service's settings: "+err.Error(),
			"correct the mode or the place of "+datadir.ServiceSettings)
	}
	before := datadir.ParseEnv(string(raw))
	old, _ := s.Serve(nil, func(name string) string { return before[name] }) // an error in the file may be what the arguments correct
	flags, err := s.Serve(s.Words, func(name string) string {
		if value := s.Getenv(name); value != "" {
			return value
		}
		return before[name]
	})
	if err != nil {
		return nil, cli.Usagef("muster serve --help shows every flag", "%s", err)
	}
	out := &serviceSettings{flags: flags}
	if err := out.paths(); err != nil {
		return nil, err
	}
	out.text = withSettings(string(raw), out.flags.Given, old.Given)
	return out, nil
}

// paths makes the flags that name files absolute, and refuses places where the service could not reach them.
func (t *serviceSettings) paths() error {
	given := t.flags.Given
	given["data"] = t.flags.Data
	for _, name := range []string{"data", "tls-cert", "tls-key", "master-key-file"} {
		if given[name] == "" {
			continue
		}
		path, err := filepath.Abs(given[name])
		if err != nil {
			return err
		}
		given[name] = path
		if name == "master-key-file" { // root reads it, this once
			continue
		}
		if hidden(path) || strings.Trim(path, pathBytes) != "" || path == "/" {
			return cli.Usagef("choose one such as /var/lib/muster or /srv/muster, of letters, digits, dots, dashes and underscores",
				"--%s %q is not for a service, which sees neither homes nor temporary files", name, path)
		}
	}
	t.flags.Data = given["data"]
	t.keyFile = given["master-key-file"]
	delete(given, "master-key-file")
	for _, name := range []string{"tls-cert", "tls-key"} {
		if given[name] != "" {
			t.readable = append(t.readable, given[name])
		}
	}
	return nil
}

// pathBytes are those that a path may have in a unit, where nothing is quoted.
const pathBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-"

const envHead = `# Settings of the gateway: flags of muster serve, as its help names them. After a change: systemctl restart muster
`

// withSettings sets the given flags in a settings file. All other lines stay as they are, and so do lines whose value stays.
func withSettings(text string, given, old map[string]string) string {
	if text == "" {
		text = envHead
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	names := make([]string, 0, len(given))
	for name := range given {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		key := cli.Variable(name)
		line := key + "=" + strconv.Quote(given[name])
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), key+"=") })
		switch {
		case at < 0:
			lines = append(lines, line)
		case old[name] != given[name]:
			lines[at] = line
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// privileged tells whether a listener needs a port that only root may open.
func privileged(addresses ...string) bool {
	return slices.ContainsFunc(addresses, func(address string) bool {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return false
		}
		n, err := net.LookupPort("tcp", port) // a name such as https is one too
		return err == nil && n > 0 && n < 1024
	})
}
