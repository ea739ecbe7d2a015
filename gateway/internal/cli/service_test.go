package cli_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/kit"
)

// computer is a machine with systemd, in a directory of its own.
type computer struct {
	t       *testing.T
	root    string
	uid     int
	user    bool // the service's user is there
	state   string
	systemd string
	reload  string // NeedDaemonReload
	refuse  string // the commands that begin so fail
	ready   error
	bad     string // a program with this text does not start
	mute    string // one with this text does not get ready
	has     int    // the schema of the database; the program knows 5
	unread  error  // why it cannot be read

	migrates bool // a start changes the schema
	blocks   bool // after a start no program can be written any more
	owner    map[string]int
	calls    []string
	env      map[string]string
	now      time.Time
}

func newComputer(t *testing.T) *computer {
	t.Helper()
	c := &computer{t: t, root: t.TempDir(), systemd: "252 (252.39-1)", state: "inactive", reload: "no", owner: map[string]int{},
		env: map[string]string{}, now: time.Unix(1800000000, 0)}
	c.write("/run/systemd/system/x", "", 0o644)
	c.write("/download/muster", "version one", 0o755)
	return c
}

func (c *computer) path(path string) string { return filepath.Join(c.root, path) }

func (c *computer) write(path, text string, mode os.FileMode) {
	c.t.Helper()
	err := os.MkdirAll(filepath.Dir(c.path(path)), 0o755)
	if err == nil {
		err = os.WriteFile(c.path(path), []byte(text), mode)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// file gives a file's text, and fails the test when its mode is another.
func (c *computer) file(path string, mode os.FileMode) string {
	c.t.Helper()
	info, err := os.Stat(c.path(path))
	if err != nil {
		c.t.Fatal(err)
	}
	if info.Mode() != mode {
		c.t.Errorf("%s has mode %v, want %v", path, info.Mode(), mode)
	}
	if info.IsDir() {
		return ""
	}
	raw, err := os.ReadFile(c.path(path))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(raw)
}

func (c *computer) gone(paths ...string) {
	c.t.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(c.path(path)); err == nil {
			c.t.Errorf("%s is still there", path)
		}
	}
}

// command plays the machine's programs.
func (c *computer) command(_ context.Context, name string, args ...string) (string, error) {
	line := strings.Join(append([]string{name}, args...), " ")
	c.calls = append(c.calls, line)
	if c.refuse != "" && strings.HasPrefix(line, c.refuse) {
		return "", errors.New(line + ": refused")
	}
	switch {
	case line == "systemctl --version":
		return "systemd " + c.systemd + "\n+PAM\n", nil
	case strings.HasPrefix(line, "systemctl show"):
		return "ActiveState=" + c.state + "\nMainPID=77\nNeedDaemonReload=" + c.reload + "\n", nil
	case strings.HasPrefix(line, "systemctl start"), strings.HasPrefix(line, "systemctl restart"):
		c.state = "active"
		if c.migrates {
			c.has++
		}
		if c.blocks {
			if err := errors.Join(os.RemoveAll(c.path("/usr/local/bin")), os.WriteFile(c.path("/usr/local/bin"), nil, 0o600)); err != nil {
				return "", err
			}
		}
		if c.bad != "" && c.installed() == c.bad {
			c.state = "activating"
			return "", errors.New(line + ": the job failed")
		}
		link := c.path("/proc/77/exe")
		_ = os.Remove(link)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return "", err
		}
		return "", os.Link(c.path("/usr/local/bin/muster"), link)
	case line == "systemctl daemon-reload":
		c.reload = "no"
	case strings.HasPrefix(line, "systemctl stop"):
		c.state = "inactive"
	case line == "getent passwd muster":
		if !c.user {
			return "", errors.New("exit status 2")
		}
		return "muster:x:998:997::/var/lib/muster:/usr/sbin/nologin\n", nil
	case name == "useradd":
		c.user = true
	case name == "journalctl":
		return "listen tcp :443: bind: address already in use\n", nil
	}
	return "", nil
}

// installed is the text of the installed program.
func (c *computer) installed() string {
	raw, _ := os.ReadFile(c.path("/usr/local/bin/muster"))
	return string(raw)
}

