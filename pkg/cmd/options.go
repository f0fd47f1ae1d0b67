package cmd

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/reach/clusterproxy"
	"github.com/drover-io/drover/pkg/reach/endpointtoken"
	"github.com/drover-io/drover/pkg/server"
)

// environmentPrefix precedes a flag's name in the environment, in upper case and with underscores.
const environmentPrefix = "DROVER_"

// serverOptions are the flags of "drover server".
type serverOptions struct {
	config, kubeconfig, dataDir, instanceID string
	embedded, allowLoopback, ui             bool
	capi, coreWrites, crds                  string
	bindAddress                             string
	port                                    int
	healthAddress, profilerAddress          string
	tlsCert, tlsKey, caCerts                string
	assetsDir, agentBinary, releaseData     string
	kubeBinary, machineBinary               string
	admission, admissionAddress             string
	leaderElect, auditLog                   bool
	logLevel, logFormat                     string
	tracingEndpoint                         string
	clusterAccessVerb                       string
	shutdownDelay, endpointTokenLife        time.Duration
	limits                                  server.Limits
	settings                                controllers.Settings
	// renewalInterval is how often Drover's own certificates are checked. 0 means the constant renewalInterval.
	renewalInterval time.Duration
}

func (o *serverOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.config, "config", "",
		"`file` with settings in YAML, with keys named like flags; flags and environment override it")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` with the kubeconfig of the management cluster; empty uses "+
		fromKubeconfigOrCluster)
	f.StringVar(&o.dataDir, "data-dir", "/var/lib/drover",
		"`folder` for certificates and, with --embedded, all data")
	f.StringVar(&o.instanceID, "instance-id", "",
		"`name` that marks the clusters of this Drover, the same for all replicas; empty uses the management "+
			"cluster's identity")
	f.BoolVar(&o.embedded, "embedded", false,
		"start Drover's own management plane (etcd, kube-apiserver, controllers) as child processes")
	f.BoolVar(&o.allowLoopback, "allow-loopback-clusters", false,
		"let kubeconfigs in Secrets name loopback addresses, for clusters on this host; always with --embedded")
	f.StringVar(&o.capi, "capi", "embedded",
		"`mode` of Cluster API's core: embedded runs it in this process, external uses the core in the cluster")
	f.StringVar(&o.coreWrites, "core-writes", "",
		"`way` in which the embedded core writes: plain is Cluster API's own, thrifty needs fewer requests and less "+
			"time; empty means thrifty")
	f.StringVar(&o.crds, "crds", "install",
		"`mode` of the definitions of Drover's kinds: install adds missing ones, host uses only existing ones")
	f.StringVar(&o.bindAddress, "bind-address", "0.0.0.0",
		"`address` of the endpoints for machines and, with --embedded, of the Kubernetes API")
	f.IntVar(&o.port, "port", 8443, "`port` of the endpoints for machines")
	f.BoolVar(&o.ui, "ui", true, "serve the web UI at /ui/ on the port of the endpoints for machines")
	f.StringVar(&o.healthAddress, "health-address", "127.0.0.1:8081",
		"`address` of the endpoints for health, readiness and metrics")
	f.StringVar(&o.profilerAddress, "profiler-address", "",
		"`address` for profiles of this process below /debug/pprof/, for go tool pprof; clients need no credential; "+
			"empty disables it")
	f.StringVar(&o.tlsCert, "tls-cert-file", "",
		"`file` with the serving certificate; empty creates one in the data directory")
	f.StringVar(&o.tlsKey, "tls-key-file", "", "`file` with the key of --tls-cert-file")
	f.StringVar(&o.caCerts, "cacerts-file", "",
		"`file` with the authorities that sign --tls-cert-file, if machines do not trust them already")
	f.StringVar(&o.admission, "admission", "",
		"`mode` of the admission webhooks: install adds them and their policies, host serves the installed ones, "+
			"off disables them; empty means install with --embedded, and off without")
	f.StringVar(&o.admissionAddress, "admission-address", "127.0.0.1:9443",
		"`address` at which the API server reaches the admission webhooks; with host, only the API server should "+
			"reach it")
	f.StringVar(&o.assetsDir, "assets-dir", "", "`folder` with files for /assets/ that override the built-in ones")
	f.StringVar(&o.agentBinary, "agent-binary", "",
		"`file` that machines download as the node agent; empty serves this program")
	f.StringVar(&o.releaseData, "release-data", "",
		"`file or URL` with facts about Kubernetes versions, in addition to the built-in ones")
	f.StringVar(&o.kubeBinary, "kube-binary", "",
		"`file` of drover-kube for --embedded; empty uses the one in the folder of this program")
	f.StringVar(&o.machineBinary, "machine-binary", "",
		"`file` of machine-entrypoint for --embedded; empty uses the one in the folder of this program")
	f.BoolVar(&o.leaderElect, "leader-elect", true,
		"run the controllers only while holding the lease drover-system/drover; never with --embedded")
	f.DurationVar(&o.shutdownDelay, "shutdown-delay", 5*time.Second,
		"`time` to keep serving machines after the signal to stop, while /readyz reports this replica as not ready; "+
			"none with --embedded")
	f.StringVar(&o.clusterAccessVerb, "cluster-access-verb", clusterproxy.DefaultVerb,
		"`verb` that users must be allowed on a Cluster to reach it through Drover: get, or your own, such as proxy")
	f.DurationVar(&o.endpointTokenLife, "endpoint-token-life", endpointtoken.DefaultLife,
		"longest `time` for which a token for a cluster's authorized endpoint is valid, also while Drover is "+
			"unavailable; a single token cannot be revoked")
	f.Var(&limitsFlag{limits: &o.limits}, "limits",
		"`NAME=NUMBER` of limits on what one machine, cluster, namespace or client may use, separated by commas; "+
			"docs/security.md lists the names")
	f.BoolVar(&o.auditLog, "audit-log", false,
		"with --embedded, record every write to the Kubernetes API in logs/audit.log")
	f.StringVar(&o.logLevel, "log-level", "info", "lowest `level` of log messages: debug, info, warning or error")
	f.StringVar(&o.logFormat, "log-format", "text", "`format` of log messages: text or json")
	f.StringVar(&o.tracingEndpoint, "tracing-endpoint", "",
		"`URL` of a receiver of OTLP over gRPC, http://HOST:PORT or https://HOST:PORT, for a trace of each new "+
			"machine; empty sends no traces")
	o.addSettings(f)
}

func (o *serverOptions) addSettings(f *pflag.FlagSet) {
	s := &o.settings
	f.StringVar(&s.ServerURL, "server-url", "",
		"https `address` at which machines reach this server; required without --embedded; empty with --embedded "+
			"means this host's address on its route to other hosts")
	f.StringVar(&s.SystemDefaultRegistry, "system-default-registry", "",
		"`registry` for images of clusters that name no registry")
	f.StringSliceVar(&s.SystemDefaultRegistryPullSecrets, "system-default-registry-pull-secrets", nil,
		"`names` of Secrets in drover-system for that registry, and for the registry of Drover's own images if the "+
			"Secrets list it; tenants can read them")
	f.StringVar(&s.MachineProvisionImage, "machine-provision-image", controllers.DefaultMachineProvisionImage,
		"`image` of rancher-machine")
	f.StringVar(&s.MachineProvisionImagePullPolicy, "machine-provision-image-pull-policy", "Always",
		"`policy` for pulling that image: Always, IfNotPresent or Never")
	f.StringVar(&s.SystemAgentInstallerImage, "system-agent-installer-image", "",
		"`prefix` of the distributions' installer images")
	f.DurationVar(&s.DeleteMachineOnFailureAfter, "delete-machine-on-failure-after", 0,
		"`time` after which a machine that could not be created is replaced; 0 replaces it at once")
	f.DurationVar(&s.BootstrapTokenTTL, "bootstrap-token-ttl", controllers.DefaultBootstrapTokenTTL,
		"`time` for which an install script's token is valid after its last use, once its agent has reported; 0 "+
			"means until the machine is a node")
	f.StringVar(&s.ClusterAgentImage, "cluster-agent-image", serverImage+":"+Version,
		"`image` of the agent inside clusters, which is Drover's own image")
	f.StringVar(&s.ClusterAutoscalerImage, "cluster-autoscaler-image", "",
		"`image` of the cluster-autoscaler that Drover deploys in clusters with sizes for it, where {minor} stands for "+
			"the minor version of the cluster; empty deploys none")
	f.DurationVar(&s.RegistrationTokenTTL, "registration-token-ttl", registration.DefaultTTL,
		"`time` after which the token of a ClusterRegistrationToken without spec.ttl is replaced; a negative value "+
			"means never")
	f.DurationVar(&s.RegistrationTokenGracePeriod, "registration-token-grace-period", registration.DefaultGracePeriod,
		"`time` for which a replaced token stays valid")
	f.StringVar(&s.RegistrationCommands, "registration-commands", registration.CommandsInSecret,
		"`place` of complete registration commands: secret means only the Secret of the token; status means the "+
			"status of the ClusterRegistrationToken, too, so that all users who may get it know its token")
	f.StringVar(&s.AgentUpgrades, "agent-upgrades", controllers.AgentUpgradesManual,
		"`mode` of upgrades of the node agents: manual means only on request (drover upgrade agents); auto means that "+
			"all machines follow the server's agent, a share at a time")
	f.BoolVar(&s.InsecureNodeDrivers, "insecure-node-drivers", false,
		"permit node drivers without a SHA-256 or SHA-512 checksum, or with an address without https; a hostile "+
			"network can then replace a driver, which gets credentials of clouds")
	f.DurationVar(&s.DeletionDeadline, "deletion-deadline", 30*time.Minute,
		"`time` after which a deletion without progress is reported")
}

// complete fills missing flags from the environment, and then from the configuration file.
func complete(cmd *cobra.Command, environ []string) error {
	if err := fillFromEnvironment(cmd.Flags(), environ); err != nil {
		return err
	}
	path, err := cmd.Flags().GetString("config")
	if err != nil || path == "" {
		return err
	}
	values, err := readConfig(path, cmd.Flags())
	if err != nil {
		return err
	}
	return fill(cmd.Flags(), values, func(flag string) string { return "config file " + path + ": --" + flag })
}

// environment returns the flags' values from the environment, by flag name.
func environment(environ []string) map[string]string {
	given := map[string]string{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if key, ok := strings.CutPrefix(name, environmentPrefix); ok {
			given[strings.ToLower(strings.ReplaceAll(key, "_", "-"))] = value
		}
	}
	return given
}

// fillFromEnvironment fills missing flags from the environment.
func fillFromEnvironment(flags *pflag.FlagSet, environ []string) error {
	values := environment(environ)
	maps.DeleteFunc(values, func(name, value string) bool { return isServiceLink(flags.Lookup(name), value) })
	return fill(flags, values, func(flag string) string {
		return environmentPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	})
}

// isServiceLink reports whether Kubernetes, and not a user, has set the variable of a flag. If a Service is named
// drover, containers in its namespace get DROVER_PORT=tcp://10.43.0.7:443.
func isServiceLink(flag *pflag.Flag, value string) bool {
	if flag == nil || !strings.HasPrefix(flag.Value.Type(), "int") {
		return false
	}
	protocol, _, isLink := strings.Cut(value, "://")
	return isLink && slices.Contains([]string{"tcp", "udp", "sctp"}, protocol)
}

// fill sets missing flags. source names the origin of a value.
func fill(flags *pflag.FlagSet, values map[string]string, source func(flag string) string) error {
	var problems []error
	flags.VisitAll(func(flag *pflag.Flag) {
		value, ok := values[flag.Name]
		if !ok || flag.Changed {
			return
		}
		if err := flags.Set(flag.Name, value); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", source(flag.Name), err))
		}
	})
	return errors.Join(problems...)
}

func readConfig(path string, flags *pflag.FlagSet) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read config file: %w", err)
	}
	var raw map[string]any
	if err := yaml.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("read config file %s: %w", path, err)
	}
	values := map[string]string{}
	var unknown []string
	for key, value := range raw {
		if flags.Lookup(key) == nil {
			unknown = append(unknown, key)
			continue
		}
		values[key] = text(value)
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return nil, fmt.Errorf("read config file %s: unknown keys %s; keys are named like the flags of drover server",
			path, strings.Join(unknown, ", "))
	}
	return values, nil
}

// text returns a value of the configuration file as the text of a flag.
func text(value any) string {
	var items []string
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			items = append(items, text(item))
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			items = append(items, key+"="+text(value[key]))
		}
	case float64: // without an exponent
		return strconv.FormatFloat(value, 'f', -1, 64)
	default:
		return fmt.Sprint(value)
	}
	return strings.Join(items, ",")
}
