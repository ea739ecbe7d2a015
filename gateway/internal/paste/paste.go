// Package paste makes the commands that an operator pastes on another machine, so that it fetches a script from the gateway
// and runs it with a token.
//
// They work in bash, dash, busybox's shell, zsh and fish (from 3.1 on). These shells differ, so everything that they could read differently
// stands in single quotes, and sh reads it.
//
// A download that fails ends the command with its status, and none of the script has run; a pipe into a shell would seem to end well.
// An empty download fails too: captive portals and edges answer so. The token is in the environment of the script alone, and never in
// arguments.
package paste

import "strings"

// Download is a script to fetch, and what proves it: the gateway's pinned key, a digest, or, without either, a certificate that the
// machine trusts. No value holds a single quote: each is a URL as muster.CheckURL takes it, base64 or hex.
type Download struct {
	URL       string
	Resolve   string // HOST:PORT:ADDRESS for a machine that cannot resolve the name; empty: it can
	PinnedKey string // sha256//BASE64
	Digest    string // hex SHA-256 of the script
}

// Command returns the line to paste. What a person writes behind it, such as --name gpu-1, goes to the script: sh takes the first word
// behind its commands for its own name, and the line has that word.
func (d Download) Command(token string) string {
	return "MUSTER_TOKEN=" + token + " sh -c '" + d.script() + "' --"
}

const (
	bare = "unset MUSTER_TOKEN; "                   // keeps the token out of what the download inherits
	run  = ` && eval "${s:?the download is empty}"` // to a shell, an empty script is one that ended well
	tidy = `trap "rm -f \"\$f\"" EXIT && (` + bare  // the folder for such files may have blanks in its name
)

func (d Download) script() string {
	switch {
	case d.PinnedKey != "":
		return `s=$(` + bare + `curl -fsSLk --pinnedpubkey "` + d.PinnedKey + `" ` + d.from() + `)` + run
	case d.Digest != "":
		return `f=$(mktemp) && ` + tidy + `curl -fsSL ` + d.from() + ` -o "$f") && echo "` + d.Digest +
			`  $f" | sha256sum -c - && sh "$f" "$@"`
	}
	return `s=$(` + bare + `curl -qfsSL ` + d.from() + `)` + run
}

// from is the URL, quoted where brackets around an IPv6 address would be a pattern.
func (d Download) from() string {
	from := d.URL
	if strings.ContainsAny(from, "[]") {
		from = `"` + from + `"`
	}
	if d.Resolve != "" {
		from = "--resolve " + d.Resolve + " " + from
	}
	return from
}
