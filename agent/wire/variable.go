package wire

import (
	"slices"
	"strings"
)

// EnvPrefix begins the name of every variable of the agent. Programs that the agent starts inherit none of them, because some hold secrets.
const EnvPrefix = "MUSTER_"

// Variables that are read in more than one place. Every flag has a variable too: see EnvOf.
const (
	EnvGateway    = EnvPrefix + "GATEWAY"
	EnvState      = EnvPrefix + "STATE"
	EnvToken      = EnvPrefix + "TOKEN"
	EnvTokenFile  = EnvPrefix + "TOKEN_FILE"
	EnvSupervised = EnvPrefix + "SUPERVISED" // set by the supervisor: standard error is a file that nothing bounds, so do not log there
	EnvKept       = EnvPrefix + "KEPT"       // set by who starts the agent again when it ends
	EnvSession    = EnvPrefix + "SESSION"    // set for the programs of a session: its id
	EnvRun        = EnvPrefix + "RUN"        // set for the programs of a run: the id of the task that started it
)

// EnvOfNode returns the variables with which a bootstrap script describes a node in the settings file, for other programs. The agent keeps
// them and does not read them.
func EnvOfNode() []string {
	return []string{
		EnvPrefix + "NODE_ID", EnvPrefix + "NODE_URL", EnvPrefix + "CA_BUNDLE", EnvPrefix + "IDENTITY", EnvPrefix + "PROGRAM",
		EnvPrefix + "TRUST_KEY", EnvPrefix + "ANSWER_KEYS", EnvPrefix + "TASK_KEYS", EnvPrefix + "RELEASE_KEYS",
	}
}

// EnvOf returns the variable that stands in for a flag.
func EnvOf(flag string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// EnvSecret reports whether a variable holds a credential, or says where one is.
func EnvSecret(name string) bool { return name == EnvToken || name == EnvTokenFile }

// WithoutEnv returns an environment without the variables of the agent.
func WithoutEnv(environment []string) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(entry string) bool { return strings.HasPrefix(entry, EnvPrefix) })
}
