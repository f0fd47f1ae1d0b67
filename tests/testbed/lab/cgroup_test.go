package lab

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseHierarchies(t *testing.T) {
	for name, test := range map[string]struct {
		own, mounts string
		want        []string
		v1          bool
	}{
		"v2 has one hierarchy": {
			own: "0::/user.slice/session-1.scope\n",
			mounts: "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n" +
				"31 23 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
			want: []string{"/sys/fs/cgroup/user.slice/session-1.scope"},
		},
		"v1 has one for each controller, and v2 without controllers next to them": {
			own: "3:memory:/a\n2:cpu,cpuacct:/b\n1:name=systemd:/\n0::/c\n",
			mounts: "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
				"32 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
				"33 23 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n" +
				"34 23 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			want: []string{"/sys/fs/cgroup/cpu/b", "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/systemd",
				"/sys/fs/cgroup/unified/c"},
			v1: true,
		},
		"a mount that is visible twice counts once": {
			own: "0::/\n",
			mounts: "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n" +
				"35 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			want: []string{"/sys/fs/cgroup"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := parseHierarchies(test.own, test.mounts)
			var got []string
			for _, one := range found {
				got = append(got, one.folder())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("folders (-want +got):\n%s", diff)
			}
			if got := hasCgroupV1(found); got != test.v1 {
				t.Errorf("v1: got %t, want %t", got, test.v1)
			}
		})
	}
}
