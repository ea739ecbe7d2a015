package cli

import (
	"strings"
)

// flag is one flag. Each is also the environment variable MUSTER_<NAME>.
type flag struct {
	name  string
	short string // one letter, may be empty
	value string // what stands for its value in help; empty: it takes none
	usage string
	unset bool // no environment variable
	zero  bool // 0 is one of its numbers
}

func (o flag) env() string {
	return "MUSTER_" + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// globals are the flags of every command.
func globals() []flag {
	return []flag{
		{name: "data", value: "DIR", usage: "the gateway's data directory, where its socket is"},
		{name: "url", value: "URL", usage: "a gateway on another machine; needs MUSTER_API_TOKEN"},
		{name: "token-file", value: "FILE", usage: "file with the API token, instead of MUSTER_API_TOKEN (- is standard input)"},
		{name: "root-pin", value: "PIN", usage: "trust the gateway whose root key is sha256:<hex>"},
		{name: "ca", value: "FILE", usage: "trust the certificates in this file instead of the system's"},
		{name: "help", short: "h", usage: "show help", unset: true},
	}
}

// ownFlags are the flags that only some commands take. A name means the same wherever it stands.
func ownFlags() []flag {
	return []flag{
		{name: "output", short: "o", value: "FORMAT", usage: "table, wide or json, unless this help says otherwise"},
		{name: "selector", short: "l", value: "SELECTOR", usage: "nodes whose labels match, such as tier=sovereign,tenant=platform"},
		{name: "status", value: "STATUS", usage: "pending, online or stale"},
		{name: "state", value: "STATE", usage: "such as active, drained or unavailable"},
		{name: "all", short: "a", usage: "also what is retired, spent or revoked"},
		{name: "tenant", value: "TENANT", usage: "the tenant"},
		{name: "uses", value: "N", usage: "how many nodes may join with it (1)"},
		{name: "ttl", value: "DURATION", usage: "how long it is good for"},
		{name: "label", value: "KEY=VALUE", usage: "a label for the nodes that join; may be repeated"},
		{name: "gpus", value: "N", usage: "how many GPUs its nodes should show", zero: true},
		{name: "bind-instance", usage: "a use belongs to the provider's instance, which may join again after losing its disk"},
		{name: "mode", value: "MODE", usage: "manual, or cloud-init for a machine that takes user-data at its first boot"},
		{name: "again", usage: "also where the node has enrolled already: another machine takes its place"},
		{name: "scope", value: "SCOPES", usage: "what the account may, such as nodes:read,tokens:write; may be repeated"},
		{name: "generate", usage: "let the gateway make the secret, and print it once"},
		{name: "file", value: "FILE", usage: "file with the secret (- is standard input)"},
		{name: "keep", value: "ID", usage: "the one that stays"},
		{name: "replace", usage: "change the one of this name that is there"},
		{name: "yes", short: "y", usage: "do not ask"},
		{name: "fingerprint", value: "F", usage: "the fingerprint of the certificate to keep, or its first 8 or more digits"},
		{name: "for", value: "DURATION", usage: "how long the window is open (1h)"},
		{name: "timeout", value: "DURATION", usage: "give up after this long (5m)"},
		{name: "port", short: "p", value: "PORT", usage: "the port of the machine's ssh, else what ssh's configuration says"},
		{name: "identity", short: "i", value: "FILE", usage: "ssh's private key, else those that ssh itself finds"},
		{name: "name", value: "NAME", usage: "the node's name, else its provider and instance, or its hostname"},
		{name: "provider", value: "PROVIDER", usage: "whose machine it is, such as vast_ai, else what the machine says"},
		{name: "instance-id", value: "ID", usage: "what the provider calls the machine, else what the machine says"},
		{name: "gateway", value: "URL", usage: "where the machine reaches the gateway, when that is not its public URL"},
		{name: "force", usage: "go on where muster would refuse: a machine that is joined to another gateway, a database that is there"},
		{name: "root-out", value: "DIR", usage: "where the root's key goes, out of the gateway"},
		{name: "root", value: "DIR", usage: "where a root's key is that is kept out of the gateway; may be repeated"},
		{name: "trust-domain", value: "DOMAIN", usage: "SPIFFE trust domain of a new CA, else a random one"},
		{name: "trust-key", value: "FILE", usage: "the trust key, where it is kept out of the gateway"},
		{name: "master-key-file", value: "FILE", usage: "file with the master key; without it, muster looks where the gateway looks"},
		{name: "master-key-out", value: "FILE", usage: "new file for the new master key, where the old one is not a file to replace"},
		{name: "without-registry", usage: "the database alone, without the blobs of the registry"},
		{name: "adopt-for", value: "DURATION", usage: "how long certificates issued since the backup are taken over (72h)"},
		{name: "answer", usage: "the key that signs answers"},
		{name: "task", usage: "the key that signs tasks"},
		{name: "release", usage: "the key that signs releases"},
		{name: "trust", usage: "the key that signs the sets of all others"},
		{name: "master", usage: "the key that seals the database's secrets"},
		{name: "now", usage: "nodes stop trusting the key from before at once"},
		{name: "node", value: "NODE", usage: "events of this node only"},
		{name: "kind", value: "KIND", usage: "events of this kind only, such as node.enrolled"},
		{name: "security", usage: "security events only"},
		{name: "type", value: "TYPE", usage: "tasks of this type only; muster task types lists them"},
		{name: "open", usage: "only what has not ended"},
		{name: "lost", usage: "only those that are lost, and that nobody has given again"},
		{name: "params", value: "FILE", usage: "a JSON object with params (- is standard input); params in the words win"},
		{name: "wait", short: "w", usage: "show what the tasks write, and wait until all have ended"},
		{name: "expires", value: "DURATION", usage: "how long a task waits for its node (1h)"},
		{name: "at-most", value: "N", usage: "so many at the same time; waits for the others to end"},
		{name: "stop-after", value: "N", usage: "begin no further one after so many failures"},
		{name: "key", value: "FILE", usage: "sign with the operator's key in this file, not with the gateway's"},
		{name: "remove-home", usage: "remove the home directories of users too"},
		{name: "since", value: "DURATION", usage: "from so long ago on, such as 1h or 7d"},
		{name: "until", value: "DURATION", usage: "up to so long ago, such as 30m; without it up to now"},
		{name: "step", value: "DURATION", usage: "the time between two values, such as 5m, else what fits"},
		{name: "value", value: "VALUE", usage: "of all samples in a step: mean, least or most (mean)"},
		{name: "version", value: "VERSION", usage: "what the release is called, such as 0.4.0", unset: true},
		{name: "channel", value: "CHANNEL", usage: "the channel (stable)"},
		{name: "digest", value: "DIGEST", usage: "the release, by digest or version", unset: true},
		{name: "reference", value: "HOST/REPOSITORY", usage: "another registry that has the release"},
		{name: "credential", value: "NAME", usage: "the credential of that registry"},
		{name: "username", value: "NAME", usage: "the user's name at the registry, else the password is a token", unset: true},
		{name: "realm", value: "HOST", usage: "the host that gives out the registry's tokens, where that is another one", unset: true},
		{name: "canary", value: "N|N%", usage: "so many nodes get it first (1); 0: none"},
		{name: "steps", value: "N%,...", usage: "the waves after that, in percent of all nodes (100%)"},
		{name: "soak", value: "DURATION", usage: "so long a wave must have been well before the next one (10m)"},
		{name: "max-failed", value: "N|N%", usage: "so many nodes of a wave may fail (10%); of a canary none may"},
		{name: "go-back", usage: "where too many nodes fail, take all back to the release before"},
		{name: "pointer", value: "FILE", usage: "the pointer that an operator has signed (- is standard input)", unset: true},
		{name: "watch", usage: "go on until the rollout ends"},
		{name: "idle", usage: "nodes whose GPUs are all idle"},
		{name: "sort", value: "KEY", usage: "the order, such as name or -utilization"},
		{name: "once", usage: "print one picture, and end"},
		{name: "interval", value: "DURATION", usage: "the least time between two pictures (1s)", unset: true},
		{name: "free-memory", value: "SIZE", usage: "at least so much free memory on one GPU, such as 40GiB"},
		{name: "limit", value: "N", usage: "at most so many"},
		{name: "severe", usage: "only what keeps nodes from work"},
		{name: "off", usage: "switch the rule off"},
		{name: "cause", value: "CAUSE", usage: "alerts of this cause only; muster help alerts lists them"},
		{name: "reason", value: "TEXT", usage: "why, in one sentence"},
		{name: "severity", value: "SEVERITY", usage: "note, warn or severe: what is less severe is left out"},
		{name: "priority", value: "N", usage: "ntfy's priority, 1 to 5, else by severity"},
		{name: "by", value: "LABEL", usage: "a sum for each value of this label"},
		{name: "user", value: "USER", usage: "who it is on the node, else the user of the agent"},
		{name: "host", value: "HOST", usage: "where the port is, as the node sees it, else the node itself"},
		{name: "stdin", usage: "every node gets a copy of standard input"},
		{name: "speed", value: "N", usage: "so many times as fast as it was (1)"},
		{name: "idle-limit", value: "DURATION", usage: "the longest pause that is played (2s); 0: as it was"},
		{name: "raw", usage: "write the bytes as they are, also where no terminal is", unset: true},
		{name: "follow", short: "f", usage: "go on with new ones as they come"},
		{name: "source", value: "SOURCE", usage: "which log; may be repeated", unset: true},
		{name: "to", value: "URL", usage: "the Loki that takes the lines, such as https://loki.example", unset: true},
		{name: "auth-file", value: "FILE", usage: "file with USER:PASSWORD for it (- is standard input)", unset: true},
		{name: "bearer-file", value: "FILE", usage: "file with a bearer token for it (- is standard input)", unset: true},
		{name: "tenant-id", value: "ID", usage: "Loki's tenant: the header X-Scope-OrgID", unset: true},
		{name: "sink-ca", value: "FILE", usage: "PEM file with the root that vouches for it, instead of the system's", unset: true},
		{name: "rate", value: "SIZE", usage: "what a node may send in a second, such as 256KiB (64KiB)", unset: true},
		{name: "grep", value: "REGEXP", usage: "lines with this in them (RE2)", unset: true},
		{name: "lines", value: "N", usage: "of the lines that are there already, the last so many"},
		{name: "utc", usage: "times in UTC"},
	}
}

func allFlags() []flag { return append(globals(), ownFlags()...) }

func lookup(name string) (flag, bool) {
	for _, o := range allFlags() {
		if o.name == name || o.short != "" && o.short == name {
			return o, true
		}
	}
	return flag{}, false
}

// Variable is the environment variable of a flag, also of one that muster serve has.
func Variable(flagName string) string { return flag{name: flagName}.env() }
