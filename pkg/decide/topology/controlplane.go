package topology

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// rkeControlPlane passes the configuration of the whole cluster to the planner. The planner gets nothing else of the
// Cluster's metadata. (docs/wire/capi.md#control-plane-object.)
func rkeControlPlane(in Input) (*rkev1.RKEControlPlane, error) {
	cluster := in.Cluster
	encoded, err := encodeSpec(&cluster.Spec)
	if err != nil {
		return nil, fmt.Errorf("encode spec of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	spec := cluster.Spec.DeepCopy()
	if hasPodSecurity(in) {
		addPodSecurity(cluster, &spec.RKEConfig.ClusterConfiguration)
	}
	object := &rkev1.RKEControlPlane{
		TypeMeta:   metav1.TypeMeta{APIVersion: rkeVersion, Kind: "RKEControlPlane"},
		ObjectMeta: objectMeta(cluster, cluster.Name),
		Spec: rkev1.RKEControlPlaneSpec{
			ClusterConfiguration:     spec.RKEConfig.ClusterConfiguration,
			AgentEnvVars:             spec.AgentEnvVars,
			LocalClusterAuthEndpoint: spec.LocalClusterAuthEndpoint,
			ETCDSnapshotCreate:       spec.RKEConfig.ETCDSnapshotCreate,
			ETCDSnapshotRestore:      spec.RKEConfig.ETCDSnapshotRestore,
			RotateCertificates:       spec.RKEConfig.RotateCertificates,
			RotateEncryptionKeys:     spec.RKEConfig.RotateEncryptionKeys,
			KubernetesVersion:        spec.KubernetesVersion,
			ClusterName:              cluster.Name,
			ManagementClusterName:    cluster.Status.ClusterName,
		},
	}
	object.Labels = map[string]string{rkev1.InitNodeMachineIDLabel: cluster.Labels[rkev1.InitNodeMachineIDLabel]}
	object.Annotations = map[string]string{
		rkev1.ClusterSpecAnnotation:       encoded,
		provv1.RKE2PrimeEnabledAnnotation: cluster.Annotations[provv1.RKE2PrimeEnabledAnnotation],
	}
	return object, nil
}

// encodeSpec is the form in which a snapshot stores the spec of its cluster: base64 of gzip of JSON. It omits the
// requests for operations, so that an operation does not look like a changed configuration.
func encodeSpec(spec *provv1.ClusterSpec) (string, error) {
	kept, config := *spec, *spec.RKEConfig // the copies share what they do not change
	config.ETCDSnapshotCreate, config.ETCDSnapshotRestore = nil, nil
	config.RotateCertificates, config.RotateEncryptionKeys = nil, nil
	kept.RKEConfig = &config
	encoded, err := json.Marshal(&kept)
	if err != nil {
		return "", err
	}
	return compress(encoded)
}

// compressors are reused, because a new one allocates 800 KB.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func compress(content []byte) (string, error) {
	writer := compressors.Get().(*gzip.Writer)
	defer compressors.Put(writer)
	var compressed bytes.Buffer
	writer.Reset(&compressed)
	if _, err := writer.Write(content); err != nil {
		return "", fmt.Errorf("compress: %w", err)
	}
	if err := writer.Close(); err != nil {
		return "", fmt.Errorf("compress: %w", err)
	}
	return base64.StdEncoding.EncodeToString(compressed.Bytes()), nil
}
