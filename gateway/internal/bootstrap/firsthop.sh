#!/bin/sh
# The first hop of cloud-init: fetches this node's bootstrap script, checks it against the SHA-256 below, and runs it. What
# came of it stands in /run/muster-bootstrap.status, in cloud-init's log and on the console.

URL=''
SHA256=''
NODE_NAME=''

main() {
	umask 077
	script=/run/muster-bootstrap.sh

	tell() {
		printf 'muster bootstrap of %s: %s\n' "$NODE_NAME" "$1"
		(printf 'muster bootstrap of %s: %s\n' "$NODE_NAME" "$1" >/dev/console) 2>/dev/null || :
	}

	# finish STATUS WHAT
	finish() {
		printf '%s %s\n' "$1" "$2" >/run/muster-bootstrap.status
		[ "$1" = 0 ] || tell "FAILED ($1): $2"
		[ "$1" != 0 ] || tell "$2"
		exit "$1"
	}

	get() {
		if command -v curl >/dev/null 2>&1; then
			curl -gfsSk --connect-timeout 10 --max-time 60 -o "$script" "$URL"
			status=$?
			[ $status != 22 ] || finish 22 "the gateway refused the script at ${URL%%/api/*}: the token has ended or is used; muster bootstrap $NODE_NAME mints a new one"
		elif command -v wget >/dev/null 2>&1; then
			wget -q -T 30 -O "$script" --no-check-certificate "$URL"
			status=$?
			[ $status != 8 ] || finish 8 "the gateway refused the script at ${URL%%/api/*}: the token has ended or is used; muster bootstrap $NODE_NAME mints a new one"
		else
			finish 127 'there is neither curl nor wget in this image: add one to it'
		fi
		return $status
	}

	# The network of a machine that has just started may take its time.
	try=1
	until get; do
		try=$((try + 1))
		[ $try -le 20 ] || finish 1 "the script cannot be fetched from ${URL%%/api/*}: check network, address and port, then run: sh /etc/muster/first-hop.sh"
		sleep 5
	done
	got=$(sha256sum <"$script") || got=$(openssl dgst -sha256 -r <"$script") || finish 127 'nothing here computes SHA-256: add coreutils to the image'
	if [ "${got%% *}" != "$SHA256" ]; then
		rm -f "$script"
		finish 1 "the script is not the one that was promised (SHA-256 ${got%% *}): something between changed it; nothing was run"
	fi
	status=0
	sh "$script" || status=$?
	[ $status = 0 ] || finish $status "the script failed, as cloud-init's log says (/var/log/cloud-init-output.log); when mended, run: sh $script"
	rm -f "$script" /etc/muster/first-hop.sh
	finish 0 'joined'
}

{ main "$@"; }
