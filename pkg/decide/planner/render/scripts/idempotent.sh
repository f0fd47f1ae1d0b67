#!/bin/sh
# Runs a command until it has succeeded once, and never again after that.
#
#   idempotent.sh KEY TARGET_HASH COMMAND_HASH COMMAND BASE_DIR [ARG...]
#
# KEY names the operation, TARGET_HASH what it was asked for, COMMAND_HASH the command. Start and success are recorded apart,
# so that a command that was killed half-way runs again and one that succeeded does not. The exit code is the command's.

key=$1
target=$2
hash=$3
command=$4
base=$5
shift 5

dir="$base/idempotence/$key/$hash/$target"

if [ -f "$dir/succeeded" ]; then
	echo "$key has succeeded before for this request, nothing to do"
	exit 0
fi

umask 077
mkdir -p "$dir" || exit 1
printf '%s\n' "${CATTLE_AGENT_ATTEMPT_NUMBER:--1}" >"$dir/last-attempt" || exit 1

"$command" "$@"
code=$?
if [ "$code" -ne 0 ]; then
	exit "$code"
fi

# What the command did reaches the disk before the record of its success, and the record before the agent hears of it.
sync
: >"$dir/succeeded" || exit 1
sync
