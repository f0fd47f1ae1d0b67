#!/bin/sh
# Prints the status of secrets encryption once it can be asked, and once the rotation is at STAGE if one is given. The first
# line tells the server which attempt the rest belongs to.
#
#   secrets_encrypt_status.sh RUNTIME ATTEMPT [STAGE]

i=0
while [ "$i" -lt 10 ]; do
	out=$(timeout 60 "$1" secrets-encrypt status 2>&1)
	stage=$(printf '%s\n' "$out" | sed -n 's/^Current Rotation Stage: *//p')
	if [ -n "$stage" ] && [ "$stage" = "${3:-$stage}" ]; then
		printf 'Attempt: %s\n%s\n' "$2" "$out"
		exit 0
	fi
	i=$((i + 1))
	sleep 10
done
printf '%s\n' "$out"
exit 1
