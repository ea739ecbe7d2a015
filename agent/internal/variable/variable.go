// Package variable knows the environment variables of the agent.
package variable

import (
	"slices"
	"strings"
)

// Prefix begins the name of every variable of the agent. Programs that the agent starts inherit none of them, because some hold secrets.
const Prefix = "MUSTER_"

// Variables that are read in more than one place. Every flag has a variable too: see Of.
const (
	Gateway    = Prefix + "GATEWAY"
	State      = Prefix + "STATE"
	Token      = Prefix + "TOKEN"
	TokenFile  = Prefix + "TOKEN_FILE"
	Supervised = Prefix + "SUPERVISED" // set by the supervisor: standard error is a file that nothing bounds, so do not log there
	Kept       = Prefix + "KEPT"       // set by who starts the agent again when it ends
	Session    = Prefix + "SESSION"    // set for the programs of a session: its id
)

// Of is the variable that stands in for a flag.
func Of(flag string) string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Secret reports whether a variable holds a credential, or says where one is.
func Secret(name string) bool { return name == Token || name == TokenFile }

// Without gives an environment without the variables of the agent.
func Without(environment []string) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(entry string) bool { return strings.HasPrefix(entry, Prefix) })
}
