#!/bin/sh
# Installs the distribution in this folder with its own install script, as the installer images of its makers do. It
# honours the environment that plans pass: INSTALL_<RT>_EXEC, INSTALL_<RT>_SKIP_START, RESTART_STAMP, <RT>_DATA_DIR.
set -eu
here=${CATTLE_AGENT_EXECUTION_PWD:-$(cd "$(dirname "$0")" && pwd)}

# stamp_differs FILE reports whether the plan has another restart stamp than the stored one.
stamp_differs() { [ -n "${RESTART_STAMP:-}" ] && [ "$RESTART_STAMP" != "$(cat "$1" 2>/dev/null || true)" ]; }

# store_stamp FILE stores the plan's restart stamp. It runs last, so that an interrupted restart is repeated.
store_stamp() {
  [ -n "${RESTART_STAMP:-}" ] || return 0
  mkdir -p "$(dirname "$1")"
  printf '%s\n' "$RESTART_STAMP" >"$1"
}

if [ -e "$here/k3s" ]; then
  stamp=${K3S_DATA_DIR:-/var/lib/rancher/k3s}/restart_stamp
  restart=false
  ! stamp_differs "$stamp" || restart=true
  # The program is replaced by rename: a running one keeps its file.
  mkdir -p /usr/local/bin
  cp "$here/k3s" /usr/local/bin/.k3s.new
  chmod 0755 /usr/local/bin/.k3s.new
  mv /usr/local/bin/.k3s.new /usr/local/bin/k3s
  # An agent that becomes a server, or the reverse, stops its other unit.
  other=k3s-agent
  [ "${INSTALL_K3S_EXEC:-server}" != agent ] || other=k3s
  if systemctl is-active --quiet "$other"; then systemctl disable --now "$other"; fi
  # The script waits until the unit has started.
  INSTALL_K3S_SKIP_DOWNLOAD=true INSTALL_K3S_FORCE_RESTART=$restart sh "$here/install.sh"
  store_stamp "$stamp"
  exit
fi

state=${RKE2_DATA_DIR:-/var/lib/rancher/rke2}/system-agent-installer
type=${INSTALL_RKE2_TYPE:-${INSTALL_RKE2_EXEC:-server}}
stamp=$state/rke2_restart_stamp
restart=false
! stamp_differs "$stamp" || restart=true
INSTALL_RKE2_ARTIFACT_PATH=$here INSTALL_RKE2_TAR_PREFIX=/usr/local INSTALL_RKE2_METHOD=tar sh "$here/install.sh"

umask 077
mkdir -p "$state" "/etc/systemd/system/rke2-$type.service.d"
env | grep -E '^(RKE2_|[A-Za-z]+_(PROXY|proxy)=)' | sort >"$state/rke2-sa.env.new" || true
cmp -s "$state/rke2-sa.env.new" "$state/rke2-sa.env" || restart=true
mv "$state/rke2-sa.env.new" "$state/rke2-sa.env"
printf '[Service]\nEnvironmentFile=-%s\n' "$state/rke2-sa.env" \
  >"/etc/systemd/system/rke2-$type.service.d/installer.conf"

systemctl daemon-reload
if [ "$type" = server ] && systemctl is-active --quiet rke2-agent; then systemctl disable --now rke2-agent; fi
systemctl enable "rke2-$type"
[ "${INSTALL_RKE2_SKIP_START:-}" != true ] || exit 0
# The plan's probes wait for the unit.
if $restart; then systemctl --no-block restart "rke2-$type"; fi
store_stamp "$stamp"
