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
PACKAGE_REF=''
PACKAGE_DIGEST=''
CHANNEL=''
SEQUENCE=''
LAYER_AMD64=''
LAYER_ARM64=''
RESOLVE_ADDRESS=''
INSTALL_RUNTIME=''
RUNTIME_PACKAGE=''
REGISTRY=''
LOGIN=''
TOKEN_ID=''
FETCH=''
SECRET=''
PROFILE=''
# shellcheck disable=SC2016 # it is a script of its own
APPLY=''
RESTART=''
ROOTS=''

main() {
	set -eu
	umask 077

	# seconds since the machine started: the clock of one that has just done so may jump
	seconds() { sed 's/\..*//' /proc/uptime; }

	# Only the agent needs the token, and what the caller's muster is set to is not this node's: none of it stays in the
	# environment of what runs here.
	given=${MUSTER_TOKEN:-}
	for name in $(env | sed -n 's/^\(MUSTER_[0-9A-Za-z_]*\)=.*/\1/p') SSLKEYLOGFILE POSIXLY_CORRECT; do
		unset "$name"
	done
	conf=/etc/muster base=/var/lib/muster-agent lock=/run/muster-bootstrap.lock
	token_file=$conf/bootstrap-token bundle=$conf/ca-bundle.crt settings=$conf/agent.env restarted=$conf/profile-restarted
	work='' credential='' token='' is='' locked='' authorization='' leaver='' number=0 status=0 steps=8
	[ -z "$PROFILE" ] || steps=9
	if [ -n "$PROFILE" ] && [ -n "$APPLY" ] && [ "$RESTART" = yes ] && [ "$MODE" = cloud_init ] &&
		[ "$(cat "$restarted" 2>/dev/null)" != "$PROFILE" ]; then
		steps=10
	fi
	began=$(seconds)
	export HOME="${HOME:-/root}" # cloud-init sets none, and the runtimes keep their login there
	host=${GATEWAY#https://} host_port=${GATEWAY#https://}
	case $host in
	\[*) host=${host%%]*} host=${host#\[} ;;
	*) host=${host%%:*} ;;
	esac

	say() { printf '%s\n' "$*"; }

	# step WHAT: names what happens now
	step() {
		number=$((number + 1))
		say "[$number/$steps] $*"
	}
	found() { say "      $*"; }

	# die WHAT NEXT [STATUS]: ends with what is wrong and what to do
	die() {
		printf 'bootstrap: %s\n  next: %s\n' "$1" "$2" >&2
		or_leave
		exit "${3:-1}"
	}

	# or_leave says how to take back what was done, once there is an agent that can
	or_leave() { [ -z "$leaver" ] || printf '  or give it up, and take away all that was put here: %s leave\n' "$leaver" >&2; }

	has() { command -v "$1" >/dev/null 2>&1; }

	clean() { rm -rf ${work:+"$work"} ${credential:+"$credential"}; }

	# at_boot: cloud-init's machine is one that systemd runs, for it has to come back after a reboot without anybody there.
	at_boot() {
		[ "$MODE" != cloud_init ] || [ -d /run/systemd/system ] || die 'systemd does not run this machine, and a bootstrap by cloud-init is for one that it runs; nothing was written' \
			"boot an image with systemd; or bootstrap this machine by hand: muster bootstrap $NODE_NAME --mode manual"
	}

	# alone: one run at a time. The lock goes with its process, whatever ends that; what runs below does not hold it.
	alone() {
		[ "$(id -u)" = 0 ] || die 'this needs root, for it installs a service' \
			'run the same as root, for instance at the end: | sudo sh; a token in MUSTER_TOKEN does not get through sudo: take a root shell (sudo -i)'
		has flock || return 0
		[ -w /run ] || lock=/var/lib/muster-bootstrap.lock
		(: >>"$lock") 2>/dev/null || die "$lock cannot be written" 'make room there, or mend the mount, then run this again'
		exec 9>>"$lock"
		flock -n 9 || die "another bootstrap runs ($(sed -n 1p "$lock"))" 'wait until it has ended, and read what it says; then run this again if need be' 75
		locked=yes
		say $$ >"$lock"
	}

	# node_here is the id of the node that this machine is; nothing where it is none
	node_here() {
		sed -n 's/.*"node_id": *"\([^"]*\)".*/\1/p' "$base/identity.json" 2>/dev/null | sed -n 1p
	}

	# kept NAME: what a setting of the agent here is
	kept() {
		[ ! -f "$settings" ] || sed -n "s/^$1=//p" "$settings" | tr -d "\"'\r"
	}

	check_machine() {
		[ "$(uname -s)" = Linux ] || die 'a node runs Linux' 'run this on the machine that has the GPUs'
		case $(uname -m) in
		x86_64 | amd64) arch=amd64 digest=$SHA256_AMD64 layer=$LAYER_AMD64 ;;
		aarch64 | arm64) arch=arm64 digest=$SHA256_ARM64 layer=$LAYER_ARM64 ;;
		*) die "there is no agent for $(uname -m)" 'there are agents for x86_64 and aarch64 (64 bit) only' ;;
		esac
		[ -n "$digest" ] || die "the gateway $GATEWAY carried no agent for linux/$arch when this script was made" \
			"build the gateway with make build, then get a new script: muster bootstrap $NODE_NAME"
		joined=$(kept MUSTER_GATEWAY)
		case $joined in
		'' | "$GATEWAY" | "$GATEWAY/") ;;
		*) die "this machine is joined to $joined already" 'leave that gateway first: muster-agent leave' ;;
		esac
		elsewhere=$(kept MUSTER_STATE)
		case ${elsewhere%/} in
		'' | "$base") ;;
		*) [ ! -e "$elsewhere/identity.json" ] || die "this machine has an agent already, in $elsewhere" 'leave with that one first: muster-agent leave' ;;
		esac
		is=$(node_here)
		case $is in
		'' | "$NODE_ID") ;;
		*) die "this machine is node $is already, and this script is for $NODE_NAME ($NODE_ID)" \
			"muster-agent leave, which takes a waiting first hop along, then a new script: muster bootstrap $NODE_NAME; where the disk is only a copy of that node's, which goes on elsewhere: stop muster-agent and remove $base and $settings instead" ;;
		esac
	}

	# take_token finds the token: in this script, in MUSTER_TOKEN, or in the file that cloud-init or a helper wrote. An editor may
	# have put a byte order mark before it, or two bytes where one belongs.
	take_token() {
		prefix=${TOKEN_ID}_$FETCH.
		if [ -n "$SECRET" ]; then
			token=$prefix$SECRET
		elif [ -n "$given" ]; then
			token=$(printf '%s' "$given" | tr -d ' \t\r\n\357\273\277')
		elif [ -f "$token_file" ]; then
			token=$(tr -d ' \t\r\n\000\357\273\277\376\377' <"$token_file")
		fi
		given='' SECRET=''
		case $token in
		'') [ "$is" = "$NODE_ID" ] || die 'the bootstrap token is missing' \
			"set MUSTER_TOKEN for this script (in a root shell, for sudo drops it), or write the token to $token_file; muster bootstrap $NODE_NAME mints a new one" ;;
		"${prefix%.}" | "$prefix") die 'this is only the fetch part of the bootstrap token: what stands behind the dot is missing' \
			"give the whole token, as muster bootstrap $NODE_NAME printed it" ;;
		"$prefix"*)
			part=${token#"$prefix"}
			case ${#part}:$part in
			*:*[!0-9A-Za-z]*) part='' ;;
			28:*) ;;
			*) part='' ;;
			esac
			[ -n "$part" ] || die 'the bootstrap token is mistyped or cut off' "copy it again, as muster bootstrap $NODE_NAME printed it" ;;
		*) die "the token is another one than this script's, $TOKEN_ID" \
			"take script and token of one command: muster bootstrap $NODE_NAME; an old $token_file may be removed" ;;
		esac
	}

	directories() {
		step "directories $conf and $base"
		mkdir -p "$conf" "$base" || die "$conf or $base cannot be made" 'mend what is said above (a full disk, a read-only file system?), then run this again'
		chmod 700 "$conf" "$base"
		for left in "$base"/.bootstrap.* "$conf"/.bootstrap.* /etc/.bootstrap.* /etc/cloud/templates/.bootstrap.* /run/muster-credential.*; do # of a run that was killed
			pid=${left%.*}
			if [ -n "$locked" ] || ! kill -0 "${pid##*.}" 2>/dev/null; then rm -rf "$left"; fi
		done
		work=$(mktemp -d "$base/.bootstrap.$$.XXXXXX") || die "$base cannot be written" 'make room there, then run this again'
		mkdir "$work/none" || die "$base cannot be written" 'make room there, then run this again'
	}

	# put FILE MODE: standard input becomes this file, whole or not at all
	put() {
		new=''
		new=$(mktemp "${1%/*}/.bootstrap.$$.XXXXXX") && chmod "$2" "$new" && cat >"$new" && mv -f "$new" "$1" && return 0
		rm -f ${new:+"$new"}
		die "$1 cannot be written: $(df -Pk "${1%/*}" 2>/dev/null | sed -n 's/.* \([0-9][0-9]*\)  *[0-9]*% .*/\1 KiB free/p')" \
			'make room, or mend what is said above, then run this again'
	}

	trust() {
		step "trust: $bundle, set $TRUST_NUMBER, root $ROOT_PIN"
		printf '%s\n' "$ROOTS" | put "$bundle" 644
	}

	# hosts makes the gateway's name resolve where the operator said that it does not by itself, and takes back what an earlier
	# bootstrap said of it.
	hosts() {
		line=''
		if [ -z "$RESOLVE_ADDRESS" ]; then
			step "name of the gateway: $host, as this machine resolves it"
		else
			step "name of the gateway: $host is $RESOLVE_ADDRESS, by /etc/hosts"
			line="$RESOLVE_ADDRESS $host # muster-bootstrap"
			[ -e /etc/hosts ] || (umask 022 && : >/etc/hosts) 2>/dev/null || :
		fi
		if ! override /etc/hosts 2>"$work/why"; then
			found "not written, going on without: $(sed -n 1p "$work/why")"
			[ -z "$line" ] || found "where $host does not resolve by other means, add this line to /etc/hosts: $line"
		fi
		# Where cloud-init manages /etc/hosts, it writes it anew from one of these at every boot.
		for template in /etc/cloud/templates/host*.tmpl; do
			[ ! -f "$template" ] || override "$template" 2>/dev/null || found "$template cannot be written: a reboot may undo this"
		done
		[ -n "$line" ] && has getent || return 0
		first=$(getent ahosts "$host" | sed -n '1s/ .*//p')
		[ "$first" = "$(getent ahosts "$RESOLVE_ADDRESS" | sed -n '1s/ .*//p')" ] ||
			found "but this machine takes ${first:-nothing} for $host: look at the other lines of /etc/hosts, and at /etc/nsswitch.conf"
	}

	# override FILE: the line first, for the first one counts, but behind a template's head, and no line of an earlier bootstrap.
	# Links are followed. In containers the file is a mount, which takes no other in its place.
	override() {
		[ -e "$1" ] || [ -n "$line" ] || return 0
		at=$(readlink -f "$1" 2>/dev/null) || at=$1
		[ -w "$at" ] || { say "$1 is read-only" >&2; return 1; }
		head=$(sed -n '1{/^## *template:/p;}' "$at")
		{ [ -z "$head" ] || say "$head"; } >"$work/hosts" && { [ -z "$line" ] || say "$line"; } >>"$work/hosts" &&
			sed -e '1{/^## *template:/d;}' -e '/ # muster-bootstrap[[:space:]]*$/d' "$at" >>"$work/hosts" || return 1
		[ -z "$(tail -c 1 "$work/hosts")" ] || echo >>"$work/hosts" || return 1
		[ "$(cat "$work/hosts")" != "$(cat "$at")" ] || return 0
		cp -p "$at" "$work/before" || return 1
		if new=$(mktemp "${at%/*}/.bootstrap.$$.XXXXXX" 2>/dev/null); then
			if ! cp -p "$at" "$new" || ! cat "$work/hosts" >"$new"; then
				rm -f "$new"
				return 1
			elif mv -f "$new" "$at" 2>/dev/null; then
				! has restorecon || restorecon "$at" || :
				return 0
			fi
			rm -f "$new"
		fi
		cat "$work/hosts" >"$at" && return 0
		cat "$work/before" >"$at"
		return 1
	}

	# environment writes what the agent is started with. What else stands there already stays; the token and the root's pin, which
	# are for one enrolment, never do.
	environment() {
		step "settings: $settings"
		{
			say '# The settings of muster-agent. The key and certificate of the node are one file, MUSTER_IDENTITY. The keys are'
			say '# those of the day of the bootstrap; which ones count, the agent learns from the gateway.'
			for pair in "GATEWAY=$GATEWAY" "NODE_URL=$GATEWAY" "NODE_ID=$NODE_ID" "NAME=$NODE_NAME" "CA_BUNDLE=$bundle" \
				"STATE=$base" "IDENTITY=$base/identity.json" "PROGRAM=$base/current/muster-agent" "TRUST_KEY=$TRUST_KEY" \
				"ANSWER_KEYS=$ANSWER_KEYS" "TASK_KEYS=$TASK_KEYS" "RELEASE_KEYS=$RELEASE_KEYS"; do
				say "MUSTER_$pair"
			done
			[ ! -f "$settings" ] || sed -n '/^[A-Za-z_]/p' "$settings" |
				grep -Ev '^MUSTER_(GATEWAY|NODE_URL|NODE_ID|NAME|ROOT_PIN|CA_BUNDLE|STATE|IDENTITY|PROGRAM|TRUST_KEY|ANSWER_KEYS|TASK_KEYS|RELEASE_KEYS|TOKEN|TOKEN_FILE)=' || :
		} | put "$settings" 600
		[ -z "$token" ] || printf '%s\n' "$token" | put "$token_file" 600
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

	# fetch URL FILE [TYPE]: over HTTPS. A registry elsewhere may keep its blobs in yet another place. The tools follow nothing by themselves:
	# some of them would give authorization to that place as well. It is for its own host alone.
	fetch() {
		! ask "$@" || return 0
		for _ in 1 2 3; do
			case $url in
			"$GATEWAY"/*) return 1 ;;
			esac
			case $code in
			30[12378]) ;;
			*) return 1 ;;
			esac
			here=${url#https://} here=${here%%[/?]*}
			case $moved in
			*[!A-Za-z0-9:/._~%?=\&+,\;@!*\(\)-]*) return 1 ;;
			//*) moved=https:$moved ;;
			/*) moved=https://$here$moved ;; # curl says it whole, wget as it came
			https://*) ;;
			*) return 1 ;;
			esac
			there=${moved#https://} there=${there%%[/?]*}
			case $there in
			*@*) return 1 ;;
			"$here") ;;
			*) authorization='' ;;
			esac
			! ask "$moved" "$2" "${3:-*/*}" || return 0
		done
		return 1
	}

	# ask URL FILE [TYPE]: once. Where the gateway's certificate is its own, this script's trust alone counts: not what the
	# system trusts, nor what a configuration file says. A URL may hold the token, so it stands in no program's arguments. code is
	# the HTTP status, refused the gateway's word for a refusal; what the tool said is in $work/why. authorization, where it is set, goes
	# along as a header, in no argument either. moved is where a redirect leads to.
	ask() {
		url=$1 to=$2 type=${3:-*/*} code='' moved='' refused='' failed=0 roots=$CERTIFICATE
		case $url in
		"$GATEWAY"/*) ;;
		*) roots=system ;;
		esac
		case $tool in
		curl) with_curl || failed=$? ;;
		wget) with_wget || failed=$? ;;
		esac
		case $failed:$code in
		0:2??) return 0 ;;
		esac
		case $code in
		[1345]??) refused=$(sed -n 's/.*"code": *"\([a-z_]*\)".*/\1/p' "$to" 2>/dev/null) || : ;;
		esac
		return 1
	}

	with_curl() {
		set --
		[ "$roots" != own ] || set -- --cacert "$bundle" --capath "$work/none"
		code=$(printf '%surl = "%s"\n' "${authorization:+header = \"Authorization: $authorization\"
}" "$url" | curl -qgsS --proto =https --connect-timeout 20 --speed-limit 1024 --speed-time 30 --retry 3 --retry-delay 2 \
			-H "Accept: $type" -o "$to" -w '%{http_code} %{redirect_url}' "$@" -K - 2>"$work/why") || failed=$?
		moved=${code#* } code=${code%% *}
		return "$failed"
	}

	# with_wget: a wget with GnuTLS leaves the system's trust out where it is given a folder, one with OpenSSL asks the environment.
	with_wget() {
		set -- --no-config
		if [ -n "$authorization" ]; then
			printf 'header = Authorization: %s\n' "$authorization" >"$work/wgetrc"
			set -- --config="$work/wgetrc"
		fi
		[ "$roots" != own ] || set -- "$@" --ca-certificate="$bundle" --ca-directory="$work/none"
		printf '%s\n' "$url" >"$work/url" # wget2 reads no list from a pipe
		if (
			[ "$roots" != own ] || export SSL_CERT_FILE="$bundle" SSL_CERT_DIR="$work/none"
			LC_ALL=C exec wget "$@" -nv -S --https-only --max-redirect=0 --content-on-error -t 3 -T 30 --header="Accept: $type" -O "$to" -i "$work/url"
		) 2>"$work/why"; then
			code=200
			return 0
		fi
		code=$(sed -n 's/.*HTTP\/[0-9.]* \([1-5][0-9][0-9]\).*/\1/p' "$work/why" | sed -n '$p')
		moved=$(sed -n 's/^ *[Ll]ocation: *\([^ ]*\).*/\1/p' "$work/why" | sed -n '$p')
		return 1
	}

	agent() {
		find_tool
		step "agent for linux/$arch, ${PACKAGE_REF:-sha256:$digest}"
		offer
		program=$base/current/muster-agent
		if [ -x "$program" ] && [ "$(sha256 "$program")" = "$digest" ]; then
			found 'installed already'
			leaver=$program
			return
		fi
		program=$work/muster-agent
		from_registry || from_gateway
		chmod 700 "$program"
		why=$("$program" version 2>&1) || die "the agent does not run from $base: $why" 'is its file system mounted noexec? make it executable, then run this again'
		found 'fetched, as it should be'
		leaver=$base/.bootstrap-agent # stays until the join is done
		mv -f "$program" "$leaver" || die "$leaver cannot be written" 'mend what is said above, then run this again'
		program=$leaver
	}

	from_gateway() {
		fetch "$GATEWAY/agent/linux/$arch" "$program" || unreachable "the agent cannot be fetched from $GATEWAY/agent/linux/$arch"
		got=$(sha256 "$program")
		[ "$got" = "$digest" ] || die "the agent that came is not the one to be expected: sha256:$got" \
			"the gateway was updated since, or something between changed it: get a new script with muster bootstrap $NODE_NAME; nothing was installed"
	}

	# offer asks what the channel of this node points at now. The answer has four lines: the pointer and its signature in base64, where
	# the agent's layer is, and the header that opens that place for some minutes. Only the signature decides what is installed. Where
	# none can be checked, it is what this script was made with.
	offer() {
		place='' opens='' signed="$work/signed" pointer="$work/pointer"
		[ -n "$PACKAGE_DIGEST" ] || return 0
		if ! fetch "$GATEWAY/api/v1/bootstrap/nodes/${TOKEN_ID}_$FETCH/release?arch=$arch" "$work/offer" text/plain || [ ! -s "$work/offer" ]; then
			found "the gateway does not say what its channel $CHANNEL points at (${refused:-HTTP ${code:-none}}): taking the release of this script"
			return 0
		fi
		place=$(sed -n 3p "$work/offer") opens=$(sed -n 4p "$work/offer")
		case $place$opens in
		*[!A-Za-z0-9:/._~%?=\&+\ -]*) place='' ;;
		esac
		if newest=$(pointed); then
			read -r media content digest release sequence <<-END
				$newest
			END
			layer="$media $content"
			found "release $release by the signature of channel $CHANNEL, number $sequence"
			return 0
		fi
		found "${newest:-the pointer of channel $CHANNEL cannot be checked here}: taking the release of this script"
		case $place in # the same registry, and the layer that this script names
		*/sha256:*) place=${place%/sha256:*}/sha256:${layer#* } ;;
		*) place='' ;;
		esac
	}

	# pointed checks the pointer, and says: media type and digest of the layer, digest of the program, release, number. Where it fails it says
	# why. What it reads was signed before, and JSON has no quote behind a comma or a brace within a text: so its patterns find members alone.
	pointed() {
		[ -n "$(sed -n 1p "$work/offer")" ] || { say "the rollout on channel $CHANNEL is not through"; return 1; }
		has openssl || { say 'there is no openssl to check a signature with'; return 1; }
		sed -n 1p "$work/offer" | openssl base64 -d -A >"$pointer" 2>/dev/null && sed -n 2p "$work/offer" | openssl base64 -d -A >"$signed" 2>/dev/null || return 1
		kind=application/vnd.muster.release+json
		{ printf 'DSSEv1 %s %s %s ' ${#kind} "$kind" "$(($(wc -c <"$pointer")))" && cat "$pointer"; } >"$work/text" || return 1
		by_release_key || { say 'no release key of this script has signed the pointer, or this openssl is too old'; return 1; }
		{ cat "$pointer" && echo; } >"$work/lines" || return 1
		sed -n 's/^{"channel":"\([a-z0-9._-]*\)","seq":\([0-9]\{1,18\}\),"digest":"sha256:\([0-9a-f]\{64\}\)","size":[0-9]*,.*/\1 \2 \3/p' "$work/lines" >"$work/head"
		read -r of sequence release <"$work/head" || { say 'the pointer is of another form than this script knows'; return 1; }
		[ "$of" = "$CHANNEL" ] || { say "the pointer is of the channel $of"; return 1; }
		[ "$sequence" -ge "$SEQUENCE" ] || { say "the pointer has the number $sequence, which is older than $SEQUENCE"; return 1; }
		timely || { say "the pointer is not valid at $(date -u '+%Y-%m-%dT%H:%M:%SZ')"; return 1; }
		entry=$(tr '{' '\n' <"$work/lines" | sed -n 's|^"os":"linux","arch":"'"$arch"'","media_type":"\([a-z0-9.+/-]*\)","digest":"sha256:\([0-9a-f]\{64\}\)","size":[0-9]*,"program":"sha256:\([0-9a-f]\{64\}\)",.*|\1 \2 \3|p')
		[ -n "$entry" ] || { say "the release has no agent for linux/$arch"; return 1; }
		say "$entry sha256:$release $sequence"
	}

	# by_release_key: one of the keys has signed the text. The prefix makes a key in the form that openssl reads of its 32 bytes.
	by_release_key() {
		for key in $(say "$RELEASE_KEYS" | tr , ' '); do
			printf -- '-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA%s\n-----END PUBLIC KEY-----\n' "$key" >"$work/key"
			openssl pkeyutl -verify -rawin -pubin -inkey "$work/key" -sigfile "$signed" -in "$work/text" >/dev/null 2>&1 && return 0
		done
		return 1
	}

	timely() {
		sed -n 's/.*\],"not_before":"\([-0-9T:]*\)[.0-9]*Z","expires":"\([-0-9T:]*\)[.0-9]*Z"}$/\1 \2/p' "$work/lines" | tr -d 'T:-' >"$work/dates"
		read -r since until <"$work/dates" && now=$(date -u '+%Y%m%d%H%M%S') || return 1
		[ ${#since}${#until} = 1414 ] && [ "$since" -le "$now" ] && [ "$now" -lt "$until" ]
	}

	# from_registry fetches the layer, and unpacks the program where it is in an archive. Both have to be what they should be.
	from_registry() {
		[ -n "$place" ] || return 1
		case $place in
		/*) place=$GATEWAY$place ;;
		https://*) ;;
		*) return 1 ;;
		esac
		authorization=$opens
		fetch "$place" "$work/layer" || place=''
		authorization=''
		if [ -z "$place" ]; then
			said
			found "not from the registry (${refused:-HTTP ${code:-none}}): trying the gateway's own agent"
			return 1
		fi
		[ "$(sha256 "$work/layer")" = "${layer#* }" ] || { found "what came from the registry is not the layer to be expected: trying the gateway's own agent"; return 1; }
		case ${layer% *} in
		*tar+gzip | *tar.gzip) gzip -dc <"$work/layer" | tar -xOf - >"$program" ;;
		*tar) tar -xOf "$work/layer" >"$program" ;;
		*) mv "$work/layer" "$program" ;;
		esac || return 1
		rm -f "$work/layer"
		[ "$(sha256 "$program")" = "$digest" ] || { found "the registry's layer holds another agent than it should: trying the gateway's own one"; return 1; }
	}

	# said shows what the tool said, without the token of a URL.
	said() { sed 's/msb_[0-9A-Za-z_.]*/msb_.../g' "$work/why" >&2 2>/dev/null || :; }

	unreachable() {
		said
		case $code in
		[345]??) die "$1: HTTP $code${refused:+, $refused}" "look at the gateway's log, or at what stands between; then run this again" ;;
		esac
		certified="of the root in $bundle"
		[ "$CERTIFICATE" = own ] || certified='one that this system trusts (the package ca-certificates)'
		die "$1" "read what is said above: the name $host has to resolve (--bootstrap-resolve-address of muster serve helps), its port to be open, here and at the proxy of this environment if it names one, its certificate to be $certified, the disk to have room, and the clock to be right ($(date -u '+%Y-%m-%dT%H:%M:%SZ') now); then run this again"
	}

	# profile prepares the host for its profile. The helper agrees before anything is changed for it: a machine that was set up for another
	# one is not fit for this one.
	profile() {
		[ -n "$PROFILE" ] || return 0
		step "profile $PROFILE"
		"$program" profile apply "$PROFILE" || die "this machine is not for the profile $PROFILE, as it says above" \
			'install its system anew, or give its node the profile that it is set up for' 78
		if [ "$(cat "$restarted" 2>/dev/null)" = "$PROFILE" ]; then
			found 'applied, and this machine was restarted for it'
			return
		fi
		[ -n "$APPLY" ] || return 0
		printf '%s\n' "$APPLY" >"$work/profile" || die "$base cannot be written" 'make room there, then run this again'
		sh -eu "$work/profile" "$program" || die "what the profile $PROFILE needs cannot be done" 'mend what it says above, then run this again'
		if [ "$RESTART" = yes ] && [ "$MODE" = cloud_init ]; then
			# Once: the mark is on the disk before. The first hop's unit goes on after the restart.
			printf '%s\n' "$PROFILE" | put "$restarted" 644
			sync
			step 'restart, for what the profile changes of the kernel'
			! systemctl reboot || sleep 900 # the restart ends this
		fi
		found 'applied; what it changes of the kernel counts from the next boot on'
	}

	find_engines() {
		engines=''
		for engine in docker podman nerdctl; do
			! has $engine || engines="$engines $engine"
		done
	}

	# unfinished: whether an earlier run has begun to install the runtime, and nobody has installed another one by hand since
	unfinished() {
		[ -e "$begun" ] || return 1
		[ -n "$engines" ] || return 0
		# shellcheck disable=SC2016 # it is dpkg-query's own
		case $(dpkg-query -W -f '${db:Status-Status}' "$RUNTIME_PACKAGE" 2>/dev/null) in
		half-* | unpacked | triggers-* | installed) return 0 ;;
		esac
		rm -f "$begun"
		return 1
	}

	# runtime installs a container runtime where there is none and the operator of the gateway wants it so.
	runtime() {
		find_engines
		begun=$base/.runtime-begun # stands until the runtime is installed and started: a run that was cut off left half of it
		if ! unfinished && [ -n "$engines" ]; then
			step "container runtime:$engines"
			return
		fi
		if [ "$INSTALL_RUNTIME" != yes ]; then
			step 'container runtime: none here, and the gateway is set to install none'
			return
		fi
		step "container runtime: none here, installing $RUNTIME_PACKAGE with apt-get"
		has apt-get || die 'there is no apt-get here to install a container runtime with' \
			"install docker, podman or nerdctl by hand, then run this again; or start the gateway with --bootstrap-install-container-runtime=false, then muster bootstrap $NODE_NAME"
		found "the token ends 15 minutes after its script was fetched, and this began $((($(seconds) - began) / 60)) minutes ago: another apt is waited for 3 minutes at most"
		: >"$begun"
		export DEBIAN_FRONTEND=noninteractive
		# What an interrupted run left has to be finished before anything else can be installed.
		! has dpkg || dpkg --configure -a --force-confdef --force-confold || :
		apt-get update || found 'the package lists are not new: trying with those that there are'
		set -- "$RUNTIME_PACKAGE" # Debian 13 has the command docker in a package of its own
		[ "$1" != docker.io ] || ! apt-cache show docker-cli >/dev/null 2>&1 || set -- "$@" docker-cli
		apt-get -o DPkg::Lock::Timeout=180 -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold install -y --no-remove --no-install-recommends "$@" ||
			die "apt-get cannot install $RUNTIME_PACKAGE" 'mend what it says above (network, sources, another apt at work), or install a container runtime by hand; then run this again'
		find_engines
		[ -n "$engines" ] || die "$RUNTIME_PACKAGE brought none of docker, podman and nerdctl" 'set --bootstrap-container-runtime-package of muster serve to a package that does'
		printf 'runtime %s\n' "$*" >>"$base/.bootstrap-stays" # for the agent's leave, which names it
		start_engines
		rm -f "$begun"
		found "installed:$engines"
	}

	start_engines() {
		[ -d /run/systemd/system ] || return 0
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
				printf '%s\n' "$ROOTS" | put "$folder/$at/ca.crt" 644
			done
		fi
		[ -n "$REGISTRY" ] && [ -n "$token" ] || return 0
		if [ "$LOGIN" != yes ]; then
			found "no login: the gateway is behind a proxy, which must not see the token; where $REGISTRY wants one, log in by hand"
			return
		fi
		credential=$(mktemp "/run/muster-credential.$$.XXXXXX" 2>/dev/null) || credential=$(mktemp "$work/credential.XXXXXX")
		if ! fetch "$GATEWAY/api/v1/bootstrap/nodes/$token/registry-credential" "$credential" text/plain; then
			not_lent
		elif [ ! -s "$credential" ]; then
			found 'no credential is configured: no login'
		else
			login
		fi
		rm -f "$credential"
	}

	# not_lent: a token that is used is no trouble to the node that it made.
	not_lent() {
		case $code:$refused in
		401:* | 409:* | 410:* | *:token_expired | *:token_revoked)
			[ "$is" = "$NODE_ID" ] || die "the token is good no more (HTTP $code${refused:+, $refused})" "mint a new one: muster bootstrap $NODE_NAME"
			found "no credential any more (${refused:-HTTP $code}): this node is enrolled, and logged in where it did so before"
			;;
		403:*) found "no login: this gateway lends no credential here (${refused:-HTTP 403})" ;;
		*) unreachable 'the credential for the registry cannot be fetched' ;;
		esac
	}

	login() {
		user=$(sed -n 1p "$credential")
		for engine in $engines; do
			set -- login
			[ "$engine" != podman ] || set -- login --authfile "$HOME/.docker/config.json" # its usual place is gone after a reboot
			sed 1d "$credential" | $engine "$@" --username "$user" --password-stdin "$REGISTRY" >"$work/login" 2>&1 ||
				die "$engine cannot log in to $REGISTRY: $(sed -n '$p' "$work/login")" 'check --bootstrap-registry and its credential on the gateway, and that the registry answers; then run this again'
			printf 'login %s %s\n' "$engine" "$REGISTRY" >>"$base/.bootstrap-stays"
			found "$engine is logged in"
		done
	}

	join() {
		step "joining as $NODE_NAME"
		set -- join --gateway "$GATEWAY" --root-pin "$ROOT_PIN" --name "$NODE_NAME" --state "$base"
		[ -z "$token" ] || set -- "$@" --token-file "$token_file"
		token=''
		"$program" "$@" || status=$?
	}

	guide() {
		if [ $status != 0 ]; then
			printf 'bootstrap: the agent did not join, as it says above\n  next: mend that, then run this again; the token stays in %s until it is used. A new one: muster bootstrap %s\n' "$token_file" "$NODE_NAME" >&2
			or_leave
			exit $status
		fi
		is=$(node_here)
		[ "$is" = "$NODE_ID" ] || die "this machine is node ${is:-that nobody knows} now, and not $NODE_NAME ($NODE_ID)" 'muster-agent leave, then run this again'
		rm -f "$token_file" "$base/.bootstrap-agent"
		say "done: this machine is node $NODE_NAME ($NODE_ID) of $GATEWAY"
		say "      here: $base/current/muster-agent status    on the gateway: muster node show $NODE_NAME"
	}

	trap clean EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	at_boot
	alone
	{
		check_machine
		take_token
		directories
		trust
		hosts
		environment
		agent
		profile
		runtime
		registry
		join
		guide
	} </dev/null 9>&-
}

{ main "$@"; }
