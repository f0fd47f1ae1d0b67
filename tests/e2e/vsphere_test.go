package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/tests/testbed/lab"
	"github.com/drover-io/drover/tests/testbed/vcenter"
)

const (
	vcenterPort    = "9443"
	vsphereTimeout = 3 * time.Minute
)

var vsphereResource = schema.GroupVersionResource{Group: "rke-machine.cattle.io", Version: "v1",
	Resource: "vmwarevspheremachines"}

// TestVSphere creates and removes machines with the unchanged driver vmwarevsphere, at VMware's simulator. The virtual
// machines never boot, so the driver waits for their addresses. The removal uses the credential of that time.
func TestVSphere(t *testing.T) {
	w := newWorld(t, "vsphere", "v1.36.3+k3s1")
	v, err := vcenter.Start(t.Context(), "first")
	must(t, err)
	t.Cleanup(v.Close)
	listener, err := lab.ListenIn(w.Lab.Namespace(), net.JoinHostPort(lab.Gateway.String(), vcenterPort))
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go v.Serve(listener)
	s := &vsphere{world: w, center: v}
	s.storeCredential("first")

	t.Run("a machine is created, and removed with a new credential", func(t *testing.T) {
		s.t = t
		name := s.waitsForAddress("one")
		must(t, v.GiveAddress(t.Context(), name, "192.0.2.7"))
		s.hostBecomes("its creation succeeds", rkev1.ConditionReady, "True", "")
		disk := s.disk(name)
		v.SetPassword("second")
		s.storeCredential("second")
		s.deleteCluster("one")
		s.expectNothing(disk)
		if refused := v.Refused(); refused != 0 {
			t.Errorf("%d logins had the old password", refused)
		}
	})
	// The driver knows the virtual machine only after the address came, so nothing may be left without a word.
	t.Run("a driver that was ended while it waited", func(t *testing.T) {
		s.t = t
		name := s.waitsForAddress("two")
		must(t, s.objects.Resource(clustersResource).Namespace(namespace).Delete(t.Context(), "two",
			metav1.DeleteOptions{}))
		s.hostBecomes("the removal waits for the driver", rkev1.ConditionReady, "False",
			"starts after the end of the Job")
		s.endDriver()
		s.hostBecomes("the user is asked", rkev1.ConditionDeleteJob, "False", "remove the host "+name+" in the cloud")
		if reason := s.condition(rkev1.ConditionDeleteJob)["reason"]; reason != machinejob.ReasonUnconfirmed {
			t.Errorf("the reason is %v", reason)
		}
		must(t, v.Destroy(t.Context(), name))
		s.forget()
		s.within(vsphereTimeout, "the Cluster is gone", func() error { return s.gone("two") })
		s.expectNothing("")
	})
}

// vsphere is a world with a vCenter.
type vsphere struct {
	*world
	center *vcenter.VCenter
}

func (s *vsphere) storeCredential(password string) {
	s.world.t.Helper()
	must(s.world.t, s.Apply(s.world.t.Context(), fmt.Appendf(nil, `
apiVersion: v1
kind: Secret
metadata: {name: cc-vsphere, namespace: fleet-default}
stringData:
  vmwarevspherecredentialConfig-username: svc-clusters@vsphere.local
  vmwarevspherecredentialConfig-password: %s
  vmwarevspherecredentialConfig-vcenter: %s
  vmwarevspherecredentialConfig-vcenterPort: "%s"
`, password, lab.Gateway, vcenterPort)))
}

// waitsForAddress creates a cluster of one machine, and returns the virtual machine that waits for its address.
func (s *vsphere) waitsForAddress(cluster string) string {
	s.t.Helper()
	text := string(manifest(cluster, "v1.36.3+k3s1", pool{"pool1", 1, "ecw"}))
	text = strings.ReplaceAll(text, "NspawnConfig", "VmwarevsphereConfig")
	text = replaceOnce(s.t, text, cloudCredential.Namespace+":"+cloudCredential.Name, "cc-vsphere")
	text = replaceOnce(s.t, text, "metadata: {name: "+cluster+", namespace: fleet-default}\n---\n",
		"metadata: {name: "+cluster+", namespace: fleet-default}\n"+
			"creationType: template\ncloneFrom: "+vcenter.Template+"\ndatastore: "+vcenter.Datastore+"\n"+
			"cpuCount: \"1\"\nmemorySize: \"512\"\ncloudConfig: |\n  #cloud-config\n  timezone: UTC\n---\n")
	must(s.t, s.Apply(s.t.Context(), []byte(text)))
	var name string
	s.within(vsphereTimeout, "a virtual machine runs", func() error {
		made, err := s.center.Machines(s.t.Context())
		if err != nil {
			return err
		}
		if len(made) != 1 || !made[0].Running {
			return fmt.Errorf("virtual machines are %v; the host is %v", made, s.host())
		}
		name = made[0].Name
		return nil
	})
	return name
}