// serve reads a few of serve's flags, as the gateway itself does.
func serve(args []string, getenv func(string) string) (cli.ServeFlags, error) {
	f := cli.ServeFlags{Given: map[string]string{}, Data: "/var/lib/muster", Listen: ":7443", PublicURL: "https://gw:7443",
		Files: map[string]bool{"tls-cert": true, "tls-key": true, "step-ca-key": true, "credential": false, "master-key-file": true}}
	for name, to := range map[string]*string{"data": &f.Data, "listen": &f.Listen, "plain-listen": &f.PlainListen,
		"public-url": &f.PublicURL,
		"tls-cert":   new(string), "tls-key": new(string), "master-key-file": new(string), "step-ca-key": new(string),
		"credential": new(string), "store": new(string)} {
		value := getenv("MUSTER_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		for i, arg := range args {
			if arg == "--"+name && i+1 < len(args) {
				value = args[i+1]
			}
		}
		if value != "" {
			*to = value
			f.Given[name] = value
		}
	}
	if slices.Contains(args, "--wrong") {
		return f, errors.New("flag provided but not defined: -wrong")
	}
	return f, nil
}

func (c *computer) muster(args ...string) (code int, stdout, stderr string) {
	c.t.Helper()
	c.calls = nil
	var out, errs bytes.Buffer
	code = cli.Run(c.t.Context(), cli.Env{Args: append([]string{"service"}, args...),
		Getenv: func(name string) string { return c.env[name] }, Stdin: strings.NewReader(""),
		Stdout: &out, Stderr: &errs, Version: "1.2.3", Serve: serve, Now: func() time.Time { return c.now },
		Pause: func(ctx context.Context, d time.Duration) error { c.now = c.now.Add(d); return ctx.Err() },
		Machine: cli.Machine{Root: c.root, Program: c.path("/download/muster"), UID: func() int { return c.uid }, Command: c.command,
			Chown: func(in *os.Root, name string, uid, _ int) error {
				c.owner[filepath.Join(in.Name(), name)] = uid
				return nil
			},
			Ready: func(_ context.Context, url string) error {
				c.calls = append(c.calls, "GET "+url)
				if c.mute != "" && c.installed() == c.mute {
					return errors.New("connection refused")
				}
				return c.ready
			}, Rand: bytes.NewReader(make([]byte, 32))},
		Local: cli.Local{Schema: func(_ context.Context, data string) (has, known int, err error) {
			if data != c.path("/var/lib/muster") && data != c.path("/srv/muster") {
				c.t.Errorf("the schema in %s is asked for", data)
			}
			return c.has, 5, c.unread
		}}}, commands.All())
	return code, out.String(), errs.String()
}

func (c *computer) done(args ...string) string {
	c.t.Helper()
	code, out, errs := c.muster(args...)
	if code != 0 {
		c.t.Fatalf("%v: code %d\n%s\n%s", args, code, out, errs)
	}
	return out
}

const zeroKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"

func TestServiceInstall(t *testing.T) {
	c := newComputer(t)
	kit.Golden(t, "service-install.golden", c.done("install", "--public-url", "https://gw.example:7443"))
	kit.Golden(t, "service-unit.golden", c.file("/etc/systemd/system/muster.service", 0o644))
	kit.Golden(t, "service-env.golden", c.file("/etc/muster/gateway.env", 0o600))
	if got := c.file("/etc/muster/master.key", 0o600); got != zeroKey {
		t.Errorf("master key: %q", got)
	}
	if got := c.file("/usr/local/bin/muster", 0o755); got != "version one" {
		t.Errorf("program: %q", got)
	}
	c.file("/var/lib/muster", os.ModeDir|0o700)
	if c.owner[c.path("/var/lib/muster")] != 998 {
		t.Errorf("owners: %v", c.owner)
	}
	want := []string{"systemctl --version", "systemctl show muster.service --property ActiveState,MainPID,NeedDaemonReload",
		"getent passwd muster",
		"useradd --system --user-group --no-create-home --home-dir /var/lib/muster --shell /usr/sbin/nologin muster",
		"getent passwd muster",
		"systemctl show muster.service --property ActiveState,MainPID,NeedDaemonReload", "systemctl enable --no-reload muster.service",
		"systemctl start muster.service", "GET https://127.0.0.1:7443/readyz"}
	if !slices.Equal(c.calls, want) {
		t.Errorf("calls:\n%s", strings.Join(c.calls, "\n"))
	}
}

