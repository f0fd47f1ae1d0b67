package naming_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/drover-io/drover/pkg/decide/naming"
)

const (
	shortMachine = "demo-pool-a-7c9fd-x2k4q"
	longMachine  = "north-europe-production-cluster-large-memory-pool-7c9fd6bb58-x2k4q"
)

// TestGolden contains the names that existing clusters depend on.
func TestGolden(t *testing.T) {
	t.Parallel()
	long := "north-europe-production-cluster-large-memory-pool-7c9fd6b-"
	cases := map[string]struct{ got, want string }{
		"a name that fits is kept": {naming.SafeConcat("a", "b"), "a-b"},
		"63 bytes fit":             {naming.SafeConcat(strings.Repeat("a", 63)), strings.Repeat("a", 63)},
		"64 bytes do not fit": {naming.SafeConcat(strings.Repeat("a", 64)), strings.Repeat("a", 57) +
			"-ffe05"},
		"long cluster and pool": {
			naming.MachineDeployment("my-very-long-cluster-name-used-for-testing-purposes", "my-very-long-pool-name"),
			"my-very-long-cluster-name-used-for-testing-purposes-my-ve-bffcb"},
		"no dash before the hash": {naming.SafeConcat(strings.Repeat("a", 56) + "-bbbbbbbbbb"),
			strings.Repeat("a", 56) + "-cf2ce3"},
		"machine state": {naming.MachineState(shortMachine),
			"demo-pool-a-7c9fd-x2k4q-machine-state"},
		"machine state, long":               {naming.MachineState(longMachine), long + "d2a9b"},
		"machine provision, long":           {naming.MachineProvision(longMachine), long + "43a2d"},
		"machine provision extension, long": {naming.MachineProvisionExtension(longMachine), long + "ec295"},
		"plan secret, long":                 {naming.PlanSecret(longMachine), long + "3fce4"},
		"bootstrap secret, long":            {naming.BootstrapSecret(longMachine), long + "a4ed8"},
		"driver secret, long":               {naming.MachineDriverSecret(longMachine), long + "21f11"},
		"host name of 24 bytes": {naming.Hostname(24, shortMachine+"-long-suffix"),
			"demo-pool-a-7c9fd-6e7746"},
		"host name of 15 bytes":        {naming.Hostname(15, shortMachine), "demo-pool-06c63"},
		"host name of 10 bytes":        {naming.Hostname(10, shortMachine), "demo-06c63"},
		"host name limit out of range": {naming.Hostname(9, "node.example"), "node-example"},
		"shortest hashed limit":        {naming.SafeConcatMax(6, shortMachine), "06c63"},
		"plain cut":                    {naming.SafeConcatMax(5, shortMachine), "demo-"},
		"limit of zero":                {naming.SafeConcatMax(0, shortMachine), ""},
		"instance name has no dots":    {naming.Instance("node.example"), "node-example"},
		"certificates": {naming.MachineCerts(shortMachine),
			"machine-certs-06c631984131c3de11b5bbbb5b7e2a66"},
		"bootstrap token": {naming.TokenHash("eyJhbGciOi.example.sa-token"),
			"MfM2hNIlcy2Va6jmhL7EtCt6-G9o-75GEmomHbmvw3I="},
		"authority": {naming.CAChecksum("pem"),
			"70278335ab7cb0d139f9ebcaacbf93ea8ad5f614826f81f1454481f40abfac7a"},
		"authority, with a newline": {naming.CAChecksum("pem\n"),
			"70278335ab7cb0d139f9ebcaacbf93ea8ad5f614826f81f1454481f40abfac7a"},
		"authority, with three newlines": {naming.CAChecksum("pem\n\n\n"),
			"70278335ab7cb0d139f9ebcaacbf93ea8ad5f614826f81f1454481f40abfac7a"},
		"no authority": {naming.CAChecksum("\n"), ""},
		"machine request": {naming.MachineRequest(naming.MachineRequestCustom, "machine-1"),
			"custom-f7a7266df8b4"},
		"machine request, cattle id": {naming.MachineRequest(naming.MachineRequestCustom, strings.Repeat("3f", 31)+"a"),
			"custom-63253e855250"},
		"provisioning user": {naming.User(naming.ProvisioningPrincipal("fleet-default", "demo")),
			"u-l3jmhncqjg"},
		"provisioning user, local": {naming.User(naming.ProvisioningPrincipal("fleet-local", "local")),
			"u-mo773yttt4"},
		"provisioning user, legacy": {naming.User(naming.ProvisioningPrincipal("fleet-default", "c-m-1234xyz")),
			"u-fngwm5ys7g"},
		"apply set rke-cluster": {naming.ApplySet("rke-cluster", "provisioning.cattle.io/v1, Kind=Cluster", "demo",
			"fleet-default"), "8cad0aff80f89143607f2b002787b1b5008b3d93"},
		"apply set cluster-create": {naming.ApplySet("cluster-create", "provisioning.cattle.io/v1, Kind=Cluster",
			"demo", "fleet-default"), "aa46c9c75699cdcebe7974ea00306a58f1ee68fa"},
		"apply set fleet-cluster": {naming.ApplySet("fleet-cluster", "provisioning.cattle.io/v1, Kind=Cluster", "demo",
			"fleet-default"), "cc4e130af717128d58a596c0bb26cf60dbaffa11"},
		"apply set of a cluster-scoped owner": {
			naming.ApplySet("auth-prov-v2-roletemplate-demo", "management.cattle.io/v3, Kind=RoleTemplate",
				"cluster-owner", ""),
			"cb872b5d676667ee28cddc9af628c71a52ca5462",
		},
		"bootstrap template":        {naming.BootstrapTemplate("demo"), "demo-bootstrap-template"},
		"pool bootstrap template":   {naming.PoolBootstrapTemplate("demo-pool1", ""), "demo-pool1-b47c9422"},
		"management cluster":        {naming.ManagementCluster("q5wzxk7dbcdfgh"), "c-m-q5wzxk7d"},
		"management cluster, short": {naming.ManagementCluster("q5"), "c-m-q5"},
		"cluster state":             {naming.ClusterState("demo"), "demo-rke-state"},
		"snapshot on a machine": {
			naming.ETCDSnapshot("demo", "local", "On-Demand-n1-1795694402", "n1",
				"file:///var/lib/rancher/k3s/server/db/snapshots/On-Demand-n1-1795694402", 1795694402),
			"demo-local-on-demand-n1-1795694402-481825",
		},
		"snapshot with an unusual name": {
			naming.ETCDSnapshot("demo", "s3", "before_upgrade", "n1.example.com", "s3://bucket/before_upgrade",
				1795694402),
			"demo-s3-etcd-snapshot-n1-1795694402-95a62f",
		},
		"kubeconfig is never cut": {naming.Kubeconfig(strings.Repeat("c", 63)), strings.Repeat("c", 63) +
			"-kubeconfig"},
		"registration token": {naming.RegistrationTokenSecret(naming.DefaultRegistrationToken),
			"crt-token-default-token"},
		"limit keeps a short name":     {naming.Limit("abc", 10), "abc"},
		"limit cuts at its length":     {naming.Limit("abcdefghij", 10), "abcd-a9255"},
		"limit below the hash":         {naming.Limit("abcdefghij", 3), "a92"},
		"md5 digits":                   {naming.Hex("abcdefghij", 5), "a9255"},
		"machine template":             {naming.MachineTemplate("demo-pool1", "4d5c3958"), "demo-pool1-4d5c3958"},
		"random tokens have no vowels": {naming.RandomTokenAlphabet, "bcdfghjklmnpqrstvwxz2456789"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.got != c.want {
				t.Errorf("got %q, want %q", c.got, c.want)
			}
		})
	}
}

