package inspect

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// related returns the objects of a namespace that belong to the named clusters: by name, label, spec or reference. It
// includes everything that these objects own.
func related(all []*unstructured.Unstructured, names []string) []*unstructured.Unstructured {
	chosen, uids, referred := map[int]bool{}, map[types.UID]bool{}, map[string]bool{}
	take := func(i int) {
		chosen[i] = true
		if uid := all[i].GetUID(); uid != "" {
			uids[uid] = true
		}
		for _, reference := range configsOf(all[i]) {
			referred[reference] = true
		}
	}
	for i, object := range all {
		if ofCluster(object, names) {
			take(i)
		}
	}
	for grown := true; grown; {
		grown = false
		for i, object := range all {
			owned := slices.ContainsFunc(object.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
				return uids[o.UID]
			})
			if !chosen[i] && (owned || referred[object.GetKind()+"/"+object.GetName()]) {
				take(i)
				grown = true
			}
		}
	}
	var out []*unstructured.Unstructured
	for i, object := range all {
		if chosen[i] {
			out = append(out, object)
		}
	}
	return out
}

// ofCluster reports whether an object itself names one of the clusters.
func ofCluster(object *unstructured.Unstructured, names []string) bool {
	labels := object.GetLabels()
	said, _, _ := unstructured.NestedString(object.Object, "spec", "clusterName") // may be empty
	switch object.GetKind() {
	case "Cluster", "RKECluster", "RKEControlPlane":
		return slices.Contains(names, object.GetName())
	}
	for _, name := range []string{labels[clusterv1.ClusterNameLabel], labels[rkev1.ClusterNameLabel], said} {
		if name != "" && slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// configsOf returns the machine configs that the pools of a Cluster name, as Kind/name.
func configsOf(cluster *unstructured.Unstructured) []string {
	pools, _, _ := unstructured.NestedSlice(cluster.Object, "spec", "rkeConfig", "machinePools") // no pools: no configs
	var out []string
	for _, pool := range pools {
		fields, _ := pool.(map[string]any)
		ref, _ := fields["machineConfigRef"].(map[string]any)
		kind, _ := ref["kind"].(string)
		name, _ := ref["name"].(string)
		out = append(out, kind+"/"+name)
	}
	return out
}

// referred reads the Secrets and ConfigMaps that the clusters name. The bundle shows their keys and masks their values
// everywhere.
func (c *collector) referred(names []string) {
	for _, name := range names {
		c.referredBy(name)
		cluster, err := c.Cluster(name)
		if err != nil {
			c.note("cluster "+name, err)
			continue
		}
		credentials := []string{cluster.Spec.CloudCredentialSecretName}
		if config := cluster.Spec.RKEConfig; config != nil {
			for i := range config.MachinePools {
				credentials = append(credentials, config.MachinePools[i].CloudCredentialSecretName)
			}
		}
		for _, reference := range credentials {
			namespace, name := topology.CredentialSecret(c.namespace, reference)
			c.get("secrets", namespace, name)
		}
	}
}

func (c *collector) referredBy(controlPlane string) {
	found, err := c.controlPlane(controlPlane)
	if err != nil || found == nil {
		c.note("control plane "+controlPlane, err)
		return
	}
	referred, err := c.planner.Objects(found)
	c.note("what control plane "+controlPlane+" refers to", err)
	for _, object := range referred {
		c.get(strings.ToLower(object.Kind)+"s", object.Namespace, object.Name)
	}
}

// get reads one Secret or ConfigMap.
func (c *collector) get(kind, namespace, name string) {
	if name == "" {
		return
	}
	object, err := c.live.Resource(resource("", "v1", kind)).Namespace(namespace).Get(c.ctx, name, metav1.GetOptions{})
	c.note(kind+" "+namespace+"/"+name, err)
	if err == nil {
		c.add(object)
	}
}
