#!/usr/bin/env sh
# Removes the node agent from this machine. The Kubernetes distribution that it installed stays.
set -eu

AGENT=rancher-system-agent
CONFIG_DIR=${CATTLE_AGENT_CONFIG_DIR:-/etc/rancher/agent}
VAR_DIR=${CATTLE_AGENT_VAR_DIR:-/var/lib/rancher/agent}

if [ "$(id -u)" != 0 ]; then
    echo "[ERROR] this must be run as root" >&2
    exit 1
fi
for dir in "$CONFIG_DIR" "$VAR_DIR"; do
    case "$dir" in
    /?*/?*) ;;
    *)
        echo "[ERROR] $dir is not a directory of the agent" >&2
        exit 1
        ;;
    esac
done
if command -v systemctl >/dev/null 2>&1; then
    systemctl disable --now $AGENT-upgrade >/dev/null 2>&1 || true
    systemctl disable --now $AGENT >/dev/null 2>&1 || true
fi
rm -f /etc/systemd/system/$AGENT.service /etc/systemd/system/$AGENT.env /etc/systemd/system/$AGENT-upgrade.service
if command -v systemctl >/dev/null 2>&1; then
    systemctl daemon-reload >/dev/null 2>&1 || true
fi
rm -rf "$CONFIG_DIR"
for prefix in "${CATTLE_AGENT_BIN_PREFIX:-/usr/local}" /usr/local /opt/$AGENT /usr; do
    rm -f "$prefix/bin/$AGENT" "$prefix/bin/$AGENT-uninstall.sh" "$prefix/bin/$AGENT.upgrade" "$prefix/bin/.$AGENT.former"
done
# The last step, because a folder of images may be a mount that stays.
rm -rf "$VAR_DIR" || echo "[WARN]  something is left in $VAR_DIR" >&2
