#!/bin/sh
# Installs the stand-in for K3s next to its program, honouring the environment of K3s' own install script:
# INSTALL_K3S_SKIP_DOWNLOAD, INSTALL_K3S_EXEC, INSTALL_K3S_FORCE_RESTART, INSTALL_K3S_SKIP_START, K3S_* and *_PROXY.
set -eu
[ "${INSTALL_K3S_SKIP_DOWNLOAD:-}" = true ] || { echo "the stand-in cannot be downloaded" >&2; exit 1; }
[ -x /usr/local/bin/k3s ] || { echo "there is no program /usr/local/bin/k3s" >&2; exit 1; }

unit=k3s
[ "${INSTALL_K3S_EXEC:-server}" != agent ] || unit=k3s-agent
units=/etc/systemd/system
sums() { sha256sum "$units/$unit.service" "$units/k3s.env" 2>&1 || true; }
before=$(sums)

cat >"$units/$unit.service" <<UNIT
@UNIT@
UNIT
cat >/usr/local/bin/k3s-killall.sh <<'SCRIPT'
@KILLALL@
SCRIPT
cat >"/usr/local/bin/$unit-uninstall.sh" <<'SCRIPT'
@UNINSTALL@
SCRIPT
chmod 0755 /usr/local/bin/k3s-killall.sh "/usr/local/bin/$unit-uninstall.sh"
(umask 077; env | grep -E '^(K3S_|[A-Za-z]+_(PROXY|proxy)=)' | sort >"$units/k3s.env" || true)

systemctl daemon-reload
systemctl enable "$unit" 2>/dev/null
[ "${INSTALL_K3S_SKIP_START:-}" != true ] || exit 0
if [ "${INSTALL_K3S_FORCE_RESTART:-}" = true ] || [ "$before" != "$(sums)" ]; then
  systemctl restart "$unit"
fi
