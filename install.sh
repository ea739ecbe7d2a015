#!/bin/sh
# Makes this machine a node of a muster fleet. It fetches the agent from the gateway, compares it with the digest below, and runs
# `muster-agent join`, which does the rest and says what it does.
#
#   MUSTER_TOKEN=mse_... sh -c 's=$(unset MUSTER_TOKEN; curl -fsSL https://gw.example/install.sh) && eval "${s:?the download is empty}"' --
#   sh install.sh --gateway https://gw.example:7443 --token-file /run/token --label tier=spot
#
# The gateway fills in the constants. In a copy that did not come from a gateway they are empty. All the rest is one function, and the
# last line calls it in braces. So a download that broke off does nothing, wherever it broke off.

GATEWAY=''
ROOT_PIN=''
VERSION=''
CERTIFICATE=''
PINNED_KEY=''
SHA256_AMD64=''
SHA256_ARM64=''

main() {
	set -eu
	mask=$(umask)
	umask 077
	# Only the agent needs the token. No other program that runs here gets it in its environment.
	token=${MUSTER_TOKEN:-}
	unset MUSTER_TOKEN
	work='' next='' agent=''

	say() { printf '%s\n' "$*"; }

	# die WHAT [NEXT STEP] [STATUS]
	die() {
		printf 'install.sh: %s\n' "$1" >&2
		[ -z "${2:-}" ] || printf '  next: %s\n' "$2" >&2
		exit "${3:-1}"
	}

	usage() {
		say 'Makes this machine a node of a muster fleet.'
		say
		say 'Usage: sh install.sh [--gateway URL] [FLAGS of muster-agent join]'
		say
		say '  --gateway URL         the gateway; a copy that a gateway served knows its own'
		say '  --token-file FILE     the credential; better still in the environment, as MUSTER_TOKEN'
		say '  --token TOKEN         the credential; other users of this machine can see it while this script runs'
		say '  --name N, --label K=V and every other flag go to muster-agent join'
		say '  --check               say whether joining would work, and change nothing'
		say
		say 'Where the certificate of the gateway is not one that this system trusts, a copy from elsewhere needs one of:'
		say '  --pinned-key sha256//BASE64   its public key, as muster token create prints it (needs curl)'
		say '  --digest sha256:HEX           of the agent for this machine'
		say
		say 'Exit status: 0 done, 1 failed, 2 used wrongly.'
	}

	# take NAME VALUE: remembers a flag that this script itself needs. A given --root-pin replaces the one that the gateway filled in.
	take() {
		case $1 in
		gateway) gateway=$2 gateway_given=yes ;;
		root-pin) ROOT_PIN='' ;;
		state) base=$2 ;;
		token) token=$2 token_given=yes ;;
		token-file) token_file_given=yes ;;
		pinned-key) pinned_key=$2 trust=pin ;;
		digest) digest=${2#sha256:} digest_given=yes ;;
		esac
	}

	# check_gateway takes https and http URLs whose characters have no meaning for a shell.
	check_gateway() {
		[ -n "$gateway" ] || die 'which gateway?' 'give --gateway https://HOST, or use the command that muster token create prints' 2
		host=${gateway#https://} host=${host#http://} host=${host%/}
		case $gateway in
		https://* | http://*) ;;
		*) host='' ;;
		esac
		case $host in
		'' | *[!][0-9A-Za-z.:_-]*) die "--gateway $gateway is not a URL of a gateway" 'write https://HOST or https://HOST:PORT' 2 ;;
		esac
		url=${gateway%/}
		by_hand="./muster-agent join --gateway $url"
		token_command='command that muster token create prints'
	}

	check_flags() {
		[ -z "$pending" ] || die "--$pending needs a value" 'sh install.sh --help' 2
		[ -z "$token_given" ] || [ -z "$token_file_given" ] || die '--token and --token-file exclude each other' 'give one of them' 2
		case $pinned_key in
		*[!0-9A-Za-z+/=]*) die '--pinned-key is not a pin' 'write sha256//BASE64, as muster token create prints it' 2 ;;
		sha256//?* | '') ;;
		*) die '--pinned-key is not a pin' 'write sha256//BASE64, as muster token create prints it' 2 ;;
		esac
		[ -z "$digest_given" ] || hex64 "$digest" || die '--digest is not a digest' 'write sha256: and 64 digits of 0-9a-f' 2
		check_gateway
	}

	# hex64 TEXT: succeeds for the 64 digits of a SHA-256
	hex64() {
		case $1 in
		*[!0-9a-f]*) return 1 ;;
		esac
		[ ${#1} -eq 64 ]
	}

	platform() {
		system=$(uname -s) machine=$(uname -m)
		[ "$system" = Linux ] || die "the agent runs on Linux, and this is $system" 'run this on the machine that has the GPUs'
		case $machine in
		x86_64 | amd64) arch=amd64 known=$SHA256_AMD64 ;;
		aarch64 | arm64) arch=arm64 known=$SHA256_ARM64 ;;
		*) die "there is no agent for $machine" 'there are agents for x86_64 and aarch64 (64 bit) only' ;;
		esac
		[ -n "$digest" ] || digest=$known
		[ -n "$digest" ] || [ -z "$GATEWAY" ] || no_agent
	}

	no_agent() {
		die "the gateway $url carries no agent for linux/$arch" \
			'build the gateway with make build; or copy a muster-agent here and run: ./muster-agent join --gateway URL'
	}

	# base_folder finds the state directory as join does (identity.DefaultPath): the download should lie on the same file system.
	base_folder() {
		[ -z "$base" ] || return 0
		if [ "$(id -u)" = 0 ]; then
			base=/var/lib/muster-agent
			return
		fi
		case ${XDG_STATE_HOME:-} in
		/*) base=$XDG_STATE_HOME/muster-agent ;;
		*) [ -z "${HOME:-}" ] || base=$HOME/.local/state/muster-agent ;;
		esac
	}

	# standing FOLDER: prints the folder, or the nearest one above it that exists
	standing() {
		at=$1
		case $at in
		'') return 0 ;;
		/*) ;;
		*) at=./$at ;;
		esac
		while [ -n "$at" ] && [ ! -d "$at" ]; do at=${at%/*}; done
		say "$at"
	}

	has() { command -v "$1" >/dev/null 2>&1; }

	find_tools() {
		if has curl; then
			tool=curl
		elif has wget; then
			tool=wget
		else
			die 'there is neither curl nor wget here' \
				"install one of them (apt-get install curl, apk add curl, dnf install curl); or copy a muster-agent here and run: $by_hand"
		fi
		empty=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
		[ "$(sha256 /dev/null)" = $empty ] ||
			die 'nothing here computes SHA-256' 'install one of sha256sum (coreutils), shasum (perl), openssl, busybox'
	}

	# sha256 FILE: prints its digest in hex, or nothing where no tool for it is here
	sha256() {
		sum=$(sha256sum 2>/dev/null <"$1") || sum=$(shasum -a 256 2>/dev/null <"$1") ||
			sum=$(openssl dgst -sha256 -r 2>/dev/null <"$1") || sum=$(busybox sha256sum 2>/dev/null <"$1") || return 0
		say "${sum%% *}"
	}

	# with_curl URL FILE [FLAG...]: one attempt. It sets fault to the kind of failure, and code to the HTTP status if there is one.
	with_curl() {
		from=$1 to=$2
		shift 2
		# -g: the brackets of an IPv6 address are no pattern. The speed limit ends a transfer that hangs.
		set -- -fg --connect-timeout 20 --speed-limit 1024 --speed-time 30 -o "$to" -w '%{http_code}' "$@" "$from"
		if [ -t 2 ]; then set -- -# "$@"; else set -- -sS "$@"; fi
		case $trust in
		pin) set -- -k --pinnedpubkey "$pinned_key" "$@" ;;
		digest) set -- -k "$@" ;;
		esac
		status=0
		code=$(curl -q "$@") || status=$? # -q: no configuration file, which could turn the check of certificates off
		case $status:$code in
		0:200) fault='' ;;
		0:* | 22:*) fault=http ;;
		2:* | 4:*) fault=curl ;;
		23:*) fault=disk ;;
		51:* | 53:* | 58:* | 59:* | 60:* | 66:* | 77:* | 80:* | 82:* | 83:* | 91:*) fault=tls ;;
		90:*) fault=pin ;;
		*) fault=net ;;
		esac
	}

	# with_wget URL FILE [FLAG...]: the same. GNU's wget tells by its status what failed, busybox's by its text.
	with_wget() {
		from=$1 to=$2
		shift 2
		set -- -nv -t 1 -O "$to" "$@" "$from"
		[ "$trust" = system ] || set -- --no-check-certificate "$@"
		case $(wget --help 2>&1) in
		*--no-config*) set -- --no-config "$@" ;;
		esac
		status=0
		words=$(wget -T 30 "$@" 2>&1) || status=$?
		if [ $status = 139 ]; then # some builds of busybox crash with -T
			status=0
			words=$(wget "$@" 2>&1) || status=$?
		fi
		code=$(say "$words" | sed -n 's/.*ERROR \([0-9][0-9][0-9]\).*/\1/p; s/.*HTTP\/[0-9.]* \([0-9][0-9][0-9]\).*/\1/p')
		# busybox warns where it does not check a certificate, so the word "certificate" alone does not mean a failure.
		case $status:$code:$words in
		0:*) fault='' ;;
		*:[1-5]*:*) fault=http ;;
		*'No space left'* | *'short write'* | *'write error'* | 3:*) fault=disk ;;
		*'not an http or ftp url'* | *'TLS error'*) fault=wget ;;
		5:* | *'ertificate verif'*) fault=tls ;;
		*) fault=net ;;
		esac
		[ -z "$fault" ] || say "$words" >&2
	}

	attempt() {
		case $tool in
		curl) with_curl "$@" ;;
		wget) with_wget "$@" ;;
		esac
	}

	# fetch URL FILE [FLAG...]: downloads, and tries up to four times where the failure may pass by itself
	fetch() {
		for pause in 1 2 4 0; do
			attempt "$@"
			if [ "$fault" = curl ] && [ "$trust" = pin ] && [ -n "$digest" ]; then
				# This curl cannot check a pinned key. The digest of the download is checked all the same.
				trust=digest
				attempt "$@"
			fi
			[ -n "$fault" ] || return 0
			case $fault:$code in
			net:* | http:408 | http:429 | http:5*) ;;
			*) break ;;
			esac
			[ $pause = 0 ] || sleep $pause
		done
		explain "$1" "$2"
	}

	# explain URL FILE: says why a download failed, and ends
	explain() {
		case $fault:$code in
		http:404) no_agent ;;
		http:*) die "$1 answered with HTTP $code, which is not the gateway's way" \
			'a proxy or an edge between may have answered: fetch that URL from here by hand and read what it says' ;;
		disk:*)
			free=$(df -Pk "${2%/*}" 2>/dev/null | sed -n 's/.* \([0-9]*\) *[0-9]*% .*/\1 KiB free/p')
			die "the download cannot be written to ${2%/*}: $free" \
				'make room for about 20 MB, or give --state DIR on another file system' ;;
		tls:*) die "the certificate of $url is not one that this system trusts" \
			"look at the clock (date) and at the ca-certificates package; for a gateway with its own certificate use the $token_command" ;;
		pin:*) die "$url does not have the key that it should have" \
			'something between answers in its place; or the gateway has a new key: get the command anew with muster token create' ;;
		wget:*) die "this wget does not speak the gateway's TLS" "install curl, or GNU wget; or copy a muster-agent here and run: $by_hand" ;;
		curl:*) die "this curl cannot check a pinned key" 'give --digest sha256:HEX of the agent instead, or take a newer curl' ;;
		*) die "$1 cannot be fetched from here" \
			'check the address, the firewall and the proxy (https_proxy, http_proxy, no_proxy) on the way to the gateway' ;;
		esac
	}

	# read_manifest asks the gateway for the digest of the agent. Only TLS proves that answer, so it refuses every way without a check.
	read_manifest() {
		case $trust:$tool:$url in
		*:*:http://*) die 'over plain HTTP nothing vouches for the agent' 'give --digest sha256:HEX of the agent, or an https URL' ;;
		pin:wget:*) die 'wget cannot check a pinned key' 'install curl, or give --digest sha256:HEX of the agent' ;;
		system:wget:*)
			case $(wget --help 2>&1) in
			*[Bb]usy[Bb]ox*) die "busybox's wget checks no certificate" 'install curl, or give --digest sha256:HEX of the agent' ;;
			esac
			;;
		esac
		# No redirects: one could lead away from TLS.
		case $tool in
		curl) fetch "$url/agent" "$work/manifest" ;;
		wget) fetch "$url/agent" "$work/manifest" --max-redirect=0 ;;
		esac
		list=$(tr -d ' \t\r\n' <"$work/manifest" | tr '{' '\n')
		digest=$(say "$list" | sed -n "/\"os\":\"linux\"/{ /\"arch\":\"$arch\"/s/.*\"sha256\":\"\([0-9a-f]*\)\".*/\1/p; }")
		case $list in
		*'"platforms":'*) [ -n "$digest" ] || no_agent ;;
		esac
		hex64 "$digest" || die "what $url/agent answers is no list of agents" 'check that the URL is that of a muster gateway'
	}

	# installed: succeeds where join has installed this very agent already
	installed() {
		at=$base/current/muster-agent
		[ -n "$base" ] && [ -n "$digest" ] && [ -x "$at" ] && [ "$(sha256 "$at")" = "$digest" ] || return 1
		"$at" version >/dev/null 2>&1 || return 1
		agent=$at
		say "the agent is here already: sha256:$digest"
	}

	download() {
		say "fetching the agent${VERSION:+ $VERSION} for linux/$arch from $url"
		case $tool in
		curl) fetch "$url/agent/linux/$arch?sha256=$digest" "$work/muster-agent" -L ;;
		wget) fetch "$url/agent/linux/$arch?sha256=$digest" "$work/muster-agent" ;;
		esac
		got=$(sha256 "$work/muster-agent")
		if [ "$got" != "$digest" ]; then
			case $(head -c 1 "$work/muster-agent") in
			'<') die 'a web page came instead of the agent: a proxy or an edge answered' "fetch $url/agent by hand and read what it says" ;;
			esac
			die "the agent that came is not the one to be expected: sha256:$got instead of sha256:$digest" \
				'something between changed it, or the gateway was updated just now: get this script anew; nothing was installed'
		fi
		chmod 700 "$work/muster-agent"
		say "fetched: sha256:$digest, as it should be"
	}

	# move_to FOLDER: makes a private work folder in FOLDER, and moves the agent there if it was downloaded already
	move_to() {
		[ -n "$1" ] && [ "$1" != / ] && [ -d "$1" ] && [ -w "$1" ] || return 1
		next=$(mktemp -d "${1%/}/.muster-install.XXXXXX" 2>/dev/null) || return 1
		if [ -n "$work" ]; then
			mv "$work/muster-agent" "$next/muster-agent" 2>/dev/null || return 1
			rm -rf "$work"
		fi
		work=$next next=''
	}

	# obtain puts the agent where it can run, if possible on the file system where it will stay: /tmp is often noexec.
	obtain() {
		installed && return 0
		reason='none of them can be written'
		for folder in "$(standing "$base")" "${HOME:-}" /tmp /dev/shm /run; do
			if ! move_to "$folder"; then
				[ -z "$next" ] || rm -rf "$next"
				next=''
				continue
			fi
			if [ -z "$digest" ]; then
				read_manifest
				installed && return 0
			fi
			[ -f "$work/muster-agent" ] || download
			agent=$work/muster-agent
			reason=$("$agent" version 2>&1) && return 0
		done
		die "the agent cannot run from ${base:-the home folder}, ${HOME:-the home folder}, /tmp, /dev/shm or /run: $reason" \
			'give --state DIR on a file system that is writable and not mounted noexec'
	}

	gateway=${GATEWAY:-${MUSTER_GATEWAY:-}} base=${MUSTER_STATE:-} pinned_key=$PINNED_KEY digest=''
	gateway_given='' token_given='' token_file_given='' digest_given=''
	case $CERTIFICATE in
	own) trust=pin ;;
	plain) trust=digest ;;
	*) trust=system ;;
	esac
	pending=''
	for argument do
		shift
		name=$pending
		if [ -n "$pending" ]; then
			pending=''
			take "$name" "$argument"
		else
			case $argument in
			-h | -help | --help)
				usage
				exit 0
				;;
			--) continue ;; # the command that was pasted ends with one already
			-gateway | -root-pin | -state | -token | -token-file | -pinned-key | -digest) name=${argument#-} pending=$name ;;
			--gateway | --root-pin | --state | --token | --token-file | --pinned-key | --digest) name=${argument#--} pending=$name ;;
			-*=*)
				name=${argument%%=*}
				name=${name#-} name=${name#-}
				take "$name" "${argument#*=}"
				;;
			esac
		fi
		case $name in
		token | pinned-key | digest) ;; # the agent gets the token in its environment; the other two are for this script alone
		*) set -- "$@" "$argument" ;;
		esac
	done
	check_flags
	[ -z "$digest_given" ] || [ "$trust" = pin ] || trust=digest
	[ -z "$ROOT_PIN" ] || set -- --root-pin "$ROOT_PIN" "$@"
	[ -n "$gateway_given" ] || set -- --gateway "$gateway" "$@"

	trap 'rm -rf ${work:+"$work"} ${next:+"$next"}' EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	{
		platform
		base_folder
		find_tools
		obtain
	} </dev/null # what comes on standard input is for --token-file -
	# Not exec: this script still has to remove the download when join has copied the agent to its place.
	umask "$mask"
	status=0
	if [ -n "$token" ]; then
		MUSTER_TOKEN=$token "$agent" join "$@" || status=$?
	else
		"$agent" join "$@" || status=$?
	fi
	exit "$status"
}

{ main "$@"; }
