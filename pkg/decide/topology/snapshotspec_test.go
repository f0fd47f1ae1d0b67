package topology_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

// metadataOf is what the distribution stores with a snapshot when its ConfigMap has that spec.
func metadataOf(t *testing.T, spec string) string {
	t.Helper()
	raw, err := json.Marshal(map[string]string{"provisioning-cluster-spec": spec, "other": "x"})
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// TestVersionOfSnapshot_RoundTrip checks that the encoded spec can be read from a snapshot's metadata.
func TestVersionOfSnapshot_RoundTrip(t *testing.T) {
	t.Parallel()
	in := demo(t)
	encoded := find[*rkev1.RKEControlPlane](t, desired(t, in))[0].Annotations[rkev1.ClusterSpecAnnotation]
	got, err := topology.VersionOfSnapshot(metadataOf(t, encoded))
	if want := in.Cluster.Spec.KubernetesVersion; err != nil || got != want || want == "" {
		t.Errorf("version is %q, error %v, want %q", got, err, want)
	}
}

func TestVersionOfSnapshot(t *testing.T) {
	t.Parallel()
	const (
		largest  = 2 << 20
		noObject = "the snapshot's metadata must be base64 of a JSON object of strings"
		noSpec   = "the cluster's spec in the snapshot's metadata must be base64 of gzipped JSON"
	)
	whole := packed.Text(`{"kubernetesVersion":"v1.36.2+k3s1"}`)
	text := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, tc := range map[string]struct {
		metadata string
		want     string
		wantErr  string
	}{
		"nothing":                   {},
		"no data about the cluster": {metadata: text(`{"other":"x"}`)},
		"a spec without a version":  {metadata: metadataOf(t, packed.Text(`{}`))},
		"a spec in another format": {metadata: metadataOf(t,
			packed.Text(`{"kubernetesVersion":"v1.20.1+k3s1","rkeConfig":"?"}`)), want: "v1.20.1+k3s1"},
		"not base64":                   {metadata: "?", wantErr: noObject},
		"not JSON":                     {metadata: text("x"), wantErr: noObject},
		"not an object of strings":     {metadata: text(`{"a":1}`), wantErr: noObject},
		"a spec that is not base64":    {metadata: metadataOf(t, "?"), wantErr: noSpec},
		"a spec that is not gzip":      {metadata: metadataOf(t, text("x")), wantErr: noSpec},
		"a truncated spec":             {metadata: metadataOf(t, whole[:len(whole)/8*4]), wantErr: noSpec},
		"a spec that is not an object": {metadata: metadataOf(t, packed.Text("[]")), wantErr: noSpec},
		"the largest allowed spec": {metadata: metadataOf(t,
			packed.Text(`{"kubernetesVersion":"v1"}`+strings.Repeat(" ", largest-26))), want: "v1"},
		"a spec that is too large": {
			metadata: metadataOf(t, packed.Text(strings.Repeat(" ", 16*largest))),
			wantErr:  "the cluster's spec in the snapshot's metadata is larger than 2 MiB",
		},
		"a version that is too long": {
			metadata: metadataOf(t, packed.Text(`{"kubernetesVersion":"`+strings.Repeat("1", 65)+`"}`)),
			wantErr:  "the Kubernetes version in the snapshot's metadata is longer than 64 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := topology.VersionOfSnapshot(tc.metadata)
			message := ""
			if err != nil {
				message = err.Error()
			}
			if got != tc.want || message != tc.wantErr {
				t.Errorf("version is %q, error %q, want %q and %q", got, message, tc.want, tc.wantErr)
			}
		})
	}
}
