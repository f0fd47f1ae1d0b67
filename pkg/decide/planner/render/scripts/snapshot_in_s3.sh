#!/bin/sh
# Fails, with the reason, when a snapshot is not in S3. The server of this machine is asked for its list.
#
#   snapshot_in_s3.sh saved COMMAND UNIT                   the newest requested snapshot of this machine
#   snapshot_in_s3.sh found COMMAND UNIT NAME SIZE FLAG... a snapshot in the storage of the flags; SIZE 0 is unknown

mode=$1 command=$2 unit=$3
shift 3
start=$(date +%s)

# said prints what the server's log says about S3 since a time. RKE2 and K3s save a snapshot on the machine, and report
# success, when they cannot upload it.
said() {
	journalctl --unit "$unit" --since "@$1" --output cat 2>/dev/null |
		grep -E 'initialize S3 client|snapshot upload to S3|retrieving S3 snapshots' | tail -n 1
}

# time_of prints the time in the name of a snapshot, 0 if it has none.
time_of() {
	at=${1%.zip}
	at=${at##*-}
	case $at in '' | *[!0-9]*) at=0 ;; esac
	echo "$at"
}

if [ "$mode" = saved ]; then
	if ! list=$(timeout 330 "$command" etcd-snapshot ls 2>&1); then
		printf '%s\n' "$list"
		said "$start"
		exit 1
	fi
	name='' newest=0 kept=' ' uploaded=' '
	while read -r file location rest; do
		case "$location $file" in
			s3:*) uploaded="$uploaded$file " ;;
			file:*' on-demand-'*)
				kept="$kept$file "
				at=$(time_of "$file")
				[ "$at" -ge "$newest" ] && newest=$at name=$file
				;;
		esac
	done <<-END
		$list
	END
	case $uploaded in *" $name "*) exit 0 ;; esac
	[ -n "$name" ] || exit 0
	# Servers save at the same time, and the retention counts their snapshots together. Another one may have removed
	# this.
	for file in $uploaded; do
		case $kept in *" $file "*) continue ;; esac
		case $file in on-demand-*) ;; *) continue ;; esac
		[ "$(time_of "$file")" -ge $((newest - 120)) ] && exit 0
	done
	echo "the snapshot is on this machine and not in S3"
	said "$newest"
	exit 1
fi

name=$1 size=$2
shift 2
if ! list=$(timeout 330 "$command" etcd-snapshot ls "$@" 2>&1); then
	reason=$(printf '%s\n' "$list"; said "$start")
	# Only what is certain prevents a restore. A cluster whose API does not answer needs it.
	case $reason in
		*'set S3 snapshot'*) exit 0 ;;
		*'S3 client'* | *'S3 snapshots'* | *bucket*)
			printf '%s\n' "$reason"
			exit 1
			;;
	esac
	exit 0
fi
while read -r file location rest; do
	[ "$file" = "$name" ] || continue
	case "$location" in file:*) continue ;; esac
	case " $location $rest " in *" $size "*) exit 0 ;; esac
	[ "$size" = 0 ] && exit 0
	echo "the snapshot in S3 is not complete: it has another size than when it was taken, which was $size"
	exit 1
done <<END
$list
END
echo "the snapshot is not in S3"
exit 1
