package rent

import (
	"strings"

	"muster/gateway/internal/provider/cloud"
)

// script is what a machine runs at each of its starts: it joins the fleet, and where it has joined, it has its agent run. command is that
// of a token; it has the token in its environment alone. A company keeps the script, so the token in it is of one use.
func script(kind, command string) string {
	if kind == cloud.Lambda {
		command += " --provider " + cloud.Lambda // nothing on such a machine says whose it is
	}
	return strings.Replace(startScript, "COMMAND", command, 1)
}

const startScript = `#!/bin/sh
# Joins this machine to a muster fleet. It may run any number of times.
export HOME="${HOME:-/root}"
agent=/var/lib/muster-agent
program=$agent/current/muster-agent
join() {
	if [ -s $agent/identity.json ] && [ -x $program ]; then
		$program join && return
	fi
	command -v curl >/dev/null 2>&1 || {
		apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y curl ca-certificates || apk add curl || dnf install -y curl
	} >/dev/null 2>&1
	COMMAND
}
tries=0
until join; do
	tries=$((tries + 1))
	[ $tries -lt 60 ] || exit 1
	sleep 30
done
`
