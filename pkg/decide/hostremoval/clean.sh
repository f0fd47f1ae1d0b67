#!/bin/sh
# Removes the distribution from a host that has left its cluster, with the distribution's own uninstall scripts. A second run
# continues where the first one failed.
#
# Usage: clean.sh RUNTIME DATA_DIRECTORY PROVISIONING_DIRECTORY
set -u
runtime=$1 data=$2 provisioning=$3
PATH=$PATH:/usr/local/bin:/usr/bin:/opt/$runtime/bin:/opt/bin
export PATH

found=
for script in "$runtime-uninstall.sh" "$runtime-agent-uninstall.sh"; do
  file=$(command -v "$script") || continue
  found=yes
  echo "running $file"
  timeout 240 "$file" </dev/null || { echo "$file failed" >&2; exit 1; }
done
if [ -z "$found" ] && command -v "$runtime"; then
  echo "$runtime is installed, and $runtime-uninstall.sh is not" >&2
  exit 1
fi
if [ -e "$data/server" ] || [ -e "$data/agent" ]; then
  echo "data are left in $data" >&2
  exit 1
fi
case "$provisioning" in /?*/?*) rm -rf "$provisioning" ;; esac
