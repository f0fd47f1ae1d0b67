package admission

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/cloudcredential"
	"github.com/drover-io/drover/pkg/decide/restoredspec"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Named are the objects that a request names for the first time; empty fields name none. Package webhook looks them up
// and adds them to Facts.
type Named struct {
	// Snapshot is the ETCDSnapshot of a restore that also restores configuration. Credential is the Secret for
	// snapshots in S3.
	Snapshot, Credential types.NamespacedName
	// Driver is the driver of a written cloud credential.
	Driver string
}

// NamedBy returns the objects that a request newly names. An unreadable request names none.
func NamedBy(r Request) Named {
	if r.Resource == secrets {
		secret, err := decode[corev1.Secret](r.New)
		if err != nil || secret == nil {
			return Named{}
		}
		return Named{Driver: cloudcredential.DriverOf(secret)}
	}
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
	if restore := restoredspec.Wanted(after); restore != nil && before != nil &&
		!sameRestore(restoreOf(before), restore) {
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

// checkRestore refuses a restore that cannot put the requested configuration back. It lists what goes back otherwise.
// (docs/admission.md.)
func checkRestore(r Request, a *Answer) error {
	before, after, err := decodeBoth[provv1.Cluster](r)
	if err != nil || !isChecked(r.Facts, before, after) {
		return err
	}
	named := namedBy(r.Namespace, before, after).Snapshot
	if named.Name == "" {
		return nil
	}
	if !r.Facts.Known && restoredspec.Fields(restoreOf(after).RestoreRKEConfig) != nil {
		return nil
	}
	result, problems := restoredspec.Restore(after, r.Facts.Snapshot)
	if a.refuse(problems...); len(problems) > 0 {
		return nil
	}
	back := "changes nothing in the spec: it has what the snapshot contains"
	if len(result.Changes) > 0 {
		back = "changes the spec, before machines stop: " + restoredspec.Listed(result.Changes)
	}
	a.warn("spec.rkeConfig.etcdSnapshotRestore.restoreRKEConfig: the restore " + back)
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
	if creatorDiffers(r, after) && !mayKeepCreator(r, after, a) {
		recordCreator(r, after.Annotations, a)
	}
	return nil
}

func recordCreator(r Request, annotations map[string]string, a *Answer) {
	if annotations == nil {
		a.Patches = append(a.Patches,
			Patch{"add", "/metadata/annotations", map[string]string{provv1.CreatorIDAnnotation: r.User.Username}})
		return
	}
	a.Patches = append(a.Patches, Patch{"add", "/metadata/annotations/field.cattle.io~1creatorId", r.User.Username})
}

// createdCredential records the user who creates a cloud credential. The user then gets permissions on it. Programs and
// restores need none. A policy refuses the record of another user. (docs/admission.md.)
func createdCredential(r Request, a *Answer) error {
	secret, err := decode[corev1.Secret](r.New)
	if err != nil || secret.Type != provv1.SecretTypeCloudCredential || strings.HasPrefix(r.User.Username, "system:") {
		return err
	}
	_, none := secret.Annotations[provv1.NoCreatorRBACAnnotation]
	if !none && secret.Annotations[provv1.CreatorIDAnnotation] == "" &&
		secret.Annotations[rkev1.RestoredFromAnnotation] == "" {
		recordCreator(r, secret.Annotations, a)
	}
	return nil
}
