package driverjob

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/naming"
)

const (
	// DriverAnnotation is the name of the NodeDriver, on its Jobs and their pods.
	DriverAnnotation = "drover.io/node-driver"
	// AuthoritiesVariable holds the certificate authorities, in PEM, that the download trusts in addition to the
	// image's.
	AuthoritiesVariable = "DROVER_NODE_DRIVER_AUTHORITIES"
	// Directory is the volume with the driver, in both containers.
	Directory = "/driver"

	// DownloadContainer is the name of the container that downloads the driver.
	DownloadContainer = "download"
	// FlagsContainer is the name of the container that runs the driver.
	FlagsContainer = "flags"

	keyAnnotation = "drover.io/node-driver-key"
	volume        = "driver"
	// user is the user of Drover's image.
	user = int64(65532)
	// podLabel is the value of rkev1.InfraMachineNameLabel on pods. Drover caches only pods with this label.
	podLabel = "node-driver"

	// deadline ends a Job. A slow download takes ten minutes.
	deadline = 15 * time.Minute
	// kept is how long a finished Job is kept. It is longer than maxBackoff, because a Job counts the attempts.
	kept = 2 * time.Hour
)

// Settings are the installation's settings for the Jobs.
type Settings struct {
	// Namespace is Drover's own namespace.
	Namespace string
	// Image is Drover's own image, including its registry.
	Image string
	// PullSecrets are names of Secrets in Namespace.
	PullSecrets []string
	// Proxy are environment variables of the download, by name.
	Proxy map[string]string
	// Authorities are certificate authorities in PEM that the download trusts in addition to the image's.
	Authorities string
	// Arch is the architecture that the scheduler prefers, such as amd64. Empty means any.
	Arch string
	// Insecure permits drivers without a checksum, with a weak checksum, or with an address without TLS.
	Insecure bool
}

// Objects are what a run needs. Proxy is nil if the proxies' addresses contain no password.
type Objects struct {
	Job   *batchv1.Job
	Proxy *corev1.Secret
}

// Key identifies what a driver's Jobs ask. Another URL, checksum or image is another question.
func Key(driver *mgmtv3.NodeDriver, s Settings) string {
	const digits = 10
	return naming.SHA256(strings.Join([]string{string(driver.UID), driver.Spec.URL, driver.Spec.Checksum, s.Image},
		"\n"))[:digits]
}

// Render returns the objects of one attempt. Attempts count from 1.
func Render(driver *mgmtv3.NodeDriver, s Settings, attempt int) Objects {
	key := Key(driver, s)
	meta := metav1.ObjectMeta{
		Namespace: s.Namespace, Name: naming.SafeConcat("node-driver", driver.Name, key, strconv.Itoa(attempt)),
		Annotations: map[string]string{
			DriverAnnotation: driver.Name, keyAnnotation: key, machinejob.AttemptAnnotation: strconv.Itoa(attempt),
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: mgmtv3.SchemeGroupVersion.String(), Kind: "NodeDriver", Name: driver.Name, UID: driver.UID,
		}},
	}
	out := Objects{Job: &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
		BackoffLimit:            new(int32(0)),
		ActiveDeadlineSeconds:   new(int64(deadline / time.Second)),
		TTLSecondsAfterFinished: new(int32(kept / time.Second)),
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{DriverAnnotation: driver.Name},
				Labels:      map[string]string{rkev1.InfraMachineNameLabel: podLabel},
			},
			Spec: podSpec(driver, s),
		},
	}}}
	download := &out.Job.Spec.Template.Spec.InitContainers[0]
	if !hasPassword(s.Proxy) {
		for _, name := range slices.Sorted(maps.Keys(s.Proxy)) {
			download.Env = append(download.Env, corev1.EnvVar{Name: name, Value: literal(s.Proxy[name])})
		}
		return out
	}
	out.Proxy = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: meta.Name},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{}}
	for name, value := range s.Proxy {
		out.Proxy.Data[name] = []byte(value)
	}
	download.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: meta.Name},
	}}}
	return out
}

// OwnedBy returns the Secret with a Job as its owner, so that garbage collection deletes both together.
func OwnedBy(secret *corev1.Secret, job string, uid types.UID) *corev1.Secret {
	out := secret.DeepCopy()
	out.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: job, UID: uid,
	}}
	return out
}

// hasPassword reports whether the address of a proxy contains a user.
func hasPassword(proxy map[string]string) bool {
	for _, address := range proxy {
		if strings.Contains(address, "@") {
			return true
		}
	}
	return false
}

func podSpec(driver *mgmtv3.NodeDriver, s Settings) corev1.PodSpec {
	download := container(DownloadContainer, s.Image, "download", "--url="+literal(driver.Spec.URL),
		"--checksum="+literal(driver.Spec.Checksum))
	if s.Authorities != "" {
		download.Env = []corev1.EnvVar{{Name: AuthoritiesVariable, Value: literal(s.Authorities)}}
	}
	download.VolumeMounts = []corev1.VolumeMount{{Name: volume, MountPath: Directory}}
	flags := container(FlagsContainer, s.Image, "flags")
	flags.VolumeMounts = []corev1.VolumeMount{{Name: volume, MountPath: Directory, ReadOnly: true}}
	spec := corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		Affinity:                     affinity(s.Arch),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(user), RunAsGroup: new(user), FSGroup: new(user),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		InitContainers: []corev1.Container{download},
		Containers:     []corev1.Container{flags},
		Volumes: []corev1.Volume{{Name: volume, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("2560Mi"))},
		}}},
	}
	for _, name := range s.PullSecrets {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return spec
}

func container(name, image string, args ...string) corev1.Container {
	return corev1.Container{
		Name: name, Image: image,
		Args:                   append(append([]string{"node-driver"}, args...), "--directory="+Directory),
		TerminationMessagePath: corev1.TerminationMessagePathDefault,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			},
			Limits: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("512Mi"),
			},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// affinity prefers nodes like the server's. The program has one architecture.
func affinity(arch string) *corev1.Affinity {
	if arch == "" {
		return nil
	}
	const most = int32(100)
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: most,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"}},
				{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{arch}},
			}},
		}},
	}}
}

// literal keeps Kubernetes from expanding $(NAME).
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }
