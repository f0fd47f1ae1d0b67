package topology

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// requesting returns a spec that requests operations.
func requesting(manifest string) *provv1.ClusterSpec {
	spec := &build.Cluster("demo").Spec
	spec.RKEConfig.AdditionalManifest = manifest
	spec.RKEConfig.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 1}
	spec.RKEConfig.RotateCertificates = &rkev1.RotateCertificates{Generation: 2}
	return spec
}

// Every spec has one encoding, byte for byte, because its RKEControlPlane contains it. The encoding before this one is
// of no importance, and the spec keeps its requests.
func TestEncodeSpec_IsAsWithANewCompressor(t *testing.T) {
	long := strings.Repeat("apiVersion: v1\nkind: ConfigMap\n", 100)
	for range 2 {
		for _, manifest := range []string{"", long, "short"} {
			spec := requesting(manifest)
			kept := spec.DeepCopy()
			kept.RKEConfig.ETCDSnapshotCreate, kept.RKEConfig.RotateCertificates = nil, nil
			text, err := json.Marshal(kept)
			if err != nil {
				t.Fatal(err)
			}
			var want bytes.Buffer
			writer := gzip.NewWriter(&want)
			_, _ = writer.Write(text)
			_ = writer.Close()
			got, err := encodeSpec(spec)
			if err != nil || got != base64.StdEncoding.EncodeToString(want.Bytes()) {
				t.Errorf("the encoding of a manifest of %d bytes differs: %v", len(manifest), err)
			}
			if diff := cmp.Diff(requesting(manifest), spec); diff != "" {
				t.Errorf("the spec changes (-want +got):\n%s", diff)
			}
		}
	}
}

func BenchmarkEncodeSpec(b *testing.B) {
	spec := requesting(strings.Repeat("apiVersion: v1\nkind: ConfigMap\n", 20))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encodeSpec(spec); err != nil {
			b.Fatal(err)
		}
	}
}

// A remembered schema is that of its own text, and an unreadable text is never one.
func TestPoolSchema_IsThatOfItsText(t *testing.T) {
	text := func(field string) string { return `{"resourceFields":{"` + field + `":{"type":"string"}}}` }
	long := text(strings.Repeat("a", schemaMax))
	for range 2 {
		for field, schema := range map[string]string{"region": text("region"), "size": text("size"),
			strings.Repeat("a", schemaMax): long} {
			spec, ok := poolSchema(&provv1.RKEMachinePool{DynamicSchemaSpec: schema})
			if _, has := spec.ResourceFields[field]; !ok || !has || len(spec.ResourceFields) != 1 {
				t.Errorf("the schema with field %.10s is read as %d fields", field, len(spec.ResourceFields))
			}
		}
		if _, ok := poolSchema(&provv1.RKEMachinePool{DynamicSchemaSpec: "{"}); ok {
			t.Error("an unreadable schema is one")
		}
	}
	if _, ok := schemas.Get(long); ok {
		t.Error("a large schema is remembered")
	}
}

func BenchmarkPoolSchema(b *testing.B) {
	fields := map[string]any{}
	for name := range strings.SplitSeq(strings.Repeat("abcdefgh", 10), "") {
		fields[name+strings.Repeat("x", len(fields))] = map[string]any{"type": "string", "nullable": true}
	}
	text, err := json.Marshal(map[string]any{"resourceFields": fields})
	if err != nil {
		b.Fatal(err)
	}
	pool := &provv1.RKEMachinePool{DynamicSchemaSpec: string(text)}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := poolSchema(pool); !ok {
			b.Fatal("unreadable")
		}
	}
}