// TestServiceAgain: the same command changes nothing, a newer program or another flag restarts.
func TestServiceAgain(t *testing.T) {
	c := newComputer(t)
	c.done("install", "--public-url", "https://gw.example", "--listen", ":7443")
	acts := func() (acted []string) {
		for _, call := range c.calls {
			if strings.HasPrefix(call, "systemctl start") || strings.HasPrefix(call, "systemctl restart") ||
				strings.HasPrefix(call, "systemctl daemon-reload") {
				acted = append(acted, call)
			}
		}
		return acted
	}
	restart := []string{"systemctl restart muster.service"}
	if out := c.done("install"); len(acts()) != 0 || !strings.Contains(out, "nothing to do") ||
		!strings.Contains(out, "https://gw.example") {
		t.Errorf("again: %v\n%s", acts(), out)
	}
	c.write("/download/muster", "version two", 0o755)
	if out := c.done("install"); !slices.Equal(acts(), restart) || !strings.Contains(out, "muster 1.2.3 copied") ||
		c.file("/usr/local/bin/muster", 0o755) != "version two" {
		t.Errorf("a newer program: %v\n%s", acts(), out)
	}
	env := c.file("/etc/muster/gateway.env", 0o600)
	c.write("/etc/muster/gateway.env", env+"HTTPS_PROXY=http://proxy\n# mine\n", 0o600)
	c.done("install", "--listen", ":8443")
	if got := c.file("/etc/muster/gateway.env", 0o600); !slices.Equal(acts(), restart) ||
		!strings.Contains(got, "MUSTER_LISTEN=\":8443\"\n") ||
		!strings.Contains(got, "MUSTER_PUBLIC_URL=\"https://gw.example\"\n") ||
		!strings.HasSuffix(got, "HTTPS_PROXY=http://proxy\n# mine\n") {
		t.Errorf("another flag: %v\n%s", acts(), got)
	}
	if err := os.Remove(c.path("/usr/local/bin/muster")); err != nil {
		t.Fatal(err)
	}
	c.write("/usr/local/bin/muster", "version two", 0o755)
	if out := c.done("install"); !slices.Equal(acts(), restart) {
		t.Errorf("a program that was replaced by hand: %v\n%s", acts(), out)
	}
	c.reload = "yes"
	c.write("/download/muster", "version three", 0o755)
	if c.done("install"); !slices.Equal(acts(), []string{"systemctl daemon-reload", "systemctl restart muster.service"}) {
		t.Errorf("a unit that systemd has not read: %v", acts())
	}
	c.state = "activating"
	if c.done("install"); !slices.Equal(acts(), restart) {
		t.Errorf("a service that keeps failing: %v", acts())
	}
	c.env["MUSTER_LISTEN"] = ":443"
	if c.done("install"); !strings.Contains(c.file("/etc/systemd/system/muster.service", 0o644),
		"AmbientCapabilities=CAP_NET_BIND_SERVICE\n") {
		t.Error("no capability for port 443")
	}
}

