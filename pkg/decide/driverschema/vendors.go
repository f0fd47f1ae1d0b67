package driverschema

import (
	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

// program is the download of a vendor's driver for one architecture.
type program struct{ url, checksum string }

// vendor is a driver that its vendor offers for download. It is not active on a new installation, so that Drover
// downloads only drivers in use.
type vendor struct {
	name string
	// programs are the downloads, by architecture.
	programs map[string]program

	public, private, passwords, optional, defaults, aliases string
}

const (
	amd64 = "amd64"
	arm64 = "arm64"

	releases = "/releases/download/"
)

// vendors are the drivers that installations of this ecosystem offer (docs/wire/machines.md#seeded-drivers).
var vendors = []vendor{
	{name: "cloudca", programs: map[string]program{amd64: {"https://github.com/cloud-ca/" +
		"docker-machine-driver-cloudca/files/2446837/docker-machine-driver-cloudca_v2.0.0_linux-amd64.zip",
		"1757e2b807b0fea4a38eade4e961bcc609853986a44a99a4e86a37ccea1f7679"}}},
	{name: "cloudscale", programs: map[string]program{amd64: {"https://github.com/cloudscale-ch/" +
		"docker-machine-driver-cloudscale" + releases +
		"v1.2.0/docker-machine-driver-cloudscale_v1.2.0_linux_amd64.tar.gz",
		"e33fbd6c2f87b1c470bcb653cc8aa50baf914a9d641a2f18f86a07c398cfb544"}}},
	{
		name: "harvester", public: "clusterType,clusterId", private: "kubeconfigContent", optional: "clusterId",
		defaults: "clusterType:imported",
		programs: map[string]program{
			amd64: {harvesterURL + "amd64.tar.gz", "7db00430a1c047e6627681446a99219815156e971043ba7a22a083d69fafe44a"},
			arm64: {harvesterURL + "arm64.tar.gz", "e536ded30af40bdfa53a1010e39dfe2f72f5add499b564b9516c1385ee3a98c5"},
		},
	},
	{
		name: "linode", private: "token", passwords: "rootPass",
		programs: map[string]program{
			amd64: {linodeURL + "amd64.zip", "d9c3b8c389a022b0e5c5e8912496c18a673fa74bb52ec6ab51c0a93e0f4de06d"},
			arm64: {linodeURL + "arm64.zip", "1a8336f66bffc2186f5fb77642f509b9370f177397ee71f1a8cb522e5979dbec"},
		},
	},
	{
		name: "nutanix", public: "endpoint,username,port", private: "password",
		programs: map[string]program{amd64: {"https://github.com/nutanix/docker-machine" + releases +
			"v3.8.0/docker-machine-driver-nutanix",
			"ad18a0150f37e6cf0aef99a529f9541be72daa9e6dc3dad835d095d44e600f6a"}},
	},
	{
		name: "oci", public: "tenancyId,userId,fingerprint", private: "privateKeyContents",
		passwords: "privateKeyPassphrase",
		programs: map[string]program{amd64: {"https://github.com/rancher-plugins/rancher-machine-driver-oci" +
			releases + "v1.3.0/docker-machine-driver-oci-linux",
			"0a1afa6a0af85ecf3d77cc554960e36e1be5fd12b22b0155717b9289669e4021"}},
	},
	{
		name: "otc", public: "accessKey,username", private: "secretKey,password,token",
		aliases: "privateKeyFile:privateKeyFile",
		programs: map[string]program{amd64: {"https://otc-rancher.obs.eu-de.otc.t-systems.com/node/driver/0.3.3/" +
			"docker-machine-driver-otc_0.3.3_linux_amd64.tar.gz",
			"2151670a96e3ee71aedcfb5a1b73804a4772c3f9ca7f714f2a572d3868a648d1"}},
	},
	{
		name: "outscale", public: "accessKey,region", private: "secretKey",
		programs: map[string]program{amd64: {"https://github.com/outscale/docker-machine-driver-outscale" + releases +
			"v0.2.0/docker-machine-driver-outscale_0.2.0_linux_amd64.zip",
			"bb539ed4e2b0f1a1083b29cbdbab59bde3efed0a3145fefc0b2f47026c48bfe0"}},
	},
	{
		name: "packet", private: "apiKey", aliases: "userdata:userdata",
		programs: map[string]program{amd64: {"https://github.com/equinix/docker-machine-driver-metal" + releases +
			"v0.6.0/docker-machine-driver-metal_linux-amd64.zip",
			"fad5e551a35d2ef2db742b07ca6d61bb9c9b574d322d3000f0c557d5fb90a734"}},
	},
	{
		name: "pnap", public: "clientIdentifier", private: "clientSecret",
		programs: map[string]program{amd64: {"https://github.com/phoenixnap/docker-machine-driver-pnap" + releases +
			"v0.5.1/docker-machine-driver-pnap_0.5.1_linux_amd64.zip",
			"5847599c24c137975fd190747a15ad4db9529ae35059b60e5f8bc9a470d55229"}},
	},
}

const (
	harvesterURL = "https://github.com/harvester/docker-machine-driver-harvester" + releases +
		"v1.0.6/docker-machine-driver-harvester-"
	linodeURL = "https://github.com/linode/docker-machine-driver-linode" + releases +
		"v0.1.16/docker-machine-driver-linode_linux-"
)

// VendorSeeds returns the NodeDrivers of vendors for an architecture, none of them active. A vendor without a program
// for it has none.
func VendorSeeds(arch string) []*mgmtv3.NodeDriver {
	out := make([]*mgmtv3.NodeDriver, 0, len(vendors))
	for _, v := range vendors {
		download, ok := v.programs[arch]
		if !ok {
			continue
		}
		driver := seed{name: v.name, public: v.public, private: v.private, passwords: v.passwords, optional: v.optional,
			defaults: v.defaults, aliases: v.aliases}.driver()
		driver.Spec.Builtin, driver.Spec.URL, driver.Spec.Checksum = false, download.url, download.checksum
		out = append(out, driver)
	}
	return out
}
