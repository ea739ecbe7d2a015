package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"muster/agent/wire"
)

// environment is how variables get into a container. Their values stand in no argument, where every user of the node could read them.
//
// Most go through a file that the engine's client reads from its standard input, so that it is never on the disk. The clients do not
// agree on quotes, blanks and line breaks in it. A value with these goes through the client's own environment, which every client passes
// on as it is. A name that changes the client itself may not go there.
type environment struct {
	file  []byte   // lines NAME=VALUE
	own   []string // NAME=VALUE for the client's environment
	names []string // of own
}

func newEnvironment(vars map[string]string) (environment, error) {
	var e environment
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		value := vars[name]
		switch {
		case plainValue(value):
			e.file = fmt.Appendf(e.file, "%s=%s\n", name, value)
		case changesClient(name):
			return environment{}, wire.Refuse(wire.CodeTaskParamsInvalid, fmt.Sprintf("the variable %s can have no value with a line break, "+
				"a quote or another special character, because its name changes the engine's own program", name),
				"use another name, or a value of letters, digits and plain punctuation")
		default:
			e.own = append(e.own, name+"="+value)
			e.names = append(e.names, name)
		}
	}
	return e, nil
}

// options are the arguments that bring the variables in.
func (e environment) options() []string {
	var all []string
	if len(e.file) > 0 {
		all = append(all, "--env-file=/dev/stdin")
	}
	for _, name := range e.names {
		all = append(all, "--env="+name)
	}
	return all
}

// longestLine is less than what the clients read as one line of the file.
const longestLine = 32 << 10

// plainValue tells whether every client reads this value in a file as it is.
func plainValue(value string) bool {
	if len(value) > longestLine || strings.TrimSpace(value) != value {
		return false
	}
	for i := 0; i < len(value); i++ {
		if value[i] < ' ' || value[i] > '~' || strings.IndexByte("'\"`\\#$", value[i]) >= 0 {
			return false
		}
	}
	return true
}

// changesClient tells whether a variable may mean something to an engine's client, to the programs that it starts, to Go or to the
// loader.
func changesClient(name string) bool {
	name = strings.ToUpper(strings.TrimLeft(name, "_"))
	whole := []string{"HOME", "USER", "LOGNAME", "SHELL", "PATH", "PWD", "TERM", "TMPDIR", "LANG", "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS",
		"NOTIFY_SOCKET", "INVOCATION_ID", "LOCPATH", "NLSPATH", "IFS", "ENV"}
	begins := []string{"LD_", "LC_", "DOCKER", "MOBY", "CONTAINER", "PODMAN", "LIBPOD", "NERDCTL", "BUILDKIT", "BUILDX", "BUILDAH", "STORAGE",
		"REGISTR", "SIGNATURE", "XDG_", "GO", "SSL_", "CNI_", "NETAVARK", "AARDVARK", "CONMON", "CRUN", "RUNC", "OCI", "DBUS_", "SSH_", "LISTEN_",
		"WATCHDOG_", "SYSTEMD_", "MALLOC_", "GLIBC_", "GCONV_", "OTEL_", "NVIDIA_CTK", "BASH_", "ROOTLESS", "SLIRP", "PASTA"}
	return slices.Contains(whole, name) || strings.HasSuffix(name, "_PROXY") ||
		slices.ContainsFunc(begins, func(start string) bool { return strings.HasPrefix(name, start) })
}