func TestServiceKey(t *testing.T) {
	other := strings.Repeat("B", 43) + "=\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		args  []string
		code  int
		says  string
		key   string
	}{
		{"in the data", map[string]string{"/var/lib/muster/master.key": other, "/var/lib/muster/muster.db": ""}, nil, 0,
			"moved from /var/lib/muster/master.key", other},
		{"moved halfway", map[string]string{"/var/lib/muster/master.key": other, "/etc/muster/master.key": other}, nil, 0, "is there",
			other},
		{"in a file", map[string]string{"/mnt/key": other}, []string{"--master-key-file", "/mnt/key"}, 0, "copied from /mnt/key", other},
		{"no such file", nil, []string{"--master-key-file", "/mnt/key"}, 1, "there is no /mnt/key", ""},
		{"two keys", map[string]string{"/var/lib/muster/master.key": other, "/etc/muster/master.key": zeroKey}, nil, 1,
			"two different keys", zeroKey},
		{"a database without", map[string]string{"/var/lib/muster/muster.db": ""}, nil, 1, "no master key that opens it", ""},
		{"a shared store", nil, []string{"--store", "rqlite://127.0.0.1:4001"}, 1, "never gets a master key made", ""},
		{"a shared store's key", map[string]string{"/mnt/key": other}, []string{"--store", "rqlite://127.0.0.1:4001", "--master-key-file", "/mnt/key"}, 0,
			"copied from /mnt/key", other},
		{"no key in it", map[string]string{"/etc/muster/master.key": "key"}, nil, 1, "is not 32 bytes", "key"},
		{"empty", map[string]string{"/etc/muster/master.key": ""}, nil, 1, "is not 32 bytes", ""},
	} {
		m := newComputer(t)
		for path, text := range c.files {
			m.write(path, text, 0o600)
		}
		code, out, errs := m.muster(append([]string{"install"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: code %d\n%s\n%s", c.name, code, out, errs)
		}
		raw, _ := os.ReadFile(m.path("/etc/muster/master.key"))
		if string(raw) != c.key {
			t.Errorf("%s: the key is %q", c.name, raw)
		}
		if c.code == 0 {
			m.gone("/var/lib/muster/master.key")
			if strings.Contains(m.file("/etc/muster/gateway.env", 0o600), "MASTER_KEY") {
				t.Errorf("%s: the settings name a key that the service's user may not read", c.name)
			}
		} else if _, kept := c.files["/var/lib/muster/master.key"]; kept {
			m.file("/var/lib/muster/master.key", 0o600)
		}
	}
}

func TestServiceRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(c *computer)
		args string
		code int
		says string
	}{
		{"no systemd", func(c *computer) { os.RemoveAll(c.path("/run")) }, "--listen :1", 1,
			"muster serve --data /var/lib/muster --listen :1"},
		{"no systemd, data named", func(c *computer) { os.RemoveAll(c.path("/run")) }, "--data /srv/muster --listen :1", 1,
			": muster serve --data /srv/muster --listen :1"},
		{"no root", func(c *computer) { c.uid = 1000 }, "", 1, "sudo muster service install"},
		{"old systemd", func(c *computer) { c.systemd = "245 (245.4)" }, "", 1, "too old"},
		{"strange systemd", func(c *computer) { c.systemd = "" }, "", 1, "systemctl --version says"},
		{"systemctl fails", func(c *computer) { c.refuse = "systemctl --version" }, "", 1, "refused"},
		{"show fails", func(c *computer) { c.refuse = "systemctl show" }, "", 1, "refused"},
		{"useradd fails", func(c *computer) { c.refuse = "useradd" }, "", 1, "refused"},
		{"enable fails", func(c *computer) { c.refuse = "systemctl enable" }, "", 1, "refused"},
		{"start fails", func(c *computer) { c.refuse = "systemctl start" }, "", 1, "address already in use"},
		{"never ready", func(c *computer) { c.ready = errors.New("connection refused") }, "", 1, "not ready after 30s"},
		{"wrong flag", nil, "--wrong", 2, "not defined: -wrong"},
		{"data in a home", nil, "--data /home/me/muster", 2, "sees neither homes"},
		{"data in /dev/null", nil, "--data /dev/null", 2, "sees neither homes"},
		{"data with blanks", nil, "--data /srv/%h", 2, "letters, digits"},
		{"key in a home", nil, "--tls-key /root/key.pem", 2, "sees neither homes"},
		{"step-ca's key in a home", nil, "--step-ca-key /root/nodes.jwk", 2, "sudo install -D -m 600 /root/nodes.jwk -t /etc/muster"},
		{"key that is not there", nil, "--tls-key /etc/ssl/key.pem", 1, "hint: correct --tls-key"},
	} {
		m := newComputer(t)
		if c.set != nil {
			c.set(m)
		}
		code, out, errs := m.muster(append([]string{"install"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%s: code %d\n%s\n%s", c.name, code, out, errs)
		}
	}
	m := newComputer(t)
	m.write("/var/lib/muster/muster.lock", "", 0o600)
	lock, err := os.Open(m.path("/var/lib/muster/muster.lock"))
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if code, _, errs := m.muster("install"); code != 1 || !strings.Contains(errs, "started by hand serves /var/lib/muster") {
		t.Errorf("a gateway by hand: %d %s", code, errs)
	}
	m.gone("/etc/muster", "/usr/local", "/etc/systemd")

	m = newComputer(t)
	m.write("/srv/www/index.html", "", 0o644)
	if code, _, errs := m.muster("install", "--data", "/srv"); code != 1 || !strings.Contains(errs, "not the gateway's alone") ||
		len(m.owner) > 0 {
		t.Errorf("data of others: %d %s, owners %v", code, errs, m.owner)
	}
	m.file("/srv", 0o755|os.ModeDir)
	m.gone("/etc/muster", "/usr/local", "/etc/systemd")
}

func (c *computer) tree() map[string]bool {
	files := map[string]bool{}
	err := filepath.Walk(c.root, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			files[strings.TrimPrefix(path, c.root)] = true
		}
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return files
}

func TestServiceHelp(t *testing.T) {
	c := newComputer(t)
	for _, args := range [][]string{{"install", "--help"}, {"install", "--listen", ":1", "-h"}} {
		if out := c.done(args...); !strings.HasPrefix(out, "Usage: muster service install") {
			t.Errorf("%v: %s", args, out)
		}
	}
	if code, _, errs := c.muster(); code != 2 || !strings.Contains(errs, "Commands of muster service") {
		t.Errorf("code %d, %s", code, errs)
	}
}
