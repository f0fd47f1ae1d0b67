#!/bin/sh
# Installs the stand-in distribution from the folder it lies in and starts it, honouring the environment that plans pass to
# the real installers: INSTALL_<RT>_EXEC, INSTALL_<RT>_SKIP_START, RESTART_STAMP, <RT>_DATA_DIR, <RT>_* and *_PROXY.
set -eu

here=${CATTLE_AGENT_EXECUTION_PWD:-$(dirname "$0")}
read -r runtime version <"$here/version"
case "$runtime" in
  rke2) prefix=RKE2 server=rke2-server agent=rke2-agent ;;
  k3s) prefix=K3S server=k3s agent=k3s-agent ;;
  *) echo "unknown runtime $runtime" >&2; exit 1 ;;
esac
value() { eval "printf '%s' \"\${$1:-}\""; }

data=$(value "${prefix}_DATA_DIR")
data=${data:-/var/lib/rancher/$runtime}
exec=$(value "INSTALL_${prefix}_EXEC")
[ "${exec:-server}" = agent ] && unit=$agent other=$server || unit=$server other=$agent
state=$data/system-agent-installer
mkdir -p "$state" /usr/local/bin /etc/systemd/system
echo "$version $unit" >>"$state/runs" # tests count how often they ran

# Programs are replaced by rename: a running one keeps its file.
for program in "$runtime" "$runtime-killall.sh" drover-kube; do
  cp "$here/$program" "/usr/local/bin/.$program.new"
  chmod 0755 "/usr/local/bin/.$program.new"
  mv "/usr/local/bin/.$program.new" "/usr/local/bin/$program"
done
# K3s has a script of another name on workers.
uninstall=$runtime-uninstall.sh
[ "$unit" != k3s-agent ] || uninstall=k3s-agent-uninstall.sh
cp "$here/uninstall.sh" "/usr/local/bin/.$uninstall.new"
chmod 0755 "/usr/local/bin/.$uninstall.new"
mv "/usr/local/bin/.$uninstall.new" "/usr/local/bin/$uninstall"
printf '%s\n' "$version" >"/usr/local/bin/.$runtime.version"
cp "$here/$server.service" "$here/$agent.service" /etc/systemd/system/

restart=false
stamp=${RESTART_STAMP:-}
case "$runtime" in
  rke2) stamped=$state/rke2_restart_stamp ;;
  k3s) stamped=$data/restart_stamp ;;
esac
if [ -n "$stamp" ] && [ "$stamp" != "$(cat "$stamped" 2>/dev/null || true)" ]; then
  restart=true
fi
umask 077
env | grep -E "^(${prefix}_|[A-Za-z]+_(PROXY|proxy)=)" | sort >"$state/env.new" || true
cmp -s "$state/env.new" "$state/env" || restart=true
mv "$state/env.new" "$state/env"
ln -sf "$state/env" "/etc/systemd/system/$runtime.env"

systemctl daemon-reload
if systemctl is-active --quiet "$other"; then systemctl disable --now "$other"; fi
systemctl enable "$unit" 2>/dev/null
[ -z "$(value "INSTALL_${prefix}_SKIP_START")" ] || exit 0
# RKE2's installer returns before the service is up; K3s' waits for it.
if $restart; then
  case "$runtime" in
    rke2) systemctl --no-block restart "$unit" ;;
    k3s) systemctl restart "$unit" ;;
  esac
fi
# Written last, so a restart that failed or was cut short is repeated. A plan without a stamp keeps the stored one.
[ -z "$stamp" ] || printf '%s\n' "$stamp" >"$stamped"
