package cli

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/gateway/internal/client"
)

// option is one flag. Each is also the environment variable MUSTER_<NAME>.
type option struct {
	name  string
	short string // one letter, may be empty
	value string // what stands for its value in help; empty: it takes none
	usage string
	unset bool // no environment variable
}

func (o option) env() string {
	return "MUSTER_" + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// globals are the flags of every command.
func globals() []option {
	return []option{
		{name: "data", value: "DIR", usage: "the gateway's data directory, where its socket is"},
		{name: "url", value: "URL", usage: "a gateway on another machine; needs MUSTER_API_TOKEN"},
		{name: "token-file", value: "FILE", usage: "file with the API token, instead of MUSTER_API_TOKEN (- is standard input)"},
		{name: "root-pin", value: "PIN", usage: "trust the gateway whose root key is sha256:<hex>"},
		{name: "ca", value: "FILE", usage: "trust the certificates in this file instead of the system's"},
		{name: "help", short: "h", usage: "show help", unset: true},
	}
}

// ownOptions are the flags that only some commands take. A name means the same wherever it stands.
func ownOptions() []option {
	return []option{
		{name: "output", short: "o", value: "FORMAT", usage: "table, wide or json, unless this help says otherwise"},
		{name: "selector", short: "l", value: "SELECTOR", usage: "nodes whose labels match, such as tier=sovereign,tenant=platform"},
		{name: "status", value: "STATUS", usage: "pending, online or stale"},
		{name: "state", value: "STATE", usage: "such as active, drained or unavailable"},
		{name: "all", short: "a", usage: "also what is retired, spent or revoked"},
		{name: "tenant", value: "TENANT", usage: "the tenant"},
		{name: "uses", value: "N", usage: "how many nodes may join with it (1)"},
		{name: "ttl", value: "DURATION", usage: "how long it is good for"},
		{name: "label", value: "KEY=VALUE", usage: "a label for the nodes that join; may be repeated"},
		{name: "gpus", value: "N", usage: "how many GPUs its nodes should show"},
		{name: "bind-instance", usage: "a use belongs to the provider's instance, which may join again after losing its disk"},
		{name: "mode", value: "MODE", usage: "manual, or cloud-init for a machine that takes user-data at its first boot"},
		{name: "again", usage: "also where the node has enrolled already: another machine takes its place"},
		{name: "scope", value: "SCOPES", usage: "what the account may, such as nodes:read,tokens:write; may be repeated"},
		{name: "generate", usage: "let the gateway make the secret, and print it once"},
		{name: "file", value: "FILE", usage: "file with the secret (- is standard input)"},
		{name: "keep", value: "ID", usage: "the one that stays"},
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
		{name: "since", value: "DURATION", usage: "from so long ago on, such as 1h or 7d"},
		{name: "limit", value: "N", usage: "at most so many"},
		{name: "follow", short: "f", usage: "go on with new ones as they come"},
	}
}

func allOptions() []option { return append(globals(), ownOptions()...) }

func lookup(name string) (option, bool) {
	for _, o := range allOptions() {
		if o.name == name || o.short != "" && o.short == name {
			return o, true
		}
	}
	return option{}, false
}

// settings are the flags of one call over the environment.
type settings struct {
	values map[string][]string
	getenv func(string) string
}

// split parts words from flags, which may stand anywhere; "--" ends them.
func split(args []string) (words []string, s settings, err error) {
	s.values = map[string][]string{}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(words, args[i+1:]...), s, nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			words = append(words, arg)
			continue
		}
		name, value, inline := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		o, known := lookup(name)
		switch {
		case !known:
			return nil, s, unknownFlag(arg, name)
		case o.value == "" && inline && value != "true":
			return nil, s, usagef("write --"+o.name+" alone", "--%s takes no value", o.name)
		case o.value == "":
			value = "true"
		case !inline && i+1 == len(args):
			return nil, s, usagef("write --"+o.name+" "+o.value, "--%s needs a value", o.name)
		case !inline:
			i++
			value = args[i]
		}
		s.values[o.name] = append(s.values[o.name], value)
	}
	return words, s, nil
}

// unknownFlag says what there is instead. arg is the flag as it was written.
func unknownFlag(arg, name string) error {
	var names []string
	for _, o := range allOptions() {
		names = append(names, o.name)
	}
	hint := "muster --help shows what there is"
	if name == "token" || name == "secret" || name == "psk" {
		hint = "secrets do not stand in arguments, which every user of the machine can read; use MUSTER_API_TOKEN, --token-file or --file"
	} else if close := nearest(name, names); close != "" {
		hint = "did you mean --" + close + "?"
	}
	written, _, _ := strings.Cut(arg, "=")
	return usagef(hint, "there is no flag %s", written)
}

func (s settings) given(name string) bool { return len(s.values[name]) > 0 }

// text is a flag's last value, else the environment's.
func (s settings) text(name string) string {
	if values := s.values[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	if o, known := lookup(name); known && !o.unset && s.getenv != nil {
		return s.getenv(o.env())
	}
	return ""
}

func (s settings) flag(name string) (bool, error) {
	text := s.text(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, usagef("true or false", "%s has the value %q", s.source(name), text)
	}
	return on, nil
}

func (s settings) number(name string, least int) (int, error) {
	text := s.text(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, usagef("a whole number from "+strconv.Itoa(least), "%s has the value %q", s.source(name), text)
	}
	return n, nil
}

func (s settings) duration(name string, usual time.Duration) (time.Duration, error) {
	text := s.text(name)
	if text == "" {
		return usual, nil
	}
	d, err := client.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, usagef("such as 30m, 12h or 7d", "%s has the value %q, which is no duration", s.source(name), text)
	}
	return d, nil
}

func (s settings) oneOf(name, usual string, known ...string) (string, error) {
	text := s.text(name)
	if text == "" {
		return usual, nil
	}
	if !slices.Contains(known, text) {
		return "", usagef("one of "+strings.Join(known, ", "), "%s has the value %q", s.source(name), text)
	}
	return text, nil
}

// labels reads KEY=VALUE; the environment has them with commas between.
func (s settings) labels() (map[string]string, error) {
	values := s.values["label"]
	if len(values) == 0 && s.text("label") != "" {
		values = strings.Split(s.text("label"), ",")
	}
	labels := make(map[string]string, len(values))
	for _, text := range values {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, usagef("write --label tier=sovereign", "%q is no label", text)
		}
		labels[key] = value
	}
	return labels, nil
}

// list gives the values of a flag that may be repeated, each of which may hold several with commas between.
func (s settings) list(name string) []string {
	values := s.values[name]
	if len(values) == 0 {
		values = []string{s.text(name)}
	}
	return strings.FieldsFunc(strings.Join(values, ","), func(r rune) bool { return r == ',' || r == ' ' })
}

// source names where a value came from, for messages.
func (s settings) source(name string) string {
	if o, known := lookup(name); known && !s.given(name) {
		return o.env()
	}
	return "--" + name
}
