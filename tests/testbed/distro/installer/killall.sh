#!/bin/sh
# Stops everything of @RUNTIME@ on this machine, pods too; the data stay. The units' control groups hold all that they started: systemd
# kills what of it does not end. What somebody started by hand is found by its program.
[ "$(id -u)" -eq 0 ] || { echo "must be run as root" >&2; exit 1; }

for unit in @SERVER@ @AGENT@; do
  [ ! -e "/etc/systemd/system/$unit" ] || systemctl stop "$unit" || exit 1
done

left() {
  for exe in /proc/[0-9]*/exe; do
    case "$(readlink "$exe" 2>/dev/null)" in
      /usr/local/bin/@RUNTIME@ | "/usr/local/bin/@RUNTIME@ (deleted)" | /usr/local/bin/drover-kube | "/usr/local/bin/drover-kube (deleted)")
        pid=${exe#/proc/}
        echo "${pid%/exe}" ;;
    esac
  done
}

tries=0
while pids=$(left) && [ -n "$pids" ]; do
  tries=$((tries + 1))
  [ "$tries" -le 30 ] || { echo "still there: $pids" >&2; exit 1; }
  kill -9 $pids 2>/dev/null || true
  sleep 0.1
done