func TestMachineTemplateHash(t *testing.T) {
	t.Parallel()
	const known = "4d5c3958"
	cases := map[string]struct {
		spec     map[string]any
		wantSame bool
	}{
		"as recorded": {map[string]any{"etcdTmpfs": "512Mi", "image": "rancher/systemd-node:v0.0.8"}, true},
		"common and empty values do not count": {map[string]any{
			"etcdTmpfs": "512Mi", "image": "rancher/systemd-node:v0.0.8",
			"common": map[string]any{"labels": map[string]any{"a": "b"}}, "a": nil, "b": "", "c": []any{},
			"d": []string{},
		}, true},
		"false counts": {map[string]any{"etcdTmpfs": "512Mi", "image": "rancher/systemd-node:v0.0.8", "a": false},
			false},
		"zero counts": {map[string]any{"etcdTmpfs": "512Mi", "image": "rancher/systemd-node:v0.0.8",
			"a": int64(0)}, false},
		"empty map counts": {map[string]any{"etcdTmpfs": "512Mi", "image": "rancher/systemd-node:v0.0.8",
			"a": map[string]any{}}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := naming.MachineTemplateHash("demo-pool1", c.spec)
			if err != nil {
				t.Fatal(err)
			}
			if (got == known) != c.wantSame {
				t.Errorf("hash %q, want it equal to %q: %v", got, known, c.wantSame)
			}
		})
	}
	if _, err := naming.MachineTemplateHash("demo-pool1", map[string]any{"a": func() {}}); err == nil {
		t.Error("a value that cannot be encoded is an error")
	}
}

func TestShortenedNamesFit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.StringMatching(`[a-z0-9]([a-z0-9.-]{0,60}[a-z0-9])?`), 1, 4).Draw(t, "parts")
		limit := rapid.IntRange(0, 80).Draw(t, "limit")
		joined := strings.Join(parts, "-")

		if got := naming.SafeConcat(parts...); len(got) > naming.MaxLength || len(joined) <= naming.MaxLength &&
			got != joined {
			t.Fatalf("SafeConcat(%q) = %q", parts, got)
		}
		got := naming.SafeConcatMax(limit, parts...)
		if len(got) > limit || len(joined) <= limit && got != joined {
			t.Fatalf("SafeConcatMax(%d, %q) = %q", limit, parts, got)
		}
		if got := naming.Limit(joined, limit); len(got) > limit {
			t.Fatalf("Limit(%q, %d) = %q", joined, limit, got)
		}
		if strings.Contains(naming.Instance(joined), ".") {
			t.Fatalf("Instance(%q) has a dot", joined)
		}
	})
}

func TestRandomToken_UsesEveryCharacter(t *testing.T) {
	t.Parallel()
	seen := map[rune]bool{}
	for range 100 {
		token, err := naming.RandomToken(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range token {
			seen[r] = true
		}
	}
	if len(seen) != len(naming.RandomTokenAlphabet) {
		t.Errorf("%d of %d characters appear in 5400", len(seen), len(naming.RandomTokenAlphabet))
	}
}
