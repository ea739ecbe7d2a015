#!/bin/sh
# The first hop of cloud-init: fetches this node's bootstrap script, checks it against the SHA-256 below, and runs it. What
# came of it stands in /run/muster-bootstrap.status, in cloud-init's log and on the console. Whatever may pass by itself is
# tried again for as long as the token can live, by a unit that goes on after a reboot too.

URL=''
SHA256=''
NODE_ID=''
NODE_NAME=''
LIMIT=''
PATIENCE=180 # seconds that a boot waits

main() {
	umask 077
	conf=/etc/muster program=/var/lib/muster-agent/current/muster-agent identity=/var/lib/muster-agent/identity.json
	script=/run/muster-bootstrap.sh unit=muster-first-hop.service
	by=${1:-} why='' told='' code='' last=1 fetched='' new=''
	blind='' # yes: what stands in a refusal may be missing; wget keeps none of a 401, busybox's none at all

	seconds() { read -r up _ </proc/uptime && printf '%s\n' "${up%%.*}"; } # with what every shell has: tools may be lost

	has() { command -v "$1" >/dev/null 2>&1; }

	tell() {
		printf 'muster bootstrap of %s: %s\n' "$NODE_NAME" "$1"
		(printf 'muster bootstrap of %s: %s\n' "$NODE_NAME" "$1" >/dev/console) 2>/dev/null || :
	}

	note() { printf '%s\n' "$1" >/run/muster-bootstrap.status; }

	# stay keeps a unit for the next boot, which goes on with this and shows what is wrong. The link comes first: a unit without
	# it, after a power cut between the two, would be forgotten, and a link without its unit is nothing.
	stay() {
		has systemctl || return 1
		[ "$by" != unit ] || return 0
		mkdir -p /etc/systemd/system/multi-user.target.wants && ln -sf ../$unit /etc/systemd/system/multi-user.target.wants/$unit || return 1
		printf '%s\n' '[Unit]' "Description=muster bootstrap of $NODE_NAME" 'Wants=network-online.target' 'After=network-online.target' \
			'[Service]' 'Environment=HOME=/root' "ExecStart=/bin/sh $conf/first-hop.sh unit" '[Install]' 'WantedBy=multi-user.target' >/etc/systemd/system/.$unit &&
			chmod 644 /etc/systemd/system/.$unit && mv -f /etc/systemd/system/.$unit /etc/systemd/system/$unit
	}

	# finish STATUS WHAT
	finish() {
		note "$1 $2"
		rm -rf ${new:+"$new"}
		if [ "$1" = 0 ]; then
			tell "$2"
			rm -f "$script" "$conf/first-hop.sh" "$conf/bootstrap-token"
			if [ -e /etc/systemd/system/$unit ]; then
				systemctl disable --no-reload $unit
				rm -f /etc/systemd/system/$unit /etc/systemd/system/multi-user.target.wants/$unit
				systemctl reset-failed $unit 2>/dev/null || :
			fi
		else
			tell "FAILED ($1): $2"
		fi
		exit "$1"
	}

	promised() {
		[ -f "$1" ] || return 1
		got=$(sha256sum <"$1") || got=$(openssl dgst -sha256 -r <"$1") || finish 127 'nothing here computes SHA-256: add coreutils to the image'
		got=${got%% *}
		[ "$got" = "$SHA256" ]
	}

	# get puts what comes into $new/script, bounded in size and time; code is the HTTP status, where there is one.
	get() {
		code=''
		if has curl; then
			code=$(ulimit -f 8192 && curl -qgsSk --connect-timeout 10 --max-time 60 --max-filesize 4000000 -w '%{http_code}' -o "$new/script" "$URL" 2>"$new/why") || return 1
		elif has wget; then
			blind=yes
			set -- -S -O "$new/script" --no-check-certificate
			case $(wget --help 2>&1) in
			*--no-config*) set -- --no-config --content-on-error -T 30 "$@" ;; # some builds of busybox die of -T
			esac
			! has timeout || set -- timeout 120 wget "$@"
			[ "$1" = timeout ] || set -- wget "$@"
			(ulimit -f 8192 && LC_ALL=C "$@" "$URL") 2>"$new/why" && code=200
			[ -n "$code" ] || code=$(sed -n 's/.*HTTP\/[0-9.]* \([1-5][0-9][0-9]\).*/\1/p' "$new/why" | sed -n '$p')
		else
			finish 127 'there is neither curl nor wget in this image: add one to it'
		fi
		[ "$code" = 200 ]
	}

	# take fetches the script, unless it is here. Only the gateway's own answers that cannot change are final: not an edge's page.
	take() {
		if promised "$script" || { get && promised "$new/script" && mv -f "$new/script" "$script"; }; then
			fetched=${fetched:-$(seconds)}
			return 0
		elif [ "$code" = 200 ]; then
			why="the script is not the one that was promised (SHA-256 ${got:-none}): something between changed it; nothing was run"
			return 1
		fi
		case $code in
		401 | 403 | 404 | 409 | 410)
			if grep -q '"code": *"' "$new/script" 2>/dev/null || { [ -n "$blind" ] && [ ! -s "$new/script" ]; }; then
				finish 22 "the gateway refused the script at ${URL%%/api/*} (HTTP $code): the token has ended or is used; muster bootstrap $NODE_NAME mints a new one"
			fi
			;;
		esac
		why="the script cannot be fetched from ${URL%%/api/*} (HTTP ${code:-000}; $(sed -n '$p' "$new/why" | cut -c 1-200)): check network, address and port"
		return 1
	}

	# joined: this machine is the node already, and its agent is at work. A token is for the case that it has become another machine.
	joined() {
		[ "$(sed -n 's/.*"node_id": *"\([^"]*\)".*/\1/p' $identity 2>/dev/null | sed -n 1p)" = "$NODE_ID" ] && [ -x $program ] && [ ! -e "$script" ] || return 1
		set -- join
		[ ! -s "$conf/bootstrap-token" ] || set -- join --token-file "$conf/bootstrap-token"
		$program "$@"
	}

	attempt() {
		! joined || return 0
		new=$(mktemp -d /run/muster-first-hop.XXXXXX) || { why='/run cannot be written' && return 1; }
		last=1
		if take; then
			last=0
			sh "$script" || last=$?
			[ $last != 78 ] || finish 78 'the script refused the machine for good, as it says in /var/log/cloud-init-output.log: it was set up for another profile, so install its system anew'
			why="the script failed ($last), as it says in /var/log/cloud-init-output.log or journalctl -u $unit"
			[ $last != 75 ] || why='another run of the script is at work'
		fi
		rm -rf "$new"
		return $last
	}

	[ -d /run/systemd/system ] ||
		finish 1 "systemd does not run this machine, and a bootstrap by cloud-init is for one that it runs: boot an image with systemd, or bootstrap it by hand: muster bootstrap $NODE_NAME"

	# First of all: cloud-init runs this once, and a machine that is cut off now would be forgotten.
	[ "$by" = unit ] || { stay >/dev/null; } || :
	begun=$(seconds) pause=2 waited=0
	until attempt; do
		now=$(seconds)
		passed=$((now - begun))
		[ $passed -ge $waited ] || passed=$waited # without /proc there is no clock
		[ "$why" = "$told" ] || tell "not yet: $why"
		told=$why
		[ $passed -lt "$LIMIT" ] || finish $last "$why; the token has ended: muster bootstrap $NODE_NAME mints a new one"
		[ -z "$fetched" ] || [ $((now - fetched)) -lt 960 ] || finish $last "$why; the token has ended, 15 minutes after its script was fetched: muster bootstrap $NODE_NAME mints a new one"
		if [ "$by" != unit ] && { [ -n "$fetched" ] || [ $passed -ge $PATIENCE ]; } && stay && systemctl start --no-block $unit; then
			finish 75 "$why; $unit goes on trying"
		fi
		note "75 $why; trying again"
		sleep $pause || finish 127 "$why; and sleep does not work here, so nothing is tried again before the next boot"
		waited=$((waited + pause))
		pause=$((pause * 2))
		[ $pause -le 60 ] || pause=60
	done
	finish 0 'joined'
}

{ main "$@"; }
