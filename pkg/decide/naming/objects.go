package naming

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// RandomTokenAlphabet is the set of characters, each equally likely, of which
// random tokens are made: no vowels and no look-alikes.
const RandomTokenAlphabet = "bcdfghjklmnpqrstvwxz2456789"

// RandomTokenLength is the number of characters of a random token.
const RandomTokenLength = 54

// ManagementClusterPrefix starts the name of every management cluster that was
// made for a provisioning cluster.
const ManagementClusterPrefix = "c-m-"

const managementClusterRandom = 8

// ManagementCluster returns the name of a new management cluster, which is the
// name of its namespace too, made of the first eight characters of a random
// token. A shorter token is used whole: the caller draws one of
// RandomTokenLength characters.
func ManagementCluster(randomToken string) string {
	return ManagementClusterPrefix + randomToken[:min(len(randomToken), managementClusterRandom)]
}

// MachineDeployment names the MachineDeployment and the MachineHealthCheck of a
// machine pool.
func MachineDeployment(cluster, pool string) string { return SafeConcat(cluster, pool) }

// MachineTemplate names a machine template; hash comes from MachineTemplateHash.
func MachineTemplate(machineDeployment, hash string) string {
	return SafeConcat(machineDeployment, hash)
}

// BootstrapTemplate names the bootstrap template that all pools of a cluster
// share when its infrastructure is our own.
func BootstrapTemplate(cluster string) string { return SafeConcat(cluster, "bootstrap", "template") }

// PoolBootstrapTemplate names the bootstrap template of one pool on foreign
// infrastructure; userdata is the pool's inline user data, "" when it has none.
func PoolBootstrapTemplate(machineDeployment, userdata string) string {
	return SafeConcat(machineDeployment, BootstrapTemplateHash(machineDeployment, userdata))
}

// PlanSecret names a node's plan Secret and the ServiceAccount, Role and
// RoleBinding its agent reads it with.
func PlanSecret(bootstrap string) string { return SafeConcat(bootstrap, "machine", "plan") }

// BootstrapSecret names the Secret with a machine's bootstrap data and the
// ServiceAccount whose token is in it.
func BootstrapSecret(bootstrap string) string { return SafeConcat(bootstrap, "machine", "bootstrap") }

// MachineState names the Secret that holds the driver's state of an
// infrastructure machine: losing it orphans the virtual machine.
func MachineState(infraMachine string) string { return SafeConcat(infraMachine, "machine", "state") }

// MachineProvision names the provisioning Job of an infrastructure machine and
// the Secret of files, ServiceAccount, Role and RoleBinding that belong to it.
func MachineProvision(infraMachine string) string {
	return SafeConcat(infraMachine, "machine", "provision")
}

// MachineProvisionExtension names the RoleBinding that lets operators extend
// the rights of the provisioning Job.
func MachineProvisionExtension(infraMachine string) string {
	return SafeConcat(MachineProvision(infraMachine), "extension")
}

// MachineDriverSecret names the Secret with the environment of the provisioning
// Job: credentials and proxy variables.
func MachineDriverSecret(infraMachine string) string {
	return SafeConcat(infraMachine, "machine", "driver", "secret")
}

// MachineCerts names the Secret with the certificates the provisioning Job
// trusts. The hash keeps it short for any machine name.
func MachineCerts(infraMachine string) string {
	sum := sha256.Sum256([]byte(infraMachine))
	return "machine-certs-" + hex.EncodeToString(sum[:16])
}

// MachinePull names the copy of a Secret with which the provisioning Job pulls
// its image, counted from 0.
func MachinePull(infraMachine string, i int) string {
	return SafeConcat(infraMachine, "machine", "pull", strconv.Itoa(i))
}

// Instance is the name under which the driver creates the machine. Dots become
// dashes because cloud-init keeps only what is before the first dot.
func Instance(infraMachine string) string {
	return SafeConcat(strings.ReplaceAll(infraMachine, ".", "-"))
}

