#!/bin/sh
count=8 model="NVIDIA H100 80GB HBM3" memory=81559 seed=00000000aaaa used=4 by= app=
. "$(dirname "$0")/control"
case "$*" in
*--help-query-gpu*) for f in index uuid name pci.bus_id driver_version mig.mode.current memory.total memory.used; do echo "\"$f\""; done ;;
*--query-gpu=*)
	for a; do case $a in --query-gpu=*) fields=${a#*=} ;; esac; done
	i=0; while [ $i -lt $count ]; do row=
		for f in $(echo "$fields" | tr , ' '); do
			case $f in index) v=$i ;; uuid) v=GPU-0000000$i-0000-0000-0000-$seed ;; name) v=$model ;; pci.bus_id) v=00000000:0$i:00.0 ;;
			driver_version) v=590.48.01 ;; mig.mode.current) v=Disabled ;; memory.total) v=$memory ;; memory.used) v=$used ;; *) v="[N/A]" ;; esac
			row="$row${row:+, }$v"; done; echo "$row"; i=$((i+1)); done ;;
*--query-compute-apps=*) if [ -n "$app" ]; then echo "$app, 700"; fi ;;
*-q*)
	i=0; while [ $i -lt $count ]; do
		echo "GPU 00000000:0$i:00.0"
		echo "    GPU UUID                              : GPU-0000000$i-0000-0000-0000-$seed"
		if [ $i = 0 ] && [ -n "$by" ]; then
			echo "    Processes"
			echo "        Process ID                        : $by"
			echo "            Type                          : C"
		fi
		i=$((i+1)); done ;;
esac
