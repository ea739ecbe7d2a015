package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// usualData is where root keeps a gateway's data.
const usualData = "/var/lib/muster"

// DatabaseFile is the name of the database in a data directory.
const DatabaseFile = "muster.db"

// DataDir is where a gateway keeps its data unless it is told otherwise. muster serve and every other command ask here, so that
// they mean the same gateway. Root's is the data of the service that is installed, below root, or the usual place; another
// user's follows the XDG specification, which has relative paths ignored. Empty: nothing says where.
func DataDir(getenv func(string) string, uid int, root string) string {
	if uid == 0 {
		if data := InstalledData(root); data != "" {
			return data
		}
		return usualData
	}
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "muster")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "muster")
	}
	return ""
}

// InstalledData is the data directory of the service that is installed below root; empty: there is none. Who may not read the
// service's settings still finds it in the unit.
func InstalledData(root string) string {
	unit, noUnit := os.ReadFile(filepath.Join(root, unitPath))
	settings, err := os.ReadFile(filepath.Join(root, envPath))
	if errors.Is(noUnit, fs.ErrNotExist) && errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err == nil {
		if data := parseEnv(string(settings))["MUSTER_DATA"]; data != "" {
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
	return usualData
}

// SamePlace tells whether two paths lead to one directory, which need not exist.
func SamePlace(one, other string) bool {
	a, errA := os.Stat(one)
	b, errB := os.Stat(other)
	if errA == nil && errB == nil {
		return os.SameFile(a, b)
	}
	one, errA = filepath.Abs(one)
	other, errB = filepath.Abs(other)
	return errA == nil && errB == nil && one == other
}
