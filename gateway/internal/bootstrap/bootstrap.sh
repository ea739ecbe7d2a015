#!/bin/sh
# Makes this machine one node of a muster fleet: the node that the bootstrap token in here was minted for. A gateway rendered
# it and checks nothing more: its SHA-256 is what the operator was shown.
#
# The constants come first. All the rest is one function, called on the last line in braces: a script that was cut off does
# nothing, and one that was stopped goes on where it ended when it is run again.

MODE=''
NODE_ID=''
NODE_NAME=''
GATEWAY=''
CERTIFICATE=''
ROOT_PIN=''
TRUST_NUMBER=''
TRUST_KEY=''
ANSWER_KEYS=''
TASK_KEYS=''
RELEASE_KEYS=''
SHA256_AMD64=''
SHA256_ARM64=''
RESOLVE_ADDRESS=''
INSTALL_RUNTIME=''
RUNTIME_PACKAGE=''
REGISTRY=''
TOKEN_ID=''
FETCH=''
SECRET=''
ROOTS=''

main() {
	set -eu
	umask 077
	# Only the agent needs the token: it is taken out of the environment of everything that runs here.
	given=${MUSTER_TOKEN:-}
	unset MUSTER_TOKEN
	conf=/etc/muster base=/var/lib/muster-agent
	token_file=$conf/bootstrap-token bundle=$conf/ca-bundle.crt settings=$conf/agent.env
	work='' credential='' token='' number=0 status=0
	HOME=${HOME:-/root} # cloud-init sets none, and the runtimes keep their login there
	export HOME
	host=${GATEWAY#https://}
	host_port=$host
	case $host in
	\[*) host=${host%%]*} host=${host#\[} ;;
	*) host=${host%%:*} ;;
	esac

	say() { printf '%s\n' "$*"; }

	# step WHAT: names what happens now
	step() {
		number=$((number + 1))
		say "[$number/8] $*"
	}

	found() { say "      $*"; }

	# die WHAT NEXT: ends with what is wrong and what to do
	die() {
		printf 'bootstrap: %s\n  next: %s\n' "$1" "$2" >&2
		exit 1
	}

	has() { command -v "$1" >/dev/null 2>&1; }

	clean() { rm -rf ${work:+"$work"} ${credential:+"$credential"}; }

	check_machine() {
		[ "$(id -u)" = 0 ] || die 'this needs root, for it installs a service' 'run the same as root, for instance at the end: | sudo sh'
		[ "$(uname -s)" = Linux ] || die 'a node runs Linux' 'run this on the machine that has the GPUs'
		case $(uname -m) in
		x86_64 | amd64) arch=amd64 digest=$SHA256_AMD64 ;;
		aarch64 | arm64) arch=arm64 digest=$SHA256_ARM64 ;;
		*) die "there is no agent for $(uname -m)" 'there are agents for x86_64 and aarch64 (64 bit) only' ;;
		esac
		[ -n "$digest" ] || die "the gateway $GATEWAY carried no agent for linux/$arch when this script was made" \
			"build the gateway with make build, then get a new script: muster bootstrap $NODE_NAME"
		joined=''
		[ ! -f "$settings" ] || joined=$(sed -n 's/^MUSTER_GATEWAY=//p' "$settings" | tr -d "\"'")
		case $joined in
		'' | "$GATEWAY" | "$GATEWAY/") ;;
		*) die "this machine is joined to $joined already" 'leave that gateway first: muster-agent leave' ;;
		esac
	}

	# take_token finds the token: in this script, in MUSTER_TOKEN, or in the file that cloud-init or a helper wrote.
	take_token() {
		prefix=${TOKEN_ID}_$FETCH.
		if [ -n "$SECRET" ]; then
			token=$prefix$SECRET
		elif [ -n "$given" ]; then
			token=$given
		elif [ -f "$token_file" ]; then
			token=$(tr -d ' \t\r\n' <"$token_file")
		fi
		given='' SECRET=''
		case $token in
		'') [ -f "$base/identity.json" ] || die 'the bootstrap token is missing' \
			"set MUSTER_TOKEN for this script, or write the token to $token_file; muster bootstrap $NODE_NAME mints a new one" ;;
		"$prefix"?*) ;;
		*) die "the token is another one than this script's, $TOKEN_ID" \
			"take script and token of one command: muster bootstrap $NODE_NAME; an old $token_file may be removed" ;;
		esac
	}

	directories() {
		step "directories $conf and $base"
		mkdir -p "$conf" "$base" || die "$conf or $base cannot be made" 'mend what is said above (a full disk, a read-only file system?), then run this again'
		chmod 700 "$conf" "$base"
		for left in "$base"/.bootstrap.*; do # of a run that was killed
			pid=${left##*/.bootstrap.}
			kill -0 "${pid%%.*}" 2>/dev/null || rm -rf "$left"
		done
		work=$(mktemp -d "$base/.bootstrap.$$.XXXXXX") || die "$base cannot be written" 'make room there, then run this again'
	}

	# put FILE: standard input becomes this file, whole or not at all
	put() {
		cat >"$1.new" && mv -f "$1.new" "$1" && return 0
		rm -f "$1.new"
		die "$1 cannot be written: $(df -Pk "${1%/*}" 2>/dev/null | sed -n 's/.* \([0-9][0-9]*\)  *[0-9]*% .*/\1 KiB free/p')" \
			'make room, or mend what is said above, then run this again'
	}

	trust() {
		step "trust: $bundle, set $TRUST_NUMBER, root $ROOT_PIN"
		printf '%s\n' "$ROOTS" | put "$bundle"
		chmod 644 "$bundle"
	}

	# hosts makes the gateway's name resolve where the operator said that it does not by itself.
	hosts() {
		if [ -z "$RESOLVE_ADDRESS" ]; then
			step "name of the gateway: $host, as this machine resolves it"
			return
		fi
		step "name of the gateway: $host is $RESOLVE_ADDRESS, by /etc/hosts"
		line="$RESOLVE_ADDRESS $host # muster-bootstrap"
		if grep -Fqx -e "$line" /etc/hosts 2>/dev/null; then
			found 'there already'
		elif ! override 2>"$work/why"; then
			found "not written, going on without: $(sed -n 1p "$work/why")"
			found "where $host does not resolve by other means, add this line to /etc/hosts: $line"
		fi
		# Where cloud-init manages /etc/hosts, it writes it anew from these at every boot.
		for template in /etc/cloud/templates/hosts.*.tmpl; do
			[ -f "$template" ] || continue
			grep -Fqx -e "$line" "$template" || printf '%s\n' "$line" >>"$template" || :
		done
	}

	# override puts the line first, for the first one counts. In containers the file is a mount, which takes no other in its place.
	override() {
		[ -f /etc/hosts ] || touch /etc/hosts || return 1
		[ -w /etc/hosts ] || { say '/etc/hosts is read-only' >&2; return 1; }
		if ! { say "$line" && sed '/ # muster-bootstrap$/d' /etc/hosts; } >/etc/hosts.muster || ! chmod 644 /etc/hosts.muster; then
			rm -f /etc/hosts.muster
			return 1
		fi
		mv -f /etc/hosts.muster /etc/hosts 2>/dev/null && return 0
		cat /etc/hosts.muster >/etc/hosts && rm -f /etc/hosts.muster && return 0
		rm -f /etc/hosts.muster
		return 1
	}

	# environment writes what the agent is started with. What else stands there already stays; the token never does.
	environment() {
		step "settings: $settings"
		{
			say '# The settings of muster-agent. The key and certificate of the node are one file, MUSTER_IDENTITY. The keys are'
			say '# those of the day of the bootstrap; which ones count, the agent learns from the gateway.'
			for pair in "GATEWAY=$GATEWAY" "NODE_URL=$GATEWAY" "NODE_ID=$NODE_ID" "NAME=$NODE_NAME" "ROOT_PIN=$ROOT_PIN" "CA_BUNDLE=$bundle" \
				"STATE=$base" "IDENTITY=$base/identity.json" "PROGRAM=$base/current/muster-agent" "TRUST_KEY=$TRUST_KEY" \
				"ANSWER_KEYS=$ANSWER_KEYS" "TASK_KEYS=$TASK_KEYS" "RELEASE_KEYS=$RELEASE_KEYS"; do
				say "MUSTER_$pair"
			done
			[ ! -f "$settings" ] || sed -n '/^[A-Za-z_]/p' "$settings" |
				grep -Ev '^MUSTER_(GATEWAY|NODE_URL|NODE_ID|NAME|ROOT_PIN|CA_BUNDLE|STATE|IDENTITY|PROGRAM|TRUST_KEY|ANSWER_KEYS|TASK_KEYS|RELEASE_KEYS|TOKEN|TOKEN_FILE)=' || :
		} | put "$settings"
		[ -z "$token" ] || printf '%s\n' "$token" | put "$token_file"
	}

	find_tool() {
		if has curl; then
			tool=curl
		elif has wget; then
			tool=wget
			case $(wget --help 2>&1) in
			*[Bb]usy[Bb]ox*) die "the wget here is busybox's, which checks no certificate" 'install curl or GNU wget, then run this again' ;;
			esac
		else
			die 'there is neither curl nor wget here' 'install one of them (apt-get install curl, dnf install curl), then run this again'
		fi
		empty=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
		[ "$(sha256 /dev/null)" = $empty ] || die 'nothing here computes SHA-256' 'install coreutils (sha256sum) or openssl, then run this again'
	}

	# sha256 FILE: its digest in hex; nothing where no tool is here
	sha256() {
		sum=$(sha256sum 2>/dev/null <"$1") || sum=$(openssl dgst -sha256 -r 2>/dev/null <"$1") || return 0
		say "${sum%% *}"
	}

	# fetch FILE [HEADER]: what the URL on standard input gives, over HTTPS with this script's trust. A URL may hold the token,
	# so it stands in no argument.
	fetch() {
		IFS= read -r url
		to=$1
		header=${2:-'Accept: */*'}
		case $tool:$CERTIFICATE in
		curl:own) set -- --cacert "$bundle" ;;
		wget:own) set -- --ca-certificate="$bundle" ;;
		*) set -- ;;
		esac
		case $tool in
		curl) printf 'url = "%s"\n' "$url" | curl -gfsS --proto =https --connect-timeout 20 --speed-limit 1024 --speed-time 30 --retry 3 --retry-delay 2 \
			-H "$header" -o "$to" "$@" -K - ;;
		wget) printf '%s\n' "$url" | wget -nv --https-only --max-redirect=0 -t 3 -T 30 --header="$header" -O "$to" "$@" -i - ;;
		esac
	}

	agent() {
		find_tool
		step "agent for linux/$arch, sha256:$digest"
		program=$base/current/muster-agent
		if [ -x "$program" ] && [ "$(sha256 "$program")" = "$digest" ]; then
			found 'installed already'
			return
		fi
		program=$work/muster-agent
		printf '%s\n' "$GATEWAY/agent/linux/$arch" | fetch "$program" || unreachable "the agent cannot be fetched from $GATEWAY/agent/linux/$arch"
		got=$(sha256 "$program")
		[ "$got" = "$digest" ] || die "the agent that came is not the one to be expected: sha256:$got" \
			"the gateway was updated since, or something between changed it: get a new script with muster bootstrap $NODE_NAME; nothing was installed"
		chmod 700 "$program"
		why=$("$program" version 2>&1) || die "the agent does not run from $base: $why" 'is its file system mounted noexec? make it executable, then run this again'
		found 'fetched, as it should be'
	}

	unreachable() {
		die "$1" "read what is said above: the name $host has to resolve (--bootstrap-resolve-address of muster serve helps), its port to be open, the disk to have room, and the clock to be right ($(date -u '+%Y-%m-%dT%H:%M:%SZ') now); then run this again"
	}

	find_engines() {
		engines=''
		for engine in docker podman nerdctl; do
			! has $engine || engines="$engines $engine"
		done
	}

	# runtime installs a container runtime where there is none and the operator of the gateway wants it so.
	runtime() {
		find_engines
		begun=$base/.runtime-begun # stands until the runtime is installed and started: a run that was cut off left half of it
		if [ -n "$engines" ] && [ ! -e "$begun" ]; then
			step "container runtime:$engines"
			return
		fi
		if [ "$INSTALL_RUNTIME" != yes ]; then
			step 'container runtime: none here, and the gateway does not ask for one'
			return
		fi
		step "container runtime: none here, installing $RUNTIME_PACKAGE with apt-get"
		has apt-get || die 'there is no apt-get here to install a container runtime with' 'install docker, podman or nerdctl by hand, then run this again'
		: >"$begun"
		DEBIAN_FRONTEND=noninteractive
		export DEBIAN_FRONTEND
		# What an interrupted run left has to be finished before anything else can be installed.
		! has dpkg || dpkg --configure -a || :
		apt-get -o DPkg::Lock::Timeout=300 update || found 'the package lists are not new: trying with those that there are'
		apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$RUNTIME_PACKAGE" ||
			die "apt-get cannot install $RUNTIME_PACKAGE" 'mend what it says above (network, sources, another apt at work), or install a container runtime by hand; then run this again'
		find_engines
		[ -n "$engines" ] || die "$RUNTIME_PACKAGE brought none of docker, podman and nerdctl" 'set --bootstrap-container-runtime-package of muster serve to a package that does'
		if [ -d /run/systemd/system ]; then
			for engine in $engines; do
				case $engine in
				docker) unit=docker.service ;;
				nerdctl) unit=containerd.service ;;
				*) continue ;;
				esac
				if ! systemctl enable --no-reload "$unit" || ! systemctl start "$unit"; then
					die "$unit does not start" "see: journalctl -u $unit; then run this again"
				fi
			done
		fi
		rm -f "$begun"
		found "installed:$engines"
	}

	# registry makes the runtimes trust the registry and logs in, where the gateway has a credential to lend.
	registry() {
		at=${REGISTRY:-$host_port}
		if [ -z "$engines" ]; then
			step "registry $at: nothing to do without a container runtime"
			return
		fi
		step "registry $at: trust"
		if [ -n "$REGISTRY" ] || [ "$CERTIFICATE" = own ]; then
			for folder in /etc/docker/certs.d /etc/containers/certs.d; do
				(umask 022 && mkdir -p "$folder/$at") || die "$folder/$at cannot be made" 'mend what is said above, then run this again'
				printf '%s\n' "$ROOTS" | put "$folder/$at/ca.crt"
				chmod 644 "$folder/$at/ca.crt"
			done
		fi
		[ -n "$REGISTRY" ] && [ -n "$token" ] || return 0
		credential=$(mktemp /run/muster-credential.XXXXXX 2>/dev/null) || credential=$(mktemp "$work/credential.XXXXXX")
		if ! printf '%s\n' "$GATEWAY/api/v1/bootstrap/nodes/$token/registry-credential" | fetch "$credential" 'Accept: text/plain' 2>"$work/why"; then
			# A used token gets no credential any more; a node that is there already has logged in.
			[ ! -f "$base/identity.json" ] || { found 'no credential any more: the token is used'; return 0; }
			unreachable "the credential for the registry cannot be fetched: $(sed -n '$ { s/msb_[0-9A-Za-z_.]*/msb_.../g; p; }' "$work/why")"
		fi
		if [ ! -s "$credential" ]; then
			found 'no credential is configured: no login'
			return
		fi
		user=$(sed -n 1p "$credential")
		for engine in $engines; do
			set -- login
			[ "$engine" != podman ] || set -- login --authfile "$HOME/.docker/config.json" # its usual place is gone after a reboot
			sed 1d "$credential" | $engine "$@" --username "$user" --password-stdin "$REGISTRY" >"$work/login" 2>&1 ||
				die "$engine cannot log in to $REGISTRY: $(sed -n '$p' "$work/login")" 'check --bootstrap-registry and its credential on the gateway, and that the registry answers; then run this again'
			found "$engine is logged in"
		done
		rm -f "$credential"
	}

	join() {
		step "joining as $NODE_NAME"
		[ "$MODE" != cloud_init ] || [ -d /run/systemd/system ] || found 'systemd is not at work here: the agent takes what there is'
		set -- join --gateway "$GATEWAY" --root-pin "$ROOT_PIN" --name "$NODE_NAME"
		[ -z "$token" ] || set -- "$@" --token-file "$token_file"
		token=''
		"$program" "$@" || status=$?
	}

	guide() {
		if [ $status != 0 ]; then
			printf 'bootstrap: the agent did not join, as it says above\n  next: mend that, then run this again; the token stays in %s until then. A new one: muster bootstrap %s\n' "$token_file" "$NODE_NAME" >&2
			exit $status
		fi
		rm -f "$token_file"
		say "done: this machine is node $NODE_NAME ($NODE_ID) of $GATEWAY"
		say "      here: $base/current/muster-agent status    on the gateway: muster node show $NODE_NAME"
	}

	trap clean EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	{
		check_machine
		take_token
		directories
		trust
		hosts
		environment
		agent
		runtime
		registry
		join
		guide
	} </dev/null
}

{ main "$@"; }
