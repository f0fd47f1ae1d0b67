package machinejob

import (
	"maps"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

const (
	// ExtensionRole is a Role that operators may create in a namespace, to give more rights to the pods of Jobs that
	// are created later.
	ExtensionRole = "rke2-machine-provisioner"
	// InfraMachineAnnotation is the name of the infrastructure machine, on its Jobs and their pods. The corresponding
	// label is shortened when the name is too long for a label.
	InfraMachineAnnotation = "drover.io/infra-machine"
	// AttemptAnnotation is the number of the attempt, from 1, on Jobs that remove a machine.
	AttemptAnnotation = "drover.io/attempt"

	// Container is the container of a machine's Job. Other programs may add containers to its pod.
	Container = "machine"

	user = int64(1000)

	createBackoff = int32(0)
	removeBackoff = int32(3)

	scriptMode = int32(0o444)
	fileMode   = int32(0o644)
)

// Objects are the objects that a machine's Job needs. A nil Secret is not needed.
type Objects struct {
	// State is created once and never written again.
	State *corev1.Secret
	// Env, Files and Certs follow the machine's spec, the credential and the settings.
	Env, Files, Certs *corev1.Secret
	// Pull are copies of the Secrets that pull the image, because a pod cannot use Secrets of another namespace.
	Pull []*corev1.Secret

	ServiceAccount *corev1.ServiceAccount
	Role           *rbacv1.Role
	RoleBindings   []*rbacv1.RoleBinding
	Job            *batchv1.Job
}

// Secrets returns the Secrets that Drover may update, without nil ones.
func (o Objects) Secrets() []*corev1.Secret {
	return slices.DeleteFunc(append([]*corev1.Secret{o.Env, o.Files, o.Certs}, o.Pull...), func(s *corev1.Secret) bool {
		return s == nil
	})
}

// RenderCreate renders the objects that create the machine.
func RenderCreate(in Input) Objects {
	args, files := createArguments(in)
	out := shared(in)
	if len(files) > 0 {
		out.Files = secret(in, naming.MachineProvision(in.Machine.Name), corev1.SecretTypeOpaque, nil)
		out.Files.Data = bytesOf(files)
	}
	out.Job = job(in, naming.MachineProvision(in.Machine.Name), args, false)
	out.Job.Spec.BackoffLimit = new(createBackoff)
	out.Job.Spec.ActiveDeadlineSeconds = seconds(in.Settings.CreateDeadline)
	pod := &out.Job.Spec.Template.Spec
	mountSecret(pod, "bootstrap", in.BootstrapSecret, bootstrapMount, scriptMode, nil)
	if out.Files != nil {
		mountSecret(pod, "machine-files", out.Files.Name, filesMount, fileMode, files)
	}
	mountCerts(pod, out.Certs)
	return out
}

// RenderRemove renders the objects that remove the machine. Attempts count from 1.
func RenderRemove(in Input, attempt int) Objects {
	out := shared(in)
	out.Job = job(in, RemoveJobName(in.Machine.Name, attempt), removeArguments(in), true)
	out.Job.Annotations[AttemptAnnotation] = strconv.Itoa(attempt)
	out.Job.Spec.BackoffLimit = new(removeBackoff)
	out.Job.Spec.ActiveDeadlineSeconds = seconds(in.Settings.RemoveDeadline)
	mountCerts(&out.Job.Spec.Template.Spec, out.Certs)
	return out
}

// CreateJobName is the name of the Job that creates a machine.
func CreateJobName(machine string) string { return naming.MachineProvision(machine) }

// RemoveJobName is the name of the Job for one attempt to remove a machine. Attempts count from 1.
func RemoveJobName(machine string, attempt int) string {
	return naming.SafeConcat(naming.MachineProvision(machine), "remove", strconv.Itoa(attempt))
}

func shared(in Input) Objects {
	name := naming.MachineProvision(in.Machine.Name)
	backup := map[string]string{rkev1.BackupLabel: "true"}
	out := Objects{
		State:          secret(in, naming.MachineState(in.Machine.Name), rkev1.SecretTypeMachineState, backup),
		Env:            secret(in, naming.MachineDriverSecret(in.Machine.Name), corev1.SecretTypeOpaque, backup),
		ServiceAccount: &corev1.ServiceAccount{ObjectMeta: meta(in, name, nil)},
		Role: &rbacv1.Role{ObjectMeta: meta(in, name, nil), Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"get", "update"}, APIGroups: []string{""}, Resources: []string{"secrets"},
			ResourceNames: []string{naming.MachineState(in.Machine.Name)},
		}}},
		RoleBindings: []*rbacv1.RoleBinding{binding(in, name, name)},
	}
	if in.Extended {
		out.RoleBindings = append(out.RoleBindings,
			binding(in, naming.MachineProvisionExtension(in.Machine.Name), ExtensionRole))
	}
	out.Env.Data = Environment(in.Driver.Name, in.Settings.Proxy, in.Credential)
	if len(in.Settings.Certificates) > 0 {
		out.Certs = secret(in, naming.MachineCerts(in.Machine.Name), corev1.SecretTypeOpaque, nil)
		out.Certs.Data = bytesOf(in.Settings.Certificates)
	}
	for i, key := range in.Settings.PullSecrets {
		if in.copies(key) {
			pull := secret(in, naming.MachinePull(in.Machine.Name, i), corev1.SecretTypeDockerConfigJson, nil)
			pull.Data = map[string][]byte{corev1.DockerConfigJsonKey: in.PullSecrets[key]}
			out.Pull = append(out.Pull, pull)
		}
	}
	return out
}

