#!/usr/bin/env sh
# Installs the node agent on this machine and connects it to a server.
#
# What this machine runs already goes on unchanged until the server has let this script in and everything new lies ready: a
# repeated run with a token that is good no more, or without a server, disturbs nothing.
#
# Everything can be given by environment (CATTLE_…) or by flag; see usage below. Nothing is trusted but the system's
# certificate authorities, or the server's own authority when its SHA-256 is given: then that one alone.
set -eu
# Tracing, which DEBUG=1 asks for as well, begins where nothing secret is an argument or an assignment any more; see main.
case $- in *x*) { set +x && DEBUG=1; } 2>/dev/null ;; esac

AGENT=rancher-system-agent
TRIES=4500
PAUSE=5

usage() {
    cat <<USAGE
Usage: install.sh [flags]
  -s, --server URL             server to connect to                    (CATTLE_SERVER)
  -t, --token TOKEN            token to introduce this machine with    (CATTLE_TOKEN)
  -c, --ca-checksum SHA256     SHA-256 of the server's authority       (CATTLE_CA_CHECKSUM)
  -e, --etcd                   be a member of etcd                     (CATTLE_ROLE_ETCD)
  -p, --controlplane           run the control plane                   (CATTLE_ROLE_CONTROLPLANE)
  -w, --worker                 run workloads                           (CATTLE_ROLE_WORKER)
  -a, --all-roles              all three
      --no-roles               the server knows the roles              (CATTLE_ROLE_NONE)
  -n, --node-name NAME         name of the node                        (CATTLE_NODE_NAME)
      --address ADDR           public address, interface or keyword    (CATTLE_ADDRESS)
  -i, --internal-address ADDR  private address, interface or keyword   (CATTLE_INTERNAL_ADDRESS)
  -l, --label K=V              node label, can be repeated             (CATTLE_LABELS)
      --taint K=V:EFFECT       node taint, can be repeated             (CATTLE_TAINTS)
USAGE
}

info() { echo "[INFO]  $*"; }
warn() { echo "[WARN]  $*" >&2; }
fatal() {
    echo "[ERROR] $*" >&2
    exit 1
}

# join LIST ITEM prints both with a comma between.
join() { if [ -n "$1" ]; then echo "$1,$2"; else echo "$2"; fi; }

# is_true tells whether a value means yes.
is_true() { case "$1" in true | True | TRUE | 1 | yes) return 0 ;; *) return 1 ;; esac }

read_environment() {
    SERVER=${CATTLE_SERVER:-}
    TOKEN=${CATTLE_TOKEN:-}
    CA_CHECKSUM=${CATTLE_CA_CHECKSUM:-}
    ROLE_ETCD=${CATTLE_ROLE_ETCD:-false}
    ROLE_CONTROLPLANE=${CATTLE_ROLE_CONTROLPLANE:-false}
    ROLE_WORKER=${CATTLE_ROLE_WORKER:-false}
    ROLE_NONE=${CATTLE_ROLE_NONE:-false}
    LABELS=${CATTLE_LABELS:-}
    TAINTS=${CATTLE_TAINTS:-}
    NODE_NAME=${CATTLE_NODE_NAME:-}
    ADDRESS=${CATTLE_ADDRESS:-}
    INTERNAL_ADDRESS=${CATTLE_INTERNAL_ADDRESS:-}
    STRICT=${CATTLE_AGENT_STRICT_VERIFY:-${STRICT_VERIFY:-false}}
    REMOTE=${CATTLE_REMOTE_ENABLED:-true}
    LOCAL=${CATTLE_LOCAL_ENABLED:-false}
    PRESERVE=${CATTLE_PRESERVE_WORKDIR:-false}
    LOGLEVEL=${CATTLE_AGENT_LOGLEVEL:-info}
    FALLBACK_PATH=${CATTLE_AGENT_FALLBACK_PATH:-/opt/rke2/bin:/opt/bin}
}

# value FLAG COUNT VALUE prints the value of a flag, or fails when the command line ends before it.
value() {
    [ "$2" -ge 2 ] || fatal "flag $1 needs a value"
    echo "$3"
}

