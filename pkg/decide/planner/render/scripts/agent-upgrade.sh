#!/bin/sh
# Moves the node agent of this machine to another program, server address or environment, and moves it back if the agent does not
# report afterwards. Kubernetes is not touched.
#
#   agent-upgrade.sh start SETTINGS   records the request and starts the service that carries it out
#   agent-upgrade.sh run DIRECTORY    is that service; it runs outside the control group of the agent
#
# The service may be killed at any step. It runs again after that, also after a reboot: it puts back what it had replaced and
# begins again. The result is one line in DIRECTORY/result.
set -eu
umask 077

AGENT=rancher-system-agent
SERVICE=$AGENT-upgrade
SYSTEMD_DIR=${CATTLE_AGENT_SYSTEMD_DIR:-/etc/systemd/system}
CONFIG=${CATTLE_AGENT_CONFIG:-/etc/rancher/agent/config.yaml}
ENV_FILE=$SYSTEMD_DIR/$AGENT.env
PAUSE=${AGENT_UPGRADE_PAUSE:-5}
# Tries of one second: downloads, end of the running plan, first report of the new agent, an agent that cannot tell.
FETCH_TRIES=10
PLAN_TRIES=360
REPORT_TRIES=${AGENT_UPGRADE_TRIES:-60}
STABLE_TRIES=6
# Starts of this service for one request, and starts of the new agent, before the request has failed.
MOST_RUNS=10
MOST_STARTS=5

info() { echo "[INFO]  $*"; }

# setting FILE KEY prints a value of the agent's configuration.
setting() { sed -n "s/^$2: *[\"']\{0,1\}\([^\"']*\)[\"']\{0,1\} *\$/\1/p" "$1" | head -n 1; }

# private FILE writes standard input to a file that only root can read, in one step.
private() {
    (umask 077 && cat >"$1.tmp")
    chmod 0600 "$1.tmp"
    sync "$1.tmp" 2>/dev/null || sync
    mv -f "$1.tmp" "$1"
}

# property NAME prints a property of the agent's service.
property() { systemctl show -p "$1" "$AGENT" 2>/dev/null | sed -n "s/^$1=//p"; }

is_sum() { [ "$(sha256sum "$1" 2>/dev/null | cut -d' ' -f1)" = "$2" ]; }

# is_same tells whether two files have the same content.
is_same() { [ "$(sha256sum <"$1")" = "$(sha256sum <"$2")" ]; }

# has_result tells whether the request has a result.
has_result() { [ -e "$DIR/result" ] && [ "$(cut -d' ' -f1 <"$DIR/result")" = "$ID" ]; }