// copies reports whether the Job gets a copy of a pull secret in the machine's namespace. Only a Secret for the image's
// registry is copied.
func (in Input) copies(key types.NamespacedName) bool {
	content, there := in.PullSecrets[key]
	return there && (naming.InRegistry(in.Settings.Registry, in.Settings.Image) ||
		naming.ListsRegistry(content, in.Settings.Image))
}

// meta makes the machine an owner, so that garbage collection deletes the object with it. The machine is not the
// controller, because Jobs have none.
func meta(in Input, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: in.Machine.Namespace, Name: name, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: in.Machine.APIVersion, Kind: in.Machine.Kind, Name: in.Machine.Name,
			UID: types.UID(in.Machine.UID),
		}},
	}
}

func secret(in Input, name string, kind corev1.SecretType, labels map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: meta(in, name, labels), Type: kind}
}

func binding(in Input, name, role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: meta(in, name, nil),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Name: naming.MachineProvision(in.Machine.Name),
			Namespace: in.Machine.Namespace,
		}},
	}
}

func job(in Input, name string, args []string, remove bool) *batchv1.Job {
	gvk := schema.FromAPIVersionAndKind(in.Machine.APIVersion, in.Machine.Kind)
	labels := map[string]string{
		rkev1.InfraMachineGroupLabel:   gvk.Group,
		rkev1.InfraMachineVersionLabel: gvk.Version,
		rkev1.InfraMachineKindLabel:    gvk.Kind,
		rkev1.InfraMachineNameLabel:    naming.SafeConcat(in.Machine.Name),
		rkev1.InfraRemoveLabel:         strconv.FormatBool(remove),
		rkev1.CAPIMachineNameLabel:     naming.SafeConcat(in.Machine.CAPIMachineName),
	}
	annotations := map[string]string{InfraMachineAnnotation: in.Machine.Name}
	objectMeta := meta(in, name, labels)
	objectMeta.Annotations = maps.Clone(annotations)
	return &batchv1.Job{
		ObjectMeta: objectMeta,
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels), Annotations: annotations},
			Spec:       podSpec(in, args),
		}},
	}
}

func podSpec(in Input, args []string) corev1.PodSpec {
	spec := corev1.PodSpec{
		RestartPolicy:      corev1.RestartPolicyNever,
		ServiceAccountName: naming.MachineProvision(in.Machine.Name),
		Containers: []corev1.Container{{
			Name:            Container,
			Image:           in.Settings.Image,
			ImagePullPolicy: pullPolicy(in.Settings.PullPolicy),
			Args:            args,
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: naming.MachineDriverSecret(in.Machine.Name)},
			}}},
			SecurityContext: &corev1.SecurityContext{
				RunAsUser: new(user), RunAsGroup: new(user), RunAsNonRoot: new(true),
				AllowPrivilegeEscalation: new(false),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		}},
	}
	for i, key := range in.Settings.PullSecrets {
		name := key.Name // the user may have put this Secret into the machine's own namespace
		if in.copies(key) {
			name = naming.MachinePull(in.Machine.Name, i)
		}
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return spec
}

func pullPolicy(policy string) corev1.PullPolicy {
	switch p := corev1.PullPolicy(policy); p {
	case corev1.PullIfNotPresent, corev1.PullNever:
		return p
	default:
		return corev1.PullAlways
	}
}

// mountSecret mounts a Secret as a directory. A non-nil files restricts it to these keys, sorted for a stable result.
func mountSecret(pod *corev1.PodSpec, volume, secretName, path string, mode int32, files map[string]string) {
	source := &corev1.SecretVolumeSource{SecretName: secretName, DefaultMode: new(mode)}
	for _, key := range slices.Sorted(maps.Keys(files)) {
		source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: key, Mode: new(mode)})
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Secret: source}})
	pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: volume, MountPath: path, ReadOnly: true})
}

// mountCerts mounts each certificate as a single file, so that the directory stays writable for the image.
func mountCerts(pod *corev1.PodSpec, certs *corev1.Secret) {
	if certs == nil {
		return
	}
	const volume = "machine-certs"
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: certs.Name, DefaultMode: new(fileMode)},
	}})
	for _, key := range slices.Sorted(maps.Keys(certs.Data)) {
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: volume, MountPath: certsMount + "/" + key, SubPath: key, ReadOnly: true})
	}
}

func bytesOf(texts map[string]string) map[string][]byte {
	out := make(map[string][]byte, len(texts))
	for key, text := range texts {
		out[key] = []byte(text)
	}
	return out
}

func seconds(d time.Duration) *int64 {
	if d <= 0 {
		return nil
	}
	return new(int64(d / time.Second))
}