read_flags() {
    while [ $# -gt 0 ]; do
        case "$1" in
        -s | --server) SERVER=$(value "$1" $# "${2:-}"); shift ;;
        -t | --token) TOKEN=$(value "$1" $# "${2:-}"); shift ;;
        -c | --ca-checksum) CA_CHECKSUM=$(value "$1" $# "${2:-}"); shift ;;
        -n | --node-name) NODE_NAME=$(value "$1" $# "${2:-}"); shift ;;
        --address) ADDRESS=$(value "$1" $# "${2:-}"); shift ;;
        -i | --internal-address) INTERNAL_ADDRESS=$(value "$1" $# "${2:-}"); shift ;;
        -l | --label | --labels) v=$(value "$1" $# "${2:-}"); LABELS=$(join "$LABELS" "$v"); shift ;;
        --taint | --taints) v=$(value "$1" $# "${2:-}"); TAINTS=$(join "$TAINTS" "$v"); shift ;;
        -e | --etcd) ROLE_ETCD=true ;;
        -p | --controlplane) ROLE_CONTROLPLANE=true ;;
        -w | --worker) ROLE_WORKER=true ;;
        -a | --all-roles) ROLE_ETCD=true ROLE_CONTROLPLANE=true ROLE_WORKER=true ;;
        --no-roles) ROLE_NONE=true ;;
        -h | --help) usage && exit 0 ;;
        *) usage >&2 && fatal "unknown flag $1" ;;
        esac
        shift
    done
}

check_input() {
    [ "$(id -u)" = 0 ] || fatal "this must be run as root"
    is_true "$REMOTE" || is_true "$LOCAL" || fatal "CATTLE_REMOTE_ENABLED or CATTLE_LOCAL_ENABLED must be true"
    command -v curl >/dev/null 2>&1 || fatal "curl is needed and not installed"
    command -v sha256sum >/dev/null 2>&1 || fatal "sha256sum is needed and not installed"
    if is_true "$ROLE_NONE"; then
        ROLE_ETCD=false ROLE_CONTROLPLANE=false ROLE_WORKER=false
    elif is_true "$REMOTE" && ! is_true "$ROLE_ETCD" && ! is_true "$ROLE_CONTROLPLANE" && ! is_true "$ROLE_WORKER"; then
        fatal "at least one role must be chosen: --etcd, --controlplane, --worker, --all-roles or --no-roles"
    fi
    if is_true "$REMOTE"; then
        [ -n "$SERVER" ] || fatal "the server must be given: --server or CATTLE_SERVER"
        [ -n "${TOKEN:+given}" ] || fatal "the token must be given: --token or CATTLE_TOKEN"
        SERVER=${SERVER%/}
        case "$SERVER" in https://*) ;; *) fatal "the server must be an https URL" ;; esac
        ! is_true "$STRICT" || [ -n "$CA_CHECKSUM" ] || fatal "strict verification needs --ca-checksum or CATTLE_CA_CHECKSUM"
    fi
    ARCH=${ARCH:-$(uname -m)}
    case "$ARCH" in
    x86_64 | amd64) ARCH=amd64 ;;
    aarch64 | arm64) ARCH=arm64 ;;
    s390x) ARCH=s390x ;;
    arm*) ARCH=arm ;;
    *) fatal "machines of type $ARCH are not supported" ;;
    esac
}

# writable tells whether programs can be installed below a directory.
writable() { ! grep -qs " $1 " /proc/mounts && mkdir -p "$1/bin" 2>/dev/null && [ -w "$1/bin" ]; }