find_places() {
    work=$(setting "$CONFIG" workDirectory)
    [ -n "$work" ] || { echo "[ERROR] $CONFIG has no workDirectory" >&2 && exit 1; }
    DIR=${work%/*}/upgrade
    BACKUP=$DIR/backup
    INTERLOCK=$(setting "$CONFIG" interlockDirectory)
    CONNECTION=$(setting "$CONFIG" connectionInfoFile)
    BIN=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$SYSTEMD_DIR/$AGENT.service" | head -n 1)
    [ -x "$BIN" ] || { echo "[ERROR] $SYSTEMD_DIR/$AGENT.service names no program" >&2 && exit 1; }
    # Not hidden: the program is the agent by the beginning of its name.
    NEW=${BIN%/*}/$AGENT.upgrade
    FORMER=${BIN%/*}/.$AGENT.former
}

start() {
    # shellcheck disable=SC1090
    . "$1"
    find_places
    mkdir -p "$DIR"
    chmod 0700 "$DIR"
    if has_result; then
        info "This request has a result: $(cat "$DIR/result")"
        return 0
    fi
    systemctl stop $SERVICE 2>/dev/null || :
    rm -f "$DIR/runs"
    private "$DIR/upgrade.sh" <"$0"
    private "$DIR/settings" <"$1"
    private "$SYSTEMD_DIR/$SERVICE.service" <<UNIT
[Unit]
Description=Upgrade of the node agent
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Install]
WantedBy=multi-user.target

[Service]
EnvironmentFile=-/etc/default/$AGENT
EnvironmentFile=-/etc/sysconfig/$AGENT
EnvironmentFile=-$ENV_FILE
Environment=CATTLE_AGENT_CONFIG=$CONFIG
Type=simple
Restart=on-failure
RestartSec=5s
ExecStart=/bin/sh $DIR/upgrade.sh run $DIR
UNIT
    systemctl daemon-reload
    systemctl enable $SERVICE
    systemctl start --no-block $SERVICE
}

# finish RESULT records the result, and removes everything else. A kill in between leads here again.
finish() {
    has_result || printf '%s %s\n' "$ID" "$(printf '%s' "$*" | tr '\n' ' ' | cut -c1-170)" | private "$DIR/result"
    info "$*"
    rm -f "$INTERLOCK/restart-pending"
    rm -rf "$BACKUP" "$FORMER" "$NEW" "$ENV_FILE.upgrade" "$DIR/connection.json" "$DIR/ca.pem" "$DIR/download" "$DIR/runs"
    systemctl disable $SERVICE 2>/dev/null || :
    rm -f "$SYSTEMD_DIR/$SERVICE.service"
    systemctl daemon-reload
    exit 0
}

# fail REASON gives up: the former agent runs again.
fail() {
    recover
    finish "failed: $*"
}

# put_back NAME FILE restores one file from its backup. An absent backup means that there was no file.
put_back() {
    if [ -e "$BACKUP/$1" ]; then
        cp -p "$BACKUP/$1" "$2.tmp"
        mv -f "$2.tmp" "$2"
    else
        rm -f "$2"
    fi
}

# recover ends an upgrade that was not confirmed: what it replaced is put back, and the former agent starts.
recover() {
    if [ ! -e "$BACKUP/complete" ] || [ "$(cat "$DIR/result" 2>/dev/null)" = "$(cat "$BACKUP/complete") succeeded" ]; then
        rm -rf "$BACKUP" "$FORMER"
        return 0
    fi
    info "Going back to the former agent"
    if [ -e "$FORMER" ] && ! is_same "$FORMER" "$BIN"; then
        rm -f "$NEW"
        ln "$FORMER" "$NEW" 2>/dev/null || cp -p "$FORMER" "$NEW"
        mv -f "$NEW" "$BIN"
    fi
    put_back env "$ENV_FILE"
    put_back connection "$CONNECTION"
    rm -f "$INTERLOCK/restart-pending"
    [ ! -e "$BACKUP/replaced" ] || systemctl restart $AGENT
    rm -f "$BACKUP/complete"
    rm -rf "$BACKUP" "$FORMER"
}

# get URL FILE [curl arguments] downloads a file.
get() {
    url=$1 file=$2
    shift 2
    i=0
    while :; do
        rm -f "$file"
        code=$(curl -sS --connect-timeout 30 --max-time 300 -o "$file" -w '%{http_code}' "$@" "$url") || code=000
        [ "$code" != 200 ] || return 0
        i=$((i + 1))
        [ $i -lt $FETCH_TRIES ] || fail "$url answered $code; the agent stays as it was"
        sleep "$PAUSE"
    done
}

# fetch_authority gets the server's authority, which is known by its checksum.
fetch_authority() {
    [ -n "$CA_CHECKSUM" ] || return 0
    get "$SERVER/cacerts" "$DIR/ca.pem" --insecure
    is_sum "$DIR/ca.pem" "$CA_CHECKSUM" || fail "the authority of $SERVER has another checksum than $CA_CHECKSUM"
}

# check_space makes sure that a file of that many bytes fits, and that the disk is not full then.
check_space() {
    need=$(($1 / 1024 + 16384))
    for dir in "${BIN%/*}" "$DIR"; do
        free=$(df -Pk "$dir" | awk 'NR == 2 { print $4 }')
        [ "$free" -ge $need ] || fail "$dir has $((free / 1024)) MiB free, the agent needs $((need / 1024)) MiB; free space"
    done
}

# server_get URL FILE [curl arguments] is get, verified by the server's own authority where that is known.
server_get() {
    if [ -n "$CA_CHECKSUM" ]; then
        get "$@" --cacert "$DIR/ca.pem"
    else
        get "$@"
    fi
}

# fetch_program puts the new program beside the present one.
fetch_program() {
    arch=${ARCH:-$(uname -m)}
    case "$arch" in
    x86_64 | amd64) arch=amd64 ;;
    aarch64 | arm64) arch=arm64 ;;
    esac
    eval "sum=\${SUM_$arch:-}"
    # shellcheck disable=SC2154
    [ -n "$sum" ] || fail "the server has no agent for machines of type $arch"
    if is_sum "$BIN" "$sum"; then
        PROGRAM=$BIN
        return 0
    fi
    url=$SERVER/assets/$AGENT-$arch
    server_get "$url" "$DIR/download" -I
    size=$(sed -n 's/\r$//; s/^[Cc]ontent-[Ll]ength: *\([0-9]*\).*/\1/p' "$DIR/download" | tail -n 1)
    check_space "${size:-$(wc -c <"$BIN")}"
    fetches=0
    until is_sum "$NEW" "$sum"; do
        # While servers are upgraded one after the other, one of them may still have its former agent.
        [ $fetches -lt $FETCH_TRIES ] || fail "the agent at $url has another checksum than $sum"
        [ $fetches -eq 0 ] || sleep "$PAUSE"
        fetches=$((fetches + 1))
        server_get "$url" "$NEW"
    done
    chmod 0755 "$NEW"
    PROGRAM=$NEW
    "$NEW" validate-connection "$CONNECTION" || fail "the new agent does not run on this machine or refuses its connection"
}

# write_environment makes the environment file of the agent: the lines that are not the cluster's, and then the cluster's.
write_environment() {
    : >"$ENV_FILE.upgrade"
    chmod 0600 "$ENV_FILE.upgrade"
    if [ -e "$ENV_FILE" ]; then
        awk -v names=" $NAMES " '
            /^# Cluster: begin$/ { skip = 1 }
            !skip && NF { name = $0; sub(/=.*/, "", name); if (!index(names, " " name " ")) print }
            /^# Cluster: end$/ { skip = 0 }' "$ENV_FILE" >>"$ENV_FILE.upgrade"
    fi
    [ -z "$ENVIRONMENT" ] || printf '# Cluster: begin\n%s\n# Cluster: end\n' "$ENVIRONMENT" >>"$ENV_FILE.upgrade"
}

# is_current tells whether nothing has to change.
is_current() {
    [ "$PROGRAM" = "$BIN" ] && is_same "$DIR/connection.json" "$CONNECTION" &&
        [ "$(grep -v '^$' "$ENV_FILE" 2>/dev/null)" = "$(cat "$ENV_FILE.upgrade")" ]
}

back_up() {
    rm -rf "$BACKUP" "$FORMER"
    mkdir -p "$BACKUP"
    chmod 0700 "$BACKUP"
    ln "$BIN" "$FORMER" 2>/dev/null || cp -p "$BIN" "$FORMER"
    [ ! -e "$ENV_FILE" ] || cp -p "$ENV_FILE" "$BACKUP/env"
    cp -p "$CONNECTION" "$BACKUP/connection"
    [ ! -e "$DIR/reported" ] || cp -p "$DIR/reported" "$BACKUP/reported"
    sync
    echo "$ID" >"$BACKUP/complete"
    sync
}

# is_applying tells whether the agent is applying a plan. It is not to be ended then, unless that takes too long.
is_applying() {
    [ -n "$INTERLOCK" ] && [ -e "$INTERLOCK/applyinator-active" ] && [ "$1" -lt $PLAN_TRIES ] && systemctl is-active --quiet $AGENT
}

# hold_agent keeps the agent from starting another plan, and waits for the one that it is applying and for its report.
hold_agent() {
    [ -n "$INTERLOCK" ] || return 0
    mkdir -p "$INTERLOCK"
    i=0
    while :; do
        : >"$INTERLOCK/restart-pending"
        is_applying $i || break
        i=$((i + 1))
        sleep "$PAUSE"
    done
    sleep "$PAUSE"
}

replace() {
    : >"$BACKUP/replaced"
    sync
    rm -f "$DIR/reported"
    [ "$PROGRAM" = "$BIN" ] || mv -f "$NEW" "$BIN"
    mv -f "$ENV_FILE.upgrade" "$ENV_FILE"
    mv -f "$DIR/connection.json" "$CONNECTION"
    sync
    rm -f "$INTERLOCK/restart-pending"
    systemctl restart $AGENT
}

# can_report tells whether the agent that should run tells when it has reported.
can_report() { [ -n "$AGENT_VERSION" ] || [ -e "$BACKUP/reported" ]; }

# await_report waits until the process that runs now has reported. An agent that cannot tell has to keep running. The time for a
# plan does not count: an agent that got another plan meanwhile reports after it, and to end it would interrupt an installation.
await_report() {
    i=0 stable=0 busy=0 first=$(property MainPID)
    while [ $i -lt "$REPORT_TRIES" ]; do
        pid=$(property MainPID)
        if can_report; then
            [ "$(cut -d' ' -f1 "$DIR/reported" 2>/dev/null)" != "$pid" ] || [ "$pid" = 0 ] || return 0
        elif systemctl is-active --quiet $AGENT && [ "$pid" = "$first" ]; then
            stable=$((stable + 1))
            [ $stable -lt $STABLE_TRIES ] || return 0
        else
            stable=0 first=$pid
        fi
        starts=$(property NRestarts)
        [ "${starts:-0}" -lt $MOST_STARTS ] || fail "the new agent ended $starts times; the former agent runs again"
        if is_applying $busy; then busy=$((busy + 1)); else i=$((i + 1)); fi
        sleep "$PAUSE"
    done
    fail "the new agent did not report within $((REPORT_TRIES * PAUSE)) seconds; the former agent runs again"
}

# count_run gives up a request that this service cannot carry out, whatever the reason.
count_run() {
    runs=$(($(cat "$DIR/runs" 2>/dev/null || echo 0) + 1))
    echo "$runs" >"$DIR/runs"
    [ "$runs" -le $MOST_RUNS ] || fail "the upgrade was interrupted $MOST_RUNS times; see the log of $SERVICE"
}

run() {
    find_places
    # shellcheck disable=SC1091
    . "$DIR/settings"
    ! has_result || finish "$(cut -d' ' -f2- <"$DIR/result")"
    count_run
    recover
    PROGRAM=$BIN
    cp -p "$CONNECTION" "$DIR/connection.json"
    if [ -n "$AGENT_VERSION" ]; then
        fetch_authority
        fetch_program
        "$PROGRAM" set-connection "$CONNECTION" --server "$SERVER" --out "$DIR/connection.json" \
            ${CA_CHECKSUM:+--authority "$DIR/ca.pem"} || fail "the agent cannot use the address $SERVER"
    fi
    write_environment
    ! is_current || finish succeeded
    back_up
    hold_agent
    replace
    await_report
    finish succeeded
}

case "${1:-}" in
start) start "$2" ;;
run) run ;;
*)
    echo "usage: $0 start SETTINGS | run DIRECTORY" >&2
    exit 1
    ;;
esac
