#!/bin/sh
# Runs a command until it succeeds, for five minutes at most.
#
#   wait_for.sh COMMAND [ARG...]

i=0
while [ "$i" -lt 30 ]; do
	if "$@" >/dev/null; then
		exit 0
	fi
	i=$((i + 1))
	sleep 10
done
echo "gave up: $*"
exit 1