find_places() {
    CONFIG_DIR=${CATTLE_AGENT_CONFIG_DIR:-/etc/rancher/agent}
    VAR_DIR=${CATTLE_AGENT_VAR_DIR:-/var/lib/rancher/agent}
    PREFIX=/usr/local
    UNIT_PATH=
    if [ -x /usr/sbin/transactional-update ] && [ -n "${TRANSACTIONAL_UPDATE:-}" ]; then
        PREFIX=/usr
        VAR_DIR=${CATTLE_AGENT_VAR_DIR:-/etc/rancher/agent/var}
    elif ! writable /usr/local; then
        PREFIX=/opt/$AGENT
        UNIT_PATH=$PATH:$FALLBACK_PATH
    fi
    PREFIX=${CATTLE_AGENT_BIN_PREFIX:-$PREFIX}
    # Not hidden: the program is the agent by the beginning of its name.
    NEW_AGENT=$PREFIX/bin/$AGENT.new
    NEW_UNINSTALL=$PREFIX/bin/.$AGENT-uninstall.new
    INTERLOCK=$VAR_DIR/interlock
    CONNECTION=$VAR_DIR/rancher2_connection_info.json
    SYSTEMD_DIR=${CATTLE_AGENT_SYSTEMD_DIR:-/etc/systemd/system}
    UNIT=$SYSTEMD_DIR/$AGENT.service
    ENV_FILE=$SYSTEMD_DIR/$AGENT.env
    mkdir -p "$VAR_DIR" "$INTERLOCK" "$CONFIG_DIR" "$PREFIX/bin"
    chown root:root "$VAR_DIR" "$INTERLOCK" "$CONFIG_DIR"
    chmod 0700 "$VAR_DIR" "$INTERLOCK" "$CONFIG_DIR"
}

metadata() { curl -sfL --connect-timeout 10 --max-time 60 "$@"; }

# resolve turns an address argument into addresses: nothing, an interface, a cloud keyword, or what was given.
resolve() {
    case "$1" in
    "") return ;;
    awslocal) metadata http://169.254.169.254/latest/meta-data/local-ipv4 ;;
    awspublic) metadata http://169.254.169.254/latest/meta-data/public-ipv4 ;;
    doprivate) metadata http://169.254.169.254/metadata/v1/interfaces/private/0/ipv4/address ;;
    dopublic) metadata http://169.254.169.254/metadata/v1/interfaces/public/0/ipv4/address ;;
    azprivate) metadata -H Metadata:true "http://169.254.169.254/metadata/instance/network/interface/0/ipv4/ipAddress/0/privateIpAddress?api-version=2021-02-01&format=text" ;;
    azpublic) metadata -H Metadata:true "http://169.254.169.254/metadata/instance/network/interface/0/ipv4/ipAddress/0/publicIpAddress?api-version=2021-02-01&format=text" ;;
    gceinternal) metadata -H Metadata-Flavor:Google http://metadata.google.internal/computeMetadata/v1/instance/network-interfaces/0/ip ;;
    gceexternal) metadata -H Metadata-Flavor:Google http://metadata.google.internal/computeMetadata/v1/instance/network-interfaces/0/access-configs/0/external-ip ;;
    packetlocal) metadata https://metadata.packet.net/2009-04-04/meta-data/local-ipv4 ;;
    packetpublic) metadata https://metadata.packet.net/2009-04-04/meta-data/public-ipv4 ;;
    ipify) metadata https://api.ipify.org ;;
    *)
        if [ -d "/sys/class/net/$1" ] && command -v ip >/dev/null 2>&1; then
            ip -4 -o addr show dev "$1" | awk 'NR == 1 { split($4, a, "/"); print a[1] }'
        else
            echo "$1"
        fi
        ;;
    esac
}

# await_cleanup waits until the last plan of a removed host has removed the former agent, and tells whether it had to.
await_cleanup() {
    i=0
    while [ $i -lt 24 ] && [ "$(systemctl is-active drover-host-cleanup 2>/dev/null)" = active ]; do
        i=$((i + 1)) && sleep $PAUSE
    done
    [ $i -gt 0 ]
}

# hold_agent keeps a running agent from starting another plan, and waits for the one it is applying. It comes last of what takes
# time, because an agent that is held does nothing for its cluster.
hold_agent() {
    HELD=yes
    : >"$INTERLOCK/restart-pending"
    i=0
    while [ -e "$INTERLOCK/applyinator-active" ] && [ $i -lt 60 ]; do
        [ $i -gt 0 ] || info "Waiting for the plan that is being applied"
        systemctl is-active --quiet $AGENT || break
        i=$((i + 1))
        sleep $PAUSE
    done
}

