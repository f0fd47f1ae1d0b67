# Proves that etcd can do without the member on this node for a while, before the node is restarted.
#
#   METRICS CLIENT RECORD DELIVERY OTHERS CERT KEY TRIES
#
# METRICS are the addresses, with blanks between them, where this node's member may tell how it is: the plan that is in force says where it
# does, and the next one where it will. The first that answers counts. CLIENT is where it serves. OTHERS is how many other members there are
# at least. CERT and KEY are what etcd asks for at addresses with TLS. RECORD holds the last delivery that went through as a whole: an agent
# that runs it again, after a start of the node for example, restarts nothing. The last line of the output says what is wrong.

metrics=$1
client=$2
record=$3
delivery=$4
others=$5
cert=$6
key=$7
tries=$8

[ "$(cat "$record" 2>/dev/null)" = "$delivery" ] && exit 0

refused() {
	curl -sk --noproxy '*' -m 5 -o /dev/null "$1"
	[ $? -eq 7 ]
}

fetch() {
	case $1 in
	https:*) curl -sfk --cert "$cert" --key "$key" --noproxy '*' -m 5 "$1" ;;
	*) curl -sf --noproxy '*' -m 5 "$1" ;;
	esac
}

# off: nothing listens where a member would.
off() {
	for url in $metrics $client; do
		refused "$url/health" || return 1
	done
}

# told is where the member says that it has a quorum; the last address is for one that serves, and tells its metrics elsewhere.
told() {
	for url in $metrics $client; do
		if fetch "$url/health" | grep -q '"health" *: *"true"'; then
			echo "$url"
			return
		fi
	done
}

try=0
while [ "$try" -lt "$tries" ]; do
	[ "$try" -gt 0 ] && sleep 5
	try=$((try + 1))
	if off; then
		exit 0 # it does not run: a restart takes nothing from the others
	fi
	problem="etcd on this node does not say on $metrics that it has a quorum"
	url=$(told)
	[ -n "$url" ] || continue
	problem="etcd on this node does not tell how many members it is connected to, on $url"
	report=$(fetch "$url/metrics") || continue
	verdict=$(printf '%s\n' "$report" | awk -v others="$others" '
		# etcd counts a member among the peers that it knows itself: of such a line both labels are the same
		split($0, part, "\"") >= 4 && part[2] == part[4] { next }
		/^etcd_network_known_peers[{ ]/ { known += $NF }
		/^etcd_network_active_peers[{ ]/ { active += $NF }
		END {
			if (known < others) known = others
			need = int((known + 1) / 2) + 1
			if (need > known) need = known
			if (active >= need) print "enough"
			else print "etcd on this node is connected to " active + 0 " of " known " other members, and needs " need " of them to be without this one"
		}')
	[ "$verdict" = enough ] && exit 0
	problem=${verdict:-$problem}
done
echo "$problem"
exit 1
