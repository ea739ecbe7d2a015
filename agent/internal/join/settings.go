package join

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"muster/agent/internal/command"
	"muster/agent/internal/service"
	"muster/agent/wire"
)

// notKept are the flags that count for one run of join only. In a settings file, written there by a person, they do not count.
var notKept = [...]string{"token", "token-file", "root-pin", "check", "force", "reload-units"}

// ambient are variables of other programs that decide how to reach a gateway. A service does not inherit the environment of join, so
// without them the agent might not reach a gateway that join reached.
var ambient = [...]string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// servicePath are the folders in which every service looks for programs.
var servicePath = [...]string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// wantedSettings are the settings from now on. Flags win over the environment, and the environment over what an earlier run was told.
func (j *joining) wantedSettings(f *command.Flags) service.Settings {
	s := service.Settings{}
	for name, value := range f.Changed {
		if !slices.Contains(notKept[:], name) {
			s[wire.EnvOf(name)] = value
		}
	}
	s[wire.EnvGateway] = j.GatewayURL()
	s[wire.EnvState] = j.State
	for _, name := range wire.EnvOfNode() {
		if value, there := j.before[name]; there {
			s[name] = value
		}
	}
	for _, name := range ambient {
		if value := j.Getenv(name); value != "" {
			s[name] = value
		} else if value := j.before[name]; value != "" {
			s[name] = value
		}
	}
	if path := j.findNvidiaSMI(); path != "" {
		s[wire.EnvOf("nvidia-smi")] = path
	}
	return s
}

// kept are the settings of an earlier run that count where this one is told nothing else.
func kept(before service.Settings) service.Settings {
	s := maps.Clone(before)
	for _, name := range notKept {
		delete(s, wire.EnvOf(name))
	}
	return s
}

// findNvidiaSMI is the path of an nvidia-smi that a service would not find by its name. It is empty if a service finds it, or where
// there is none.
func (j *joining) findNvidiaSMI() string {
	if j.NoGPU || strings.Contains(j.NvidiaSMI, "/") {
		return ""
	}
	path, err := exec.LookPath(j.NvidiaSMI)
	if err != nil || !filepath.IsAbs(path) || slices.Contains(servicePath[:], filepath.Dir(path)) {
		return ""
	}
	return path
}