# reason FILE CODE prints why a server did not do what it was asked, as far as it says so.
reason() {
    case "$2" in 4?? | 5??) ;; *) return 0 ;; esac
    text=$(head -c 300 "$1" 2>/dev/null | tr -c '[:print:]' ' ' | sed 's/ *$//')
    [ -z "$text" ] || echo ": $text"
}

# fetch URL FILE [curl arguments] downloads until the server answers 200.
fetch() {
    url=$1 file=$2
    shift 2
    i=0
    while :; do
        rm -f "$file"
        code=$(curl -sS --connect-timeout 60 --max-time "${FETCH_TIME:-60}" -o "$file" -w '%{http_code}' "$@" "$url") || code=000
        [ "$code" != 200 ] || return 0
        i=$((i + 1))
        [ $i -lt $TRIES ] || fatal "gave up asking $url: it answered $code"
        [ $((i % 12)) -ne 1 ] || warn "$url answered $code$(reason "$file" "$code"), trying again every $PAUSE seconds"
        sleep $PAUSE
    done
}

# trust_server finds what verifies the server: the authority with the given checksum and nothing else, or the system's.
trust_server() {
    set_ca=
    [ -n "$CA_CHECKSUM" ] || return 0
    CA_FILE=$WORK/server-ca.pem
    fetch "$SERVER/cacerts" "$CA_FILE" --insecure
    sum=$(sha256sum "$CA_FILE" | cut -d' ' -f1)
    [ "$sum" = "$CA_CHECKSUM" ] || fatal "the authority of $SERVER has SHA-256 $sum, expected $CA_CHECKSUM"
    grep -q 'BEGIN CERTIFICATE' "$CA_FILE" || fatal "$SERVER/cacerts is not a certificate"
    set_ca=yes
}

