package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/tests/testbed/ec2"
	"github.com/drover-io/drover/tests/testbed/rig"
)

// ec2Manifest is a cluster of one server and a pool of workers on EC2, with its credential. A worker is replaced when
// its node is unhealthy.
const ec2Manifest = `
apiVersion: v1
kind: Secret
metadata: {name: cc-ec2, namespace: fleet-default}
stringData:
  amazonec2credentialConfig-accessKey: %[1]s
  amazonec2credentialConfig-secretKey: %[2]s
  amazonec2credentialConfig-defaultRegion: eu-central-1
---
apiVersion: rke-machine-config.cattle.io/v1
kind: Amazonec2Config
metadata: {name: ec2, namespace: fleet-default}
ami: %[4]s
endpoint: %[3]s
insecureTransport: true
region: eu-central-1
retries: "3"
securityGroup: [rancher-nodes]
sshUser: debian
tags: team,shop
zone: %[5]s
---
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: ec2, namespace: fleet-default}
spec:
  kubernetesVersion: v1.36.3+k3s1
  cloudCredentialSecretName: cc-ec2
  rkeConfig:
    machineGlobalConfig:
      kube-controller-manager-arg: [node-monitor-grace-period=20s]
    machinePools:
      - {name: server, quantity: 1, etcdRole: true, controlPlaneRole: true,
         machineConfigRef: {kind: Amazonec2Config, name: ec2}}
      - {name: worker, quantity: %[6]d, workerRole: true, unhealthyNodeTimeout: 10s,
         machineConfigRef: {kind: Amazonec2Config, name: ec2}}
`

// ec2World is a rig with an account of EC2.
type ec2World struct {
	*world
	cloud *rig.EC2
}

// apply applies the cluster with that many workers.
func (w *ec2World) apply(workers int) {
	w.t.Helper()
	must(w.t, w.Apply(w.t.Context(), fmt.Appendf(nil, ec2Manifest, w.cloud.AccessKey, w.cloud.SecretKey,
		w.cloud.Endpoint, ec2.Image, ec2.Zone, workers)))
}

// TestEC2 runs a cluster with the unchanged driver of Amazon EC2. The quota of the account is in use for a while, EC2
// refuses requests because there are too many, and an instance vanishes. In the end nothing of the cluster is left.
func TestEC2(t *testing.T) {
	w := &ec2World{world: newWorldWith(t, "ec2", func(o *rig.Options) { o.CloudInit = true }, "v1.36.3+k3s1")}
	var err error
	w.cloud, err = w.ServeEC2(t.Context())
	must(t, err)
	w.apply(1)
	w.awaitNodes("ec2", 2)
	w.checkInstances(2)

	w.cloud.Refuse(ec2.OverQuota(1))
	w.cloud.Refuse(ec2.Throttle("RunInstances", 2))
	w.apply(2)
	w.awaitInstances(3)
	w.awaitNodes("ec2", 3)
	if got := w.cloud.Calls("RunInstances", "RequestLimitExceeded"); got != 2 {
		t.Errorf("%d launches were refused because of the request limit, want 2", got)
	}
	w.checkInstances(3)
	w.checkQuotaEvent()

	must(t, w.cloud.Vanish(t.Context(), w.instanceOf("-worker-").ID))
	w.awaitInstances(3)
	w.awaitNodes("ec2", 3)
	w.checkInstances(3)

	w.deleteCluster("ec2")
	if left := w.cloud.Instances(); len(left) != 0 {
		t.Errorf("instances are left: %+v", left)
	}
	if left := w.cloud.KeyPairs(); len(left) != 0 {
		t.Errorf("key pairs are left: %v", left)
	}
	// All clusters of an account share this group, and the driver keeps it.
	if diff := cmp.Diff([]string{"rancher-nodes"}, w.cloud.SecurityGroups()); diff != "" {
		t.Errorf("security groups (-want +got):\n%s", diff)
	}
	if left := w.Lab.List(); len(left) != 0 {
		t.Errorf("machines are left: %+v", left)
	}
}

// awaitInstances waits until the account has that many instances.
func (w *ec2World) awaitInstances(want int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d instances", want), func() (bool, error) {
		return len(w.cloud.Instances()) == want, nil
	})
}

// checkInstances compares the account with the cluster: one instance for each Machine, with its name and tags, and one
// key pair for each instance.
func (w *ec2World) checkInstances(want int) {
	w.t.Helper()
	machines, err := w.list(machinesResource)
	must(w.t, err)
	var names, tagged, keys []string
	for _, machine := range machines {
		names = append(names, machine.GetName())
	}
	for _, one := range w.cloud.Instances() {
		tagged, keys = append(tagged, one.Tags["Name"]), append(keys, one.KeyName)
		owned := false
		for key, value := range one.Tags {
			owned = owned || strings.HasPrefix(key, "kubernetes.io/cluster/c-m-") && value == "owned"
		}
		if one.Tags["team"] != "shop" || !owned {
			w.t.Errorf("the tags of %s are %v", one.ID, one.Tags)
		}
	}
	for _, list := range [][]string{names, tagged, keys} {
		slices.Sort(list)
	}
	if diff := cmp.Diff(names, tagged); diff != "" || len(names) != want {
		w.t.Errorf("instances of %d Machines, want %d (-Machines +instances):\n%s", len(names), want, diff)
	}
	if diff := cmp.Diff(keys, w.cloud.KeyPairs()); diff != "" {
		w.t.Errorf("key pairs (-instances +account):\n%s", diff)
	}
}

// instanceOf returns the first instance with a part of a name.
func (w *ec2World) instanceOf(part string) ec2.Instance {
	w.t.Helper()
	for _, one := range w.cloud.Instances() {
		if strings.Contains(one.Tags["Name"], part) {
			return one
		}
	}
	w.t.Fatalf("no instance has %s in its name", part)
	return ec2.Instance{}
}

// checkQuotaEvent checks that an Event says which quota is in use, and what to do.
func (w *ec2World) checkQuotaEvent() {
	w.t.Helper()
	client, err := kubernetes.NewForConfig(w.Config)
	must(w.t, err)
	events, err := client.CoreV1().Events(namespace).List(w.t.Context(), metav1.ListOptions{})
	must(w.t, err)
	if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
		return strings.Contains(e.Message, "VcpuLimitExceeded") && strings.Contains(e.Message, "request a higher quota")
	}) {
		w.t.Errorf("no Event names the quota: %v", events.Items)
	}
}
