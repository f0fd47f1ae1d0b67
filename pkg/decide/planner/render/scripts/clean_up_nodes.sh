#!/bin/sh
# Deletes the nodes that belong to no machine any more.
#
#   clean_up_nodes.sh FILE_WITH_MACHINE_UIDS FILE_WITH_NODE_NAMES

uids=$1
names=$2
if [ ! -s "$uids" ]; then
	echo "no machines are listed, no node is deleted"
	exit 1
fi

# api runs the program in KUBECTL, which is k3s with command kubectl on K3s.
api() { "$KUBECTL" ${KUBECTL_COMMAND:+"$KUBECTL_COMMAND"} "$@"; }

query='{range .items[*]}{.metadata.name}{" uid="}{.metadata.labels.rke\.cattle\.io/machine}{"\n"}{end}'
list=$(api --request-timeout=60s get nodes -o jsonpath="$query") || exit 1

failed=0
while read -r name uid; do
	[ -n "$name" ] || continue
	if grep -qxF -- "$name" "$names" || { [ -n "${uid#uid=}" ] && grep -qxF -- "${uid#uid=}" "$uids"; }; then
		continue
	fi
	api --request-timeout=60s delete node "$name" --wait=false --ignore-not-found || failed=1
done <<LIST
$list
LIST
[ "$failed" -eq 0 ] || exit 1
rm -f "$uids" "$names"