# server_fetch is fetch, verified: what comes from the server by its own authority where that is known.
server_fetch() {
    case "$set_ca$1" in
    yes"$SERVER"/*) fetch "$@" --cacert "$CA_FILE" ;;
    *) fetch "$@" ;;
    esac
}

# verify FILE SHA256 fails when the file has another checksum.
verify() {
    [ -n "$2" ] || return 0
    sum=$(sha256sum "$1" | cut -d' ' -f1)
    [ "$sum" = "$2" ] || fatal "download has SHA-256 $sum, expected $2"
}

# fetch_programs puts the programs beside their places, where they can be run and renamed: /var may forbid the one and be on
# another disk.
fetch_programs() {
    base=${CATTLE_AGENT_BINARY_BASE_URL:-$SERVER/assets}
    url=${CATTLE_AGENT_BINARY_URL:-$base/$AGENT-$ARCH}
    uninstall_url=${CATTLE_AGENT_UNINSTALL_URL:-$base/system-agent-uninstall.sh}
    eval "sum=\${CATTLE_AGENT_BINARY_CHECKSUM:-\${CATTLE_AGENT_BINARY_CHECKSUM_$ARCH:-}}"
    if is_true "${CATTLE_AGENT_BINARY_LOCAL:-false}"; then
        cp "$CATTLE_AGENT_BINARY_LOCAL_LOCATION" "$NEW_AGENT"
    else
        info "Downloading $url"
        FETCH_TIME=300 server_fetch "$url" "$NEW_AGENT"
        # shellcheck disable=SC2154
        verify "$NEW_AGENT" "$sum"
    fi
    if is_true "${CATTLE_AGENT_UNINSTALL_LOCAL:-false}"; then
        cp "$CATTLE_AGENT_UNINSTALL_LOCAL_LOCATION" "$NEW_UNINSTALL"
    else
        FETCH_TIME=300 server_fetch "$uninstall_url" "$NEW_UNINSTALL"
        verify "$NEW_UNINSTALL" "${CATTLE_AGENT_UNINSTALL_CHECKSUM:-}"
    fi
    chmod 0755 "$NEW_AGENT" "$NEW_UNINSTALL"
    chown root:root "$NEW_AGENT" "$NEW_UNINSTALL"
}

# place_all gives the new files their names, each in one step. A running agent does not notice before it is restarted.
place_all() {
    mv -f "$NEW_AGENT" "$PREFIX/bin/$AGENT"
    mv -f "$NEW_UNINSTALL" "$PREFIX/bin/$AGENT-uninstall.sh"
    write_config
    ! is_true "$REMOTE" || mv -f "$CONNECTION.tmp" "$CONNECTION"
}

# private FILE writes standard input to a file that only root can read.
private() {
    (umask 077 && cat >"$1.new")
    chmod 0600 "$1.new"
    chown root:root "$1.new"
    mv -f "$1.new" "$1"
}

write_config() {
    private "$CONFIG_DIR/config.yaml" <<CONFIG
workDirectory: $VAR_DIR/work
appliedPlanDirectory: $VAR_DIR/applied
localPlanDirectory: $VAR_DIR/plans
localEnabled: $(is_true "$LOCAL" && echo true || echo false)
remoteEnabled: $(is_true "$REMOTE" && echo true || echo false)
connectionInfoFile: $CONNECTION
interlockDirectory: $INTERLOCK
preserveWorkDirectory: $(is_true "$PRESERVE" && echo true || echo false)
CONFIG
}

# find_id is the identity of this machine, 63 hexadecimal digits, kept for good: the server lets no other one in once it has
# heard this one, so it is on the disk before. It is in no trace, because it goes with the token.
find_id() {
    if [ -z "${CATTLE_ID:+given}" ] && [ ! -s "$CONFIG_DIR/cattle-id" ]; then
        head -c 512 /dev/urandom | sha256sum | cut -c1-63 | private "$CONFIG_DIR/cattle-id"
    elif [ -n "${CATTLE_ID:+given}" ]; then
        private "$CONFIG_DIR/cattle-id" <<ID
$CATTLE_ID
ID
    fi
    sync "$CONFIG_DIR/cattle-id" "$CONFIG_DIR" 2>/dev/null || sync
}

# connect exchanges the token for the connection of this machine, which lies beside the one in use then. The token goes through a file,
# where no list of processes shows it, and into that by a here-document, which no trace shows.
connect() {
    find_id
    private "$WORK/headers" <<HEADERS
Authorization: Bearer $TOKEN
X-Cattle-Id: $(cat "$CONFIG_DIR/cattle-id")
X-Cattle-Role-Etcd: $ROLE_ETCD
X-Cattle-Role-Control-Plane: $ROLE_CONTROLPLANE
X-Cattle-Role-Worker: $ROLE_WORKER
HEADERS
    for pair in "Node-Name:$NODE_NAME" "Hostname:$(hostname 2>/dev/null || uname -n)" "Address:$(resolve "$ADDRESS")" "Internal-Address:$(resolve "$INTERNAL_ADDRESS")" "Labels:$LABELS" "Taints:$TAINTS"; do
        [ -z "${pair#*:}" ] || echo "X-Cattle-${pair%%:*}: ${pair#*:}" >>"$WORK/headers"
    done
    server_fetch "$SERVER/v3/connect/agent" "$WORK/rancher2_connection_info.json" -H "@$WORK/headers"
    private "$CONNECTION.tmp" <"$WORK/rancher2_connection_info.json"
    "$NEW_AGENT" validate-connection "$CONNECTION.tmp" || fatal "the connection the server gave is not valid"
}

# field NAME FILE prints a text field of a connection.
field() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$2" 2>/dev/null | head -n 1; }

# server_of FILE prints the server in the kubeconfig of a connection.
server_of() { sed -n 's/.*server: *\(https:[^\\ ]*\).*/\1/p' "$1" 2>/dev/null | head -n 1; }

# is_former tells whether this host was another Machine of the same name before, which is removed: there is one Machine of a name.
is_former() {
    [ -s "$CONNECTION" ] || return 1
    for part in namespace secretName; do
        [ "$(field $part "$CONNECTION")" = "$(field $part "$CONNECTION.tmp")" ] || return 1
    done
    [ "$(server_of "$CONNECTION")" = "$(server_of "$CONNECTION.tmp")" ]
}

# remove_former removes the distribution that this host has from a Machine that is removed. Its data are of no use: the member of
# etcd has left, and the node has another name tag.
remove_former() {
    uid=$(field machineUID "$CONNECTION.tmp")
    [ -n "$uid" ] && is_former || return 0
    for runtime in rke2 k3s; do
        config=/etc/rancher/$runtime/config.yaml.d/50-rancher.yaml
        grep -qs 'rke.cattle.io/machine=' "$config" && ! grep -qs "rke.cattle.io/machine=$uid" "$config" || continue
        info "The Machine that this host was is removed. Removing its $runtime"
        data=$(field data-dir "$config")
        [ -z "$data" ] || export RKE2_DATA_DIR="$data" K3S_DATA_DIR="$data"
        removed=
        for script in $runtime-uninstall.sh $runtime-agent-uninstall.sh; do
            file=$(PATH=$PATH:/usr/local/bin:/usr/bin:/opt/$runtime/bin:/opt/bin command -v "$script") || continue
            "$file" </dev/null || fatal "$file failed; repair that and run this command again"
            removed=yes
        done
        [ -n "$removed" ] || fatal "$runtime-uninstall.sh is missing; remove $runtime by hand and run this command again"
        rm -rf /var/lib/rancher/capr
    done
}

write_service() {
    private "$ENV_FILE" <<ENVIRONMENT
$(env | grep -iE '^(no|http|https)_proxy=' || true)
$([ -z "$UNIT_PATH" ] || echo "PATH=$UNIT_PATH")
ENVIRONMENT
    cat >"$UNIT.new" <<SERVICE
[Unit]
Description=Node agent that applies the plans of its server
Documentation=https://github.com/drover-io/drover
Wants=network-online.target
After=network-online.target

[Install]
WantedBy=multi-user.target

[Service]
EnvironmentFile=-/etc/default/$AGENT
EnvironmentFile=-/etc/sysconfig/$AGENT
EnvironmentFile=-$ENV_FILE
Type=simple
Restart=always
RestartSec=5s
Environment=CATTLE_LOGLEVEL=$LOGLEVEL
Environment=CATTLE_AGENT_CONFIG=$CONFIG_DIR/config.yaml
Environment=CATTLE_AGENT_STRICT_VERIFY=$(is_true "$STRICT" && echo true || echo false)
ExecStart=$PREFIX/bin/$AGENT sentinel
SERVICE
    chmod 0644 "$UNIT.new"
    mv -f "$UNIT.new" "$UNIT"
    systemctl daemon-reload
    systemctl enable $AGENT >/dev/null 2>&1
    rm -f "$INTERLOCK/restart-pending"
    systemctl restart $AGENT
}

# clean_up removes what an installation leaves that failed, and lets the agent go on.
clean_up() {
    rm -rf "$WORK" "$CONNECTION.tmp" "$NEW_AGENT" "$NEW_UNINSTALL" "$UNIT.new"
    [ -z "$HELD" ] || rm -f "$INTERLOCK/restart-pending"
}

main() {
    read_environment
    read_flags "$@"
    [ "${DEBUG:-}" != 1 ] || set -x
    check_input
    await_cleanup || :
    find_places
    WORK=$(mktemp -d "$VAR_DIR/install.XXXXXX")
    HELD=
    trap clean_up EXIT
    set_ca=
    if is_true "$REMOTE"; then
        trust_server
        server_fetch "$SERVER/healthz" "$WORK/healthz"
    fi
    fetch_programs
    ! is_true "$REMOTE" || connect
    ! await_cleanup || fatal "the former agent was removed while this command ran; run it again"
    hold_agent
    ! is_true "$REMOTE" || remove_former
    place_all
    write_service
    info "The agent is installed and running"
}

main "$@"
