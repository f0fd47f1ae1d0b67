#!/bin/sh
# Waits for the nodes of the given machines to be Ready, for ten minutes at most, and then a while for the API to see that
# the others are not. Right after a restore the data still say that all of them run. Machines in POSSIBLE run, too, and may have no node.
#
#   POSSIBLE="MACHINE_UID ..." wait_for_ready.sh MACHINE_UID...

# api runs the program in KUBECTL, which is k3s with command kubectl on K3s.
api() { "$KUBECTL" ${KUBECTL_COMMAND:+"$KUBECTL_COMMAND"} "$@"; }

query='{range .items[*]}{.metadata.labels.rke\.cattle\.io/machine}{range .status.conditions[?(@.type=="Ready")]} {.status}{end}{"\n"}{end}'

ready() {
	api --request-timeout=20s get nodes -o jsonpath="$query" | awk '$2 == "True" { print "uid=" $1 }'
}

i=0
while :; do
	list=$(ready)
	missing=
	for uid in "$@"; do
		printf '%s\n' "$list" | grep -qxF "uid=$uid" || missing="$missing $uid"
	done
	[ -z "$missing" ] && break
	i=$((i + 1))
	if [ "$i" -ge 60 ]; then
		echo "machines without a ready node:$missing"
		exit 1
	fi
	sleep 10
done

# alone says that no node but those of the given machines is ready.
alone() {
	list=$(ready)
	[ -n "$list" ] || return 1
	for uid in "$@" $POSSIBLE; do
		list=$(printf '%s\n' "$list" | grep -vxF "uid=$uid")
	done
	[ -z "$list" ]
}

i=0
while [ "$i" -lt 60 ] && ! alone "$@"; do
	i=$((i + 1))
	sleep 5
done
exit 0
