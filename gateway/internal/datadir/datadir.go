// Package datadir knows the directory that holds a gateway's data: where it is, what is in it, whose it is, and who uses it now.
// It also knows the files of the service that `muster service install` sets up, because they say where that service's data are.
package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Names of files in a data directory.
const (
	Database  = "muster.db"
	MasterKey = "master.key"
	History   = "history.db"  // samples of the nodes
	LockFile  = "muster.lock" // see Lock
	Registry  = "registry"    // the folder of the OCI registry's blobs
	Logs      = "logs"        // the folder of log lines that wait for their sinks

	Recordings = "recordings" // the folder of what terminals showed
)

// Usual is where root keeps a gateway's data.
const Usual = "/var/lib/muster"

// What belongs to the installed service.
const (
	ServiceUser     = "muster" // whose the data are
	ServiceUnit     = "/etc/systemd/system/muster.service"
	ServiceSettings = "/etc/muster/gateway.env"
	ServiceKey      = "/etc/muster/master.key" // root reads it; systemd hands a copy to the gateway
)

// Default returns where a gateway keeps its data unless it is told otherwise. muster serve and every other command ask here, so that
// they mean the same gateway. For uid 0 it is the data directory of the service that is installed below root, else Usual. For another
// user it follows the XDG specification, which says to ignore relative paths. Empty: nothing says where.
func Default(getenv func(string) string, uid int, root string) string {
	if uid == 0 {
		if data := Installed(root); data != "" {
			return data
		}
		return Usual
	}
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "muster")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "muster")
	}
	return ""
}

// Installed returns the data directory of the service that is installed below root; empty: there is none. A user who may not read the
// service's settings finds it in the unit, which everybody may read.
func Installed(root string) string {
	unit, noUnit := os.ReadFile(filepath.Join(root, ServiceUnit))
	settings, err := os.ReadFile(filepath.Join(root, ServiceSettings))
	if errors.Is(noUnit, fs.ErrNotExist) && errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err == nil {
		if data := ParseEnv(string(settings))["MUSTER_DATA"]; data != "" {
			return filepath.Join("/", data) // where systemd starts a service
		}
	}
	for line := range strings.Lines(string(unit)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "StateDirectory":
			return filepath.Join("/var/lib", value)
		case "ReadWritePaths":
			return filepath.Clean(value)
		}
	}
	return Usual
}

// ParseEnv reads a settings file as systemd's EnvironmentFile= does, as far as flags need it: one NAME=VALUE a line, the
// value maybe in quotes.
func ParseEnv(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || strings.HasPrefix(key, "#") || strings.HasPrefix(key, ";") {
			continue
		}
		value = strings.TrimSpace(value)
		if unquoted, err := strconv.Unquote(value); err == nil {
			value = unquoted
		} else if n := len(value); n > 1 && value[0] == '\'' && value[n-1] == '\'' {
			value = value[1 : n-1]
		}
		values[strings.TrimSpace(key)] = value
	}
	return values
}

// Same reports whether two paths lead to one directory. If a directory does not exist yet, the paths are compared.
func Same(one, other string) bool {
	a, errA := os.Stat(one)
	b, errB := os.Stat(other)
	if errA == nil && errB == nil {
		return os.SameFile(a, b)
	}
	one, errA = filepath.Abs(one)
	other, errB = filepath.Abs(other)
	return errA == nil && errB == nil && one == other
}
