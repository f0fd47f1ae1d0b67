package controllers

import "testing"

func TestMachineImage(t *testing.T) {
	for name, tc := range map[string]struct{ image, registry, want string }{
		"without a registry": {"", "", DefaultMachineProvisionImage},
		"the default registry": {"", "reg.example.org", "reg.example.org/" +
			DefaultMachineProvisionImage},
		"a default registry with a path": {"rancher/machine:v1", "reg.example.org/hub/",
			"reg.example.org/hub/rancher/machine:v1"},
		"Docker Hub by its name, as in the chart": {"docker.io/rancher/machine:v1", "reg.example.org",
			"reg.example.org/rancher/machine:v1"},
		"an image of the default registry": {"reg.example.org/rancher/machine:v1", "reg.example.org",
			"reg.example.org/rancher/machine:v1"},
		"an image of another registry": {"other.example.org/machine:v1", "reg.example.org",
			"other.example.org/machine:v1"},
		"an image of a registry on this machine": {"localhost/machine:v1", "reg.example.org", "localhost/machine:v1"},
		"an image of a registry with a port": {"registry:5000/machine:v1", "reg.example.org",
			"registry:5000/machine:v1"},
		"an image without an organisation": {"machine:v1", "reg.example.org", "reg.example.org/machine:v1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (Settings{MachineProvisionImage: tc.image,
				SystemDefaultRegistry: tc.registry}).MachineImage(); got != tc.want {
				t.Errorf("image %s, want %s", got, tc.want)
			}
		})
	}
}
