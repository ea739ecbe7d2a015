package gateway

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/datadir"
)

// serviceSettings are serve's flags as the service's settings file shall have them.
type serviceSettings struct {
	flags    cli.ServeFlags
	text     string // of the file
	readable []file // that the service's user must be able to read, where they are there
	keyFile  string // --master-key-file: where the key comes from, this once
}

// file is what a flag names.
type file struct{ flag, path string }

// keyFlag names the file that the master key comes from.
const keyFlag = "master-key-file"

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
	if err := s.present(out); err != nil {
		return nil, err
	}
	out.text = withSettings(string(raw), out.flags.Given, old.Given)
	return out, nil
}

// paths makes the flags that name files absolute, and refuses places where the service could not reach them.
func (t *serviceSettings) paths() error {
	given := t.flags.Given
	given["data"] = t.flags.Data
	for _, name := range append(slices.Sorted(maps.Keys(t.flags.Files)), "data") {
		if given[name] == "" || name != "data" && given[name] == os.DevNull {
			continue
		}
		path, err := filepath.Abs(given[name])
		if err != nil {
			return err
		}
		given[name] = path
		if name == keyFlag { // root reads it, this once
			continue
		}
		if hidden(path) || strings.Trim(path, pathBytes) != "" || path == "/" {
			return cli.Usagef(suggest(name, path), "--%s %q is not for a service, which sees neither homes nor temporary files", name, path)
		}
		if name != "data" {
			t.readable = append(t.readable, file{flag: name, path: path})
		}
	}
	t.flags.Data = given["data"]
	t.keyFile = given[keyFlag]
	delete(given, keyFlag)
	return nil
}

// suggest says where the service would see what a flag names.
func suggest(flag, path string) string {
	folder := filepath.Dir(datadir.ServiceSettings)
	if flag != "data" && strings.Trim(path, pathBytes) == "" {
		return "put a copy into " + folder + ", and name that: sudo install -D -m 600 " + path + " -t " + folder
	}
	place := "/srv/muster"
	if flag != "data" {
		place = folder + "/" + flag
	}
	return "choose one such as " + place + ", of letters, digits, dots, dashes and underscores"
}

// present refuses a file that is not there, before anything is changed: a service that runs would stop for it.
func (s *service) present(t *serviceSettings) error {
	for _, f := range t.readable {
		if t.flags.Files[f.flag] && !s.exists(f.path) {
			return cli.Hinted("there is no "+f.path, "correct --"+f.flag)
		}
	}
	return nil
}

// pathBytes are those that a path may have in a unit, if nothing is quoted.
const pathBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-"

const envHead = `# Settings of the gateway: flags of muster serve, as its help names them. After a change: systemctl restart muster
`

// withSettings sets the given flags in a settings file. All other lines stay as they are, and so do lines whose value stays.
func withSettings(text string, given, old map[string]string) string {
	if text == "" {
		text = envHead
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, name := range slices.Sorted(maps.Keys(given)) {
		key := wire.EnvOf(name)
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
