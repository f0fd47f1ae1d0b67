package naming

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

// ListsCluster reports whether a comma-separated list, as in annotation rke.cattle.io/object-authorized-for-clusters,
// has a cluster in the namespace of the annotated object: NAME, NAMESPACE/NAME or NAMESPACE/*.
// (docs/wire/names.md#annotations.)
func ListsCluster(list, namespace, name string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(entry) {
		case name, namespace + "/" + name, namespace + "/*":
			return true
		}
	}
	return false
}

// RandomTokenAlphabet is the set of characters of random tokens, each equally likely. It has no vowels and no
// look-alikes.
const RandomTokenAlphabet = "bcdfghjklmnpqrstvwxz2456789"

// RandomTokenLength is the number of characters of a random token.
const RandomTokenLength = 54

// RandomToken draws a token of RandomTokenLength characters.
func RandomToken(random io.Reader) (string, error) {
	const alphabet = RandomTokenAlphabet
	const limit = 256 - 256%len(alphabet) // bytes above would favor the first characters
	token := make([]byte, 0, RandomTokenLength)
	draw := make([]byte, RandomTokenLength)
	for len(token) < RandomTokenLength {
		if _, err := io.ReadFull(random, draw); err != nil {
			return "", fmt.Errorf("generate a random token: %w", err)
		}
		for _, b := range draw {
			if int(b) < limit && len(token) < RandomTokenLength {
				token = append(token, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(token), nil
}

// ManagementClusterPrefix begins the name of every management cluster that was created for a provisioning cluster.
const ManagementClusterPrefix = "c-m-"

const managementClusterRandom = 8

// ManagementCluster returns the name of a new management cluster and of its namespace. It contains the first eight
// characters of a random token, or all of a shorter one. The caller draws a token of RandomTokenLength characters.
func ManagementCluster(randomToken string) string {
	return ManagementClusterPrefix + randomToken[:min(len(randomToken), managementClusterRandom)]
}

// MachineDeployment names the MachineDeployment and the MachineHealthCheck of a machine pool.
func MachineDeployment(cluster, pool string) string { return SafeConcat(cluster, pool) }

// MachineTemplate names a machine template; hash comes from MachineTemplateHash.
func MachineTemplate(machineDeployment, hash string) string {
	return SafeConcat(machineDeployment, hash)
}

// BootstrapTemplate names the bootstrap template that all pools of a cluster share on Drover's own infrastructure.
func BootstrapTemplate(cluster string) string { return SafeConcat(cluster, "bootstrap", "template") }

// PoolBootstrapTemplate names the bootstrap template of one pool on another provider's infrastructure. userdata is the
// pool's inline user data, "" when it has none.
func PoolBootstrapTemplate(machineDeployment, userdata string) string {
	return SafeConcat(machineDeployment, BootstrapTemplateHash(machineDeployment, userdata))
}

// PlanSecret names a node's plan Secret, and the ServiceAccount, Role and RoleBinding with which its agent reads it.
func PlanSecret(bootstrap string) string { return SafeConcat(bootstrap, "machine", "plan") }

// BootstrapSecret names the Secret with a machine's bootstrap data and the ServiceAccount whose token it contains.
func BootstrapSecret(bootstrap string) string { return SafeConcat(bootstrap, "machine", "bootstrap") }

// MachineState names the Secret with the driver's state of an infrastructure machine. Losing it orphans the virtual
// machine.
func MachineState(infraMachine string) string { return SafeConcat(infraMachine, "machine", "state") }

// MachineOutput names the Secret with the last output of an infrastructure machine's Jobs.
func MachineOutput(infraMachine string) string { return SafeConcat(infraMachine, "machine", "output") }

// MachineProvision names the provisioning Job of an infrastructure machine, and its Secret of files, ServiceAccount,
// Role and RoleBinding.
func MachineProvision(infraMachine string) string {
	return SafeConcat(infraMachine, "machine", "provision")
}

// MachineProvisionExtension names the RoleBinding with which operators extend the rights of the provisioning Job.
func MachineProvisionExtension(infraMachine string) string {
	return SafeConcat(MachineProvision(infraMachine), "extension")
}

// MachineDriverSecret names the Secret with the provisioning Job's environment: credentials and proxy variables.
func MachineDriverSecret(infraMachine string) string {
	return SafeConcat(infraMachine, "machine", "driver", "secret")
}

// MachineCerts names the Secret with the certificates that the provisioning Job trusts. The hash keeps it short for any
// machine name.
func MachineCerts(infraMachine string) string {
	sum := sha256.Sum256([]byte(infraMachine))
	return "machine-certs-" + hex.EncodeToString(sum[:16])
}

// MachinePull names the copy of a Secret with which the provisioning Job pulls its image, counted from 0.
func MachinePull(infraMachine string, i int) string {
	return SafeConcat(infraMachine, "machine", "pull", strconv.Itoa(i))
}

// Instance is the name under which the driver creates the machine. Dots become dashes, because cloud-init keeps only
// the part before the first dot.
func Instance(infraMachine string) string {
	return SafeConcat(strings.ReplaceAll(infraMachine, ".", "-"))
}

// Hostname is the host name of a machine, at most limit bytes long. A limit outside 10 to 63 counts as 63.
func Hostname(limit int, infraMachine string) string {
	if limit < MinHostnameLimit || limit > MaxLength {
		limit = MaxLength
	}
	return SafeConcatMax(limit, strings.ReplaceAll(infraMachine, ".", "-"))
}

// MinHostnameLimit is the smallest valid length limit of host names, in bytes.
const MinHostnameLimit = 10

// The kinds of hosts that can register. Each is the prefix of its request's name.
const (
	MachineRequestCustom = "custom"
	MachineRequestCAPI   = "capi"
)

// MachineRequest names the Secret with which a host asks to register, and the resulting Machine, RKEBootstrap and
// CustomMachine. kind is one of the MachineRequest constants, and machineID is the id that the host sent.
func MachineRequest(kind, machineID string) string {
	return kind + "-" + SHA256(machineID)[:12]
}

// Autoscaler is the name of the account of a cluster's autoscaler. (docs/wire/names.md#names-of-objects.)
func Autoscaler(namespace, cluster string) string {
	return SafeConcat(namespace, cluster, "autoscaler")
}

// AutoscalerKubeconfig is the name of the Secret with the kubeconfig of a cluster's autoscaler.
func AutoscalerKubeconfig(namespace, cluster string) string {
	return SafeConcat(namespace, cluster, "autoscaler", "kubeconfig")
}

// EndpointKeys names the Secret with the keys of the tokens for a cluster's authorized endpoint.
func EndpointKeys(cluster string) string { return SafeConcat(cluster, "endpoint", "keys") }

// PodSecurity names the Secret with the Pod Security configuration of a cluster's API servers. The name is never
// shortened (docs/wire/secrets.md#pod-security).
func PodSecurity(cluster string) string { return cluster + "-admission-configuration-psact" }

// CredentialRole names the Role and the RoleBinding of the creator of a cloud credential. Names of users may contain
// characters that names of Roles may not, and are then replaced by a hash (docs/wire/secrets.md#cloud-credentials).
func CredentialRole(creator, secret string) string {
	name := creator + "-" + secret
	if len(content.IsPathSegmentName(name)) > 0 || len(name) > validation.DNS1123SubdomainMaxLength {
		return SafeConcat("u", SHA256(creator)[:12], secret)
	}
	return name
}

// ClusterState names the Secret with a cluster's join tokens.
func ClusterState(cluster string) string { return SafeConcat(cluster, "rke", "state") }

// ETCDSnapshot names the object for a snapshot of a cluster (docs/wire/planner.md#etcdsnapshot-objects). storage is
// `local` or `s3`, and snapshot is the name of the file. node and location are as the cluster reports them, and created
// is the snapshot's time in seconds since 1970.
func ETCDSnapshot(cluster, storage, snapshot, node, location string, created int64) string {
	name := strings.ToLower(snapshot)
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		name = "etcd-snapshot-"
		if host, _, _ := strings.Cut(strings.ToLower(node), "."); len(validation.IsDNS1123Label(host)) == 0 {
			name += host + "-"
		}
		name += strconv.FormatInt(created, 10)
	}
	return SafeConcat(cluster, storage+"-"+name+"-"+SHA256(node + location)[:6])
}

// ClusterAgent names the Secret with the manifest of the agent inside a cluster.
func ClusterAgent(cluster string) string { return SafeConcat(cluster, "cluster", "agent") }

// Kubeconfig names the Secret with a cluster's kubeconfig. It is never shortened, because Cluster API looks up the
// plain form. MaxClusterName keeps it a valid name.
func Kubeconfig(cluster string) string { return cluster + kubeconfigSuffix }

// ClusterOfKubeconfig returns the cluster of a kubeconfig Secret's name. ok is false for any other Secret.
func ClusterOfKubeconfig(secret string) (cluster string, ok bool) {
	return strings.CutSuffix(secret, kubeconfigSuffix)
}

const kubeconfigSuffix = "-kubeconfig"

// MaxClusterName is the longest name of a cluster, in bytes. Longer names do not fit into the labels that contain them.
const MaxClusterName = MaxLength

// DefaultRegistrationToken is the name of the ClusterRegistrationToken that every management cluster has.
const DefaultRegistrationToken = mgmtv3.DefaultRegistrationTokenName

// SystemRegistrationToken is the name of the ClusterRegistrationToken for the agent inside a cluster, where the default
// token is for hosts.
const SystemRegistrationToken = mgmtv3.SystemRegistrationTokenName

// RegistrationTokenSecret names the Secret with the value of a ClusterRegistrationToken.
func RegistrationTokenSecret(registrationToken string) string {
	return mgmtv3.RegistrationTokenSecretPrefix + registrationToken
}
