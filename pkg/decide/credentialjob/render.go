package credentialjob

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

const (
	// SecretType is the type of records.
	SecretType corev1.SecretType = "drover.io/credential-check" //nolint:gosec // the name of a type
	// CredentialAnnotation names the checked Secret, as NAMESPACE/NAME, on records, Jobs and pods.
	CredentialAnnotation = "drover.io/checked-credential" //nolint:gosec // the name of an annotation
	// VersionAnnotation is the Version of the checked Secret, on records.
	VersionAnnotation = "drover.io/checked-version"
	// Variable holds the question in the environment of the Job. It is a key of the record.
	Variable = "DROVER_CREDENTIAL_CHECK"
	// ResultKey is the key of the result in the record.
	ResultKey = "result"
	// Command is the command of the Job's container.
	Command = "credential-check"

	container = "check"
	// podLabel is the value of rkev1.InfraMachineNameLabel on pods. Drover caches only pods with this label.
	podLabel = "credential-check"
	// user is the user of Drover's image.
	user = int64(65532)
	// deadline ends a Job whose pod does not start. The check itself takes less than two minutes.
	deadline = 5 * time.Minute
)

// Settings are the installation's settings for the Jobs.
type Settings struct {
	// Image is Drover's own image, including its registry.
	Image string
	// PullSecrets are Secrets for the image.
	PullSecrets []types.NamespacedName
	// Proxy are environment variables of the check, by name.
	Proxy map[string]string
	// Authorities are certificate authorities in PEM that the check trusts in addition to the image's.
	Authorities string
}

// Name is the name of the record and of the Job of a question.
func (q Question) Name() string { return naming.SafeConcat("credential-check", q.key) }

// Record renders the record with the question. The Cluster that asks first owns it.
func Record(q Question, credential *corev1.Secret, cluster *provv1.Cluster, s Settings) (*corev1.Secret, error) {
	q.Authorities = s.Authorities
	question, err := q.Encode()
	if err != nil {
		return nil, err
	}
	record := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: q.Name(),
			Annotations: map[string]string{CredentialAnnotation: credential.Namespace + "/" + credential.Name,
				VersionAnnotation: Version(credential)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: provv1.SchemeGroupVersion.String(), Kind: "Cluster",
				Name: cluster.Name, UID: cluster.UID}}},
		Type: SecretType, Data: map[string][]byte{Variable: question},
	}
	for name, value := range s.Proxy {
		record.Data[name] = []byte(value)
	}
	return record, nil
}

// Finished returns a record with its result. It has the credential no longer.
func Finished(record *corev1.Secret, result Result) *corev1.Secret {
	out := record.DeepCopy()
	out.Data = map[string][]byte{ResultKey: []byte(result.Encode())}
	return out
}

// Job renders the Job of a stored record, which owns it. pull are names of Secrets in its namespace.
func Job(record *corev1.Secret, s Settings, pull []string) *batchv1.Job {
	annotations := map[string]string{CredentialAnnotation: record.Annotations[CredentialAnnotation]}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: record.Namespace, Name: record.Name, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{OwnerOf(record)}},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)), ActiveDeadlineSeconds: new(int64(deadline / time.Second)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: annotations,
					Labels: map[string]string{rkev1.InfraMachineNameLabel: podLabel}},
				Spec: podSpec(record.Name, s.Image),
			},
		},
	}
	for _, name := range pull {
		spec := &job.Spec.Template.Spec
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return job
}

// OwnerOf refers to a record as an owner.
func OwnerOf(record *corev1.Secret) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: record.Name, UID: record.UID}
}

func podSpec(record, image string) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(user), RunAsGroup: new(user),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: container, Image: image, Args: []string{Command},
			TerminationMessagePath: corev1.TerminationMessagePathDefault,
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: record}}}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
				},
				Limits: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("256Mi"),
				},
			},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
}
