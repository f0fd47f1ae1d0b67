#!/bin/sh
# Removes the node agent that runs this script. The work runs outside the control group of the agent, because systemd ends
# everything inside it with the agent. It waits a while, so that the agent can report first.
#
# Usage: leave.sh AGENT_DIRECTORY
set -u
agent=rancher-system-agent unit=drover-host-cleanup
PATH=$PATH:/usr/local/bin:/usr/bin:/opt/$agent/bin
export PATH CATTLE_AGENT_VAR_DIR="$1"

if file=$(command -v "$agent-uninstall.sh"); then
  work="exec sh '$file'"
else
  work="systemctl disable --now $agent; rm -rf /etc/systemd/system/$agent.service /etc/systemd/system/$agent.env \
/etc/rancher/agent '$1'; systemctl daemon-reload"
fi
systemctl stop "$unit" 2>/dev/null
systemctl reset-failed "$unit" 2>/dev/null
systemd-run --quiet --unit="$unit" --setenv=PATH="$PATH" --setenv=CATTLE_AGENT_VAR_DIR="$1" \
  /bin/sh -c "sleep 20; $work"