// disk returns the path of the image with the user data of a virtual machine.
func (s *vsphere) disk(name string) string {
	s.t.Helper()
	made, err := s.center.Machines(s.t.Context())
	must(s.t, err)
	if len(made) != 1 || made[0].Name != name || len(made[0].Disks) != 1 {
		s.t.Fatalf("virtual machines are %v, want %s with one image", made, name)
	}
	there, err := s.center.Exists(s.t.Context(), made[0].Disks[0])
	if err != nil || !there {
		s.t.Fatalf("image %s exists %v, %v", made[0].Disks[0], there, err)
	}
	return made[0].Disks[0]
}

// hosts returns the only VmwarevsphereMachine, or nil.
func (s *vsphere) host() *unstructured.Unstructured {
	s.t.Helper()
	hosts, err := s.list(vsphereResource)
	if err != nil || len(hosts) != 1 {
		return nil
	}
	return &hosts[0]
}

func (s *vsphere) condition(kind string) map[string]any {
	host := s.host()
	if host == nil {
		return nil
	}
	all, _, _ := unstructured.NestedSlice(host.Object, "status", "conditions")
	for _, entry := range all {
		if condition, ok := entry.(map[string]any); ok && condition["type"] == kind {
			return condition
		}
	}
	return nil
}

func (s *vsphere) hostBecomes(what, kind, status, text string) {
	s.t.Helper()
	s.within(vsphereTimeout, what, func() error {
		found := s.condition(kind)
		message, _ := found["message"].(string)
		if found["status"] != status || !strings.Contains(message, text) {
			return fmt.Errorf("condition %s is %v", kind, found)
		}
		return nil
	})
}

// endDriver ends the Job that creates the host, with the command that Drover shows.
func (s *vsphere) endDriver() {
	s.t.Helper()
	jobs, err := s.list(jobsResource)
	must(s.t, err)
	if len(jobs) != 1 {
		s.t.Fatalf("there are %d Jobs, want one", len(jobs))
	}
	_, err = s.objects.Resource(jobsResource).Namespace(namespace).Patch(s.t.Context(), jobs[0].GetName(),
		types.MergePatchType, []byte(`{"spec":{"activeDeadlineSeconds":1}}`), metav1.PatchOptions{})
	must(s.t, err)
}

// forget confirms that the host is gone.
func (s *vsphere) forget() {
	s.t.Helper()
	_, err := s.objects.Resource(vsphereResource).Namespace(namespace).Patch(s.t.Context(), s.host().GetName(),
		types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`,
			rkev1.ForceMachineRemoveAnnotation), metav1.PatchOptions{})
	must(s.t, err)
}

// gone returns an error while a cluster or a machine exists.
func (s *vsphere) gone(cluster string) error {
	for _, resource := range []schema.GroupVersionResource{clustersResource, machinesResource, vsphereResource} {
		left, err := s.list(resource)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("%d %s of cluster %s are left", len(left), resource.Resource, cluster)
		}
	}
	return nil
}

// expectNothing fails if something is left in vCenter, or a Job or a Secret of a machine in the namespace.
func (s *vsphere) expectNothing(disk string) {
	s.t.Helper()
	if made, err := s.center.Machines(s.t.Context()); err != nil || len(made) > 0 {
		s.t.Errorf("virtual machines are left: %v, %v", made, err)
	}
	if disk != "" {
		if there, err := s.center.Exists(s.t.Context(), disk); err != nil || there {
			s.t.Errorf("image %s is left: %v, %v", disk, there, err)
		}
	}
	s.within(vsphereTimeout, "nothing is left", func() error {
		for _, resource := range []schema.GroupVersionResource{jobsResource, secretsResource} {
			left, err := s.list(resource)
			if err != nil {
				return err
			}
			for _, object := range left {
				if object.GetName() != "cc-vsphere" {
					return fmt.Errorf("%s %s is left", object.GetKind(), object.GetName())
				}
			}
		}
		return nil
	})
}
