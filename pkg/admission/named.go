package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Named are the objects that a request names for the first time; empty fields name none. Package webhook looks them up
// and adds them to Facts.
type Named struct {
	// Snapshot is the ETCDSnapshot of a restore that also restores configuration. Credential is the Secret for
	// snapshots in S3.
	Snapshot, Credential types.NamespacedName
}

// NamedBy returns the objects that a request newly names. An unreadable request names none.
func NamedBy(r Request) Named {
	if r.Resource != clusters {
		return Named{}
	}
	before, after, err := decodeBoth[provv1.Cluster](r)
	if err != nil || after == nil {
		return Named{}
	}
	return namedBy(r.Namespace, before, after)
}

func namedBy(namespace string, before, after *provv1.Cluster) Named {
	var named Named
	if restore := restoreOf(after); restore != nil && restore.Name != "" && restore.RestoreRKEConfig != "" &&
		restore.RestoreRKEConfig != rkev1.RestoreModeNone && before != nil && !sameRestore(restoreOf(before), restore) {
		named.Snapshot = types.NamespacedName{Namespace: namespace, Name: restore.Name}
	}
	if name := storageCredential(after); name != "" && (before == nil || name != storageCredential(before)) {
		named.Credential.Namespace, named.Credential.Name = topology.CredentialSecret(namespace, name)
	}
	return named
}

func restoreOf(cluster *provv1.Cluster) *rkev1.ETCDSnapshotRestore {
	if cluster.Spec.RKEConfig == nil {
		return nil
	}
	return cluster.Spec.RKEConfig.ETCDSnapshotRestore
}

func sameRestore(a, b *rkev1.ETCDSnapshotRestore) bool { return a != nil && *a == *b }

func storageCredential(cluster *provv1.Cluster) string {
	if config := cluster.Spec.RKEConfig; config != nil && config.ETCD != nil && config.ETCD.S3 != nil {
		return config.ETCD.S3.CloudCredentialName
	}
	return ""
}

// checkRestore refuses a restore that cannot restore the requested configuration. (docs/admission.md.)
func checkRestore(r Request, a *Answer) error {
	before, after, err := decodeBoth[provv1.Cluster](r)
	if err != nil || !isChecked(r.Facts, before, after) {
		return err
	}
	named := namedBy(r.Namespace, before, after).Snapshot
	if named.Name == "" {
		return nil
	}
	at := field.NewPath("spec", "rkeConfig", "etcdSnapshotRestore")
	mode := restoreOf(after).RestoreRKEConfig
	if mode != rkev1.RestoreModeKubernetesVersion && mode != rkev1.RestoreModeAll {
		a.refuse(field.NotSupported(at.Child("restoreRKEConfig"), mode,
			[]rkev1.RestoreMode{rkev1.RestoreModeNone, rkev1.RestoreModeKubernetesVersion, rkev1.RestoreModeAll}))
		return nil
	}
	if !r.Facts.Known {
		return nil
	}
	if r.Facts.Snapshot == nil {
		a.refuse(field.NotFound(at.Child("name"), named.Name))
		return nil
	}
	version, hasConfig, err := topology.DescribeSnapshot(r.Facts.Snapshot.SnapshotFile.Metadata)
	remedy := ": choose another snapshot, or set restoreRKEConfig to none to restore only data"
	switch {
	case err != nil:
		a.refuse(field.Invalid(at.Child("name"), named.Name, err.Error()+remedy))
	case version == "":
		a.refuse(field.Invalid(at.Child("name"), named.Name, "the snapshot does not contain the Kubernetes version "+
			"of its cluster"+remedy))
	case mode == rkev1.RestoreModeAll && !hasConfig:
		a.refuse(field.Invalid(at.Child("name"), named.Name, "the snapshot does not contain the rkeConfig of its "+
			"cluster"+remedy))
	default:
		a.warn(fmt.Sprintf("%s: Drover restores only data, and you restore the configuration: the cluster had "+
			"version %s when the snapshot was taken",
			at.Child("restoreRKEConfig"), version))
	}
	return nil
}

// checkSnapshotCredential checks the credential of snapshots in S3. Without it Drover cannot make the plan of a server,
// so an existing cluster must keep a valid one. For a new cluster the credential may follow later, like everything it
// refers to. (docs/admission.md.)
func checkSnapshotCredential(r Request, a *Answer) error {
	before, after, err := decodeBoth[provv1.Cluster](r)
	if err != nil || !isChecked(r.Facts, before, after) {
		return err
	}
	named := namedBy(r.Namespace, before, after).Credential
	if named.Name == "" || !r.Facts.CredentialMissing {
		return nil
	}
	at := field.NewPath("spec", "rkeConfig", "etcd", "s3", "cloudCredentialName")
	wrong := field.Invalid(at, storageCredential(after), fmt.Sprintf("Secret %s does not exist in namespace %s: "+
		"create it first", named.Name, named.Namespace))
	if before == nil {
		a.warn(wrong.Error())
	} else {
		a.refuse(wrong)
	}
	return nil
}

// created records the user who creates a Cluster, whatever the request says. It keeps the creator of a Cluster that
// comes from elsewhere. (docs/admission.md.)
func created(r Request, a *Answer) error {
	after, err := decode[provv1.Cluster](r.New)
	if err != nil || !ours(r.Facts, nil, after) {
		return err
	}
	switch {
	case !creatorDiffers(r, after) || mayKeepCreator(r, after, a):
	case after.Annotations == nil:
		a.Patches = append(a.Patches,
			Patch{"add", "/metadata/annotations", map[string]string{provv1.CreatorIDAnnotation: r.User.Username}})
	default:
		a.Patches = append(a.Patches, Patch{"add", "/metadata/annotations/field.cattle.io~1creatorId", r.User.Username})
	}
	return nil
}