// Hostname is the host name a machine gets, at most limit bytes long. A limit
// outside 10 to 63 is ignored, as if it were 63.
func Hostname(limit int, infraMachine string) string {
	if limit < MinHostnameLimit || limit > MaxLength {
		limit = MaxLength
	}
	return SafeConcatMax(limit, strings.ReplaceAll(infraMachine, ".", "-"))
}

// MinHostnameLimit is the smallest host name length limit that is honoured, in
// bytes.
const MinHostnameLimit = 10

// The three kinds of host that can ask to be registered; each is the prefix of
// the name of its request.
const (
	MachineRequestCustom   = "custom"
	MachineRequestImported = "imported"
	MachineRequestCAPI     = "capi"
)

// MachineRequest names the Secret by which a host asks to be registered, and
// the Machine, RKEBootstrap and CustomMachine that follow from it. kind is one
// of the MachineRequest constants, machineID the id the host sent.
func MachineRequest(kind, machineID string) string {
	return kind + "-" + sha256Hex(machineID)[:12]
}

// EndpointKeys names the Secret with the keys of the tokens for a cluster's authorized endpoint.
func EndpointKeys(cluster string) string { return SafeConcat(cluster, "endpoint", "keys") }

// ClusterState names the Secret with a cluster's join tokens.
func ClusterState(cluster string) string { return SafeConcat(cluster, "rke", "state") }

// ETCDSnapshot names the object for a snapshot of a cluster (docs/wire/planner.md#etcdsnapshot-objects). storage is
// `local` or `s3`, snapshot the name of its file, node and location where it is as the cluster says it, and created
// when it was taken, in seconds since 1970.
func ETCDSnapshot(cluster, storage, snapshot, node, location string, created int64) string {
	name := strings.ToLower(snapshot)
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		name = "etcd-snapshot-"
		if host, _, _ := strings.Cut(strings.ToLower(node), "."); len(validation.IsDNS1123Label(host)) == 0 {
			name += host + "-"
		}
		name += strconv.FormatInt(created, 10)
	}
	return SafeConcat(cluster, storage+"-"+name+"-"+sha256Hex(node + location)[:6])
}

// ClusterAgent names the Secret with the manifest of the agent inside a cluster.
func ClusterAgent(cluster string) string { return SafeConcat(cluster, "cluster", "agent") }

// Kubeconfig names the Secret with a cluster's kubeconfig. It is never
// shortened, because Cluster API looks the plain form up; MaxClusterName keeps
// it a valid name.
func Kubeconfig(cluster string) string { return cluster + kubeconfigSuffix }

// ClusterOfKubeconfig is the cluster whose kubeconfig a Secret of a name is; ok is false when it is that of none.
func ClusterOfKubeconfig(secret string) (cluster string, ok bool) {
	return strings.CutSuffix(secret, kubeconfigSuffix)
}

const kubeconfigSuffix = "-kubeconfig"

// MaxClusterName is the longest name of a cluster, in bytes: longer ones do not
// fit into the labels that carry them.
const MaxClusterName = MaxLength

// AdmissionConfiguration names the Secret with the pod security admission
// configuration of a cluster.
func AdmissionConfiguration(cluster string) string {
	return cluster + "-admission-configuration-psact"
}

// DefaultRegistrationToken is the name of the ClusterRegistrationToken that
// every management cluster has.
const DefaultRegistrationToken = "default-token"

// SystemRegistrationToken is the name of the ClusterRegistrationToken by which
// the agent inside a cluster registers, where the default one is for hosts.
const SystemRegistrationToken = "system"

// RegistrationTokenSecret names the Secret that holds the value of a
// ClusterRegistrationToken.
func RegistrationTokenSecret(registrationToken string) string {
	return "crt-token-" + registrationToken
}

// ClusterOwnerBinding names the binding that makes a cluster's provisioning
// user its owner.
func ClusterOwnerBinding(managementCluster, namespace string) string {
	return SafeConcat(managementCluster, namespace, "owner")
}

// S3EndpointCA is the file name under which a node stores the certificate
// authority of a snapshot store; base64CA is the text as the user wrote it.
func S3EndpointCA(base64CA string) string { return "s3-endpoint-ca-" + Hex(base64CA, 5) + ".crt" }
