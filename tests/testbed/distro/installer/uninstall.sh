#!/bin/sh
# Removes @RUNTIME@ from this machine, with its data, as the real distributions' script of this name does.
set -eu
[ "$(id -u)" -eq 0 ] || { echo "must be run as root" >&2; exit 1; }

/usr/local/bin/@RUNTIME@-killall.sh
for unit in @SERVER@ @AGENT@; do
  systemctl disable "$unit" 2>/dev/null || true
  rm -f "/etc/systemd/system/$unit"
done
rm -f "/etc/systemd/system/@RUNTIME@.env"
systemctl daemon-reload
rm -rf /etc/rancher/@RUNTIME@ "${@PREFIX@_DATA_DIR:-/var/lib/rancher/@RUNTIME@}"
cd /usr/local/bin
rm -f @RUNTIME@ .@RUNTIME@.version drover-kube @RUNTIME@-killall.sh @RUNTIME@-uninstall.sh @RUNTIME@-agent-uninstall.sh
