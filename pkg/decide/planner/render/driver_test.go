package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

const driverConfig = `{"DriverName":"amazonec2","Name":"demo-pool-1","Driver":{"IPAddress":"198.51.100.9","PrivateIPAddress":"10.0.0.9","SecretKey":"PASSWORD"}}`

func TestDecodeDriver(t *testing.T) {
	t.Parallel()
	want := &render.Driver{Name: "amazonec2", IPAddress: "198.51.100.9", PrivateIPAddress: "10.0.0.9"}
	for name, tc := range map[string]struct {
		data []byte
		want *render.Driver
	}{
		"nothing saved yet": {},
		"an absolute path": {
			data: packed.Archive(map[string]string{"/home/machine/machines/demo-pool-1/config.json": driverConfig}),
			want: want},
		"a relative path": {
			data: packed.Archive(
				map[string]string{"management-state/node/machines/demo-pool-1/config.json": driverConfig}), want: want},
		"among other files": {data: packed.Archive(map[string]string{
			"machines/demo-pool-1/id_rsa": "PASSWORD", "machines/demo-pool-1/config.json": driverConfig,
			"certs/config.json": "{",
		}), want: want},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := render.DecodeDriver(tc.data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("driver (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeDriver_Malformed(t *testing.T) {
	t.Parallel()
	whole := packed.Archive(map[string]string{"machines/a/config.json": driverConfig})
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"not gzip":  {[]byte("PASSWORD"), "must be a gzip archive"},
		"truncated": {whole[:len(whole)/2], "must be a tar archive"},
		"no configuration": {packed.Archive(map[string]string{"machines/config.json": driverConfig}),
			"machines/<name>/config.json"},
		"not JSON": {packed.Archive(map[string]string{"machines/a/config.json": "PASSWORD"}), "not valid JSON"},
		"another type": {
			packed.Archive(map[string]string{"machines/a/config.json": `{"Driver":{"IPAddress":["PASSWORD"]}}`}),
			"field Driver.IPAddress"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := render.DecodeDriver(tc.data)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v does not contain %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "PASSWORD") {
				t.Errorf("the error contains content: %v", err)
			}
		})
	}
}

func FuzzDecodeDriver(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("PASSWORD"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if driver, err := render.DecodeDriver(data); driver != nil && err != nil {
			t.Error("both a driver and an error")
		}
	})
}
