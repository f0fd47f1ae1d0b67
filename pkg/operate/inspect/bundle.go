package inspect

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/operate/supportbundle"
)

// Limits for the log of one container: lines from its end, and bytes.
const (
	logLines = 5000
	logBytes = 4 << 20
)

// podsOfDrover selects the chart's pods, regardless of their names.
const podsOfDrover = "app.kubernetes.io/component=server,app.kubernetes.io/part-of=drover"

// definitionsFile lists the definitions of Drover's kinds.
const definitionsFile = "definitions.txt"

// Clusters lists all clusters as namespace and name, limited to one namespace if it is not empty.
func (r *Reader) Clusters(namespace string) ([][2]string, error) {
	list, err := r.clients.Provisioning.Cluster().List(namespace, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	out := make([][2]string, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, [2]string{list.Items[i].Namespace, list.Items[i].Name})
	}
	return out, nil
}

// collector gathers objects for a bundle.
type collector struct {
	*Reader
	ctx    context.Context // valid for one call
	out    *supportbundle.Input
	seen   map[string]bool
	failed map[string]bool
}

// Collect adds the objects of the named clusters of the namespace to a bundle, and the objects of Drover itself. Failed
// reads are listed in the bundle.
func (r *Reader) Collect(ctx context.Context, names []string, out *supportbundle.Input) {
	if out.Texts == nil {
		out.Texts = map[string]string{}
	}
	for _, name := range names {
		if one := (supportbundle.Cluster{Namespace: r.namespace, Name: name}); !slices.Contains(out.Clusters, one) {
			out.Clusters = append(out.Clusters, one)
		}
	}
	c := &collector{Reader: r, ctx: ctx, out: out, seen: map[string]bool{}, failed: map[string]bool{}}
	for _, object := range out.Objects {
		c.seen[identity(object)] = true
	}
	if _, done := out.Texts[definitionsFile]; !done {
		c.system()
		c.clusterScoped()
	}
	c.clusters(names)
	slices.Sort(out.Unread)
	out.Unread = slices.Compact(out.Unread)
}

// identity identifies an object.
func identity(object *unstructured.Unstructured) string {
	return object.GroupVersionKind().GroupKind().String() + " " + object.GetNamespace() + "/" + object.GetName()
}

// note records a failed read.
func (c *collector) note(what string, err error) {
	if err != nil && !apierrors.IsNotFound(err) && !c.failed[what] {
		c.failed[what] = true
		c.out.Unread = append(c.out.Unread, what+": "+err.Error())
	}
}

func (c *collector) add(objects ...*unstructured.Unstructured) {
	for _, object := range objects {
		if id := identity(object); !c.seen[id] {
			c.seen[id] = true
			c.out.Objects = append(c.out.Objects, object)
		}
	}
}

// list reads the objects of a kind in a namespace, or all objects of a cluster-scoped kind.
func (c *collector) list(resource schema.GroupVersionResource, namespace, selector string) []*unstructured.Unstructured {
	list, err := c.live.Resource(resource).Namespace(namespace).List(c.ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		c.note(resource.GroupResource().String()+" in "+namespace, err)
		return nil
	}
	out := make([]*unstructured.Unstructured, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

func resource(group, version, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
}

// system reads the server's own objects: its lease, settings, pods, logs and metrics.
func (c *collector) system() {
	const namespace = controllers.SettingsNamespace
	c.add(c.list(resource("coordination.k8s.io", "v1", "leases"), namespace, "")...)
	c.add(c.list(resource("", "v1", "configmaps"), namespace, controllers.SettingsLabel+"=true")...)
	c.add(c.list(resource("", "v1", "events"), namespace, "")...)
	c.add(c.list(resource("apps", "v1", "deployments"), namespace, "")...)
	pods := c.list(resource("", "v1", "pods"), namespace, podsOfDrover)
	c.add(pods...)
	// The recipient of the bundle may lack permission to know other clusters.
	all, err := c.Clusters("")
	if err != nil {
		c.note("logs and metrics of Drover, in which lines about other clusters cannot be told apart", err)
		return
	}
	var others []supportbundle.Cluster
	for _, cluster := range all {
		if one := (supportbundle.Cluster{Namespace: cluster[0], Name: cluster[1]}); !slices.Contains(c.out.Clusters, one) {
			others = append(others, one)
		}
	}
	before := maps.Clone(c.out.Texts)
	for _, pod := range pods {
		c.logs(pod)
		c.metrics(pod)
	}
	for path, text := range c.out.Texts {
		if _, told := before[path]; !told {
			c.out.Texts[path] = supportbundle.About(text, c.out.Clusters, others)
		}
	}
}

// logs reads the logs of a pod's current and previous containers.
func (c *collector) logs(pod *unstructured.Unstructured) {
	list, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers") // no containers: no logs
	for _, entry := range list {
		described, _ := entry.(map[string]any)
		name, _ := described["name"].(string)
		for _, previous := range []bool{false, true} {
			text, err := c.log(pod.GetNamespace(), pod.GetName(), name, previous)
			path := "logs/" + pod.GetNamespace() + "/" + pod.GetName() + "/" + name
			if previous {
				path += ".previous"
			} else {
				c.note("logs of pod "+pod.GetNamespace()+"/"+pod.GetName(), err)
			}
			if err == nil && text != "" {
				c.out.Texts[path+".log"] = text
			}
		}
	}
}

func (c *collector) log(namespace, pod, container string, previous bool) (string, error) {
	stream, err := c.clients.Kubernetes.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: new(int64(logLines)), LimitBytes: new(int64(logBytes)), Timestamps: true,
	}).Stream(c.ctx)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	data, err := io.ReadAll(io.LimitReader(stream, logBytes))
	return string(data), err
}

// metrics reads the metrics of a server's pod through the API server, from the port named health.
func (c *collector) metrics(pod *unstructured.Unstructured) {
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	for _, entry := range containers {
		described, _ := entry.(map[string]any)
		ports, _ := described["ports"].([]any)
		for _, port := range ports {
			p, _ := port.(map[string]any)
			number, _ := p["containerPort"].(int64)
			if p["name"] != "health" {
				continue
			}
			data, err := c.clients.Kubernetes.CoreV1().Pods(pod.GetNamespace()).ProxyGet("http", pod.GetName(), strconv.FormatInt(number, 10), "metrics", nil).DoRaw(c.ctx)
			c.note("metrics of pod "+pod.GetNamespace()+"/"+pod.GetName(), err)
			if err == nil {
				c.out.Texts["metrics/"+pod.GetName()+".txt"] = string(data)
			}
		}
	}
}

// clusterScoped reads node drivers and their schemas, and the versions of the definitions.
func (c *collector) clusterScoped() {
	c.add(c.list(resource("management.cattle.io", "v3", "nodedrivers"), "", "")...)
	c.add(c.list(resource("management.cattle.io", "v3", "dynamicschemas"), "", "")...)
	var lines []string
	for _, crd := range c.list(resource("apiextensions.k8s.io", "v1", "customresourcedefinitions"), "", "") {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group") // no group: not ours
		if !slices.Contains(groups, group) {
			continue
		}
		stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions") // may be empty
		labels := make([]string, 0, len(crd.GetLabels()))
		for _, key := range slices.Sorted(maps.Keys(crd.GetLabels())) {
			labels = append(labels, key+"="+crd.GetLabels()[key])
		}
		lines = append(lines, fmt.Sprintf("%s generation %d, stored %s, %s", crd.GetName(), crd.GetGeneration(), strings.Join(stored, ","), strings.Join(labels, " ")))
	}
	c.out.Texts[definitionsFile] = strings.Join(lines, "\n") + "\n"
}

// kindsOfClusters are the kinds in a cluster's namespace that can belong to it. The kinds of node drivers are not
// included.
var kindsOfClusters = []schema.GroupVersionResource{
	resource("provisioning.cattle.io", "v1", "clusters"),
	resource("rke.cattle.io", "v1", "rkeclusters"), resource("rke.cattle.io", "v1", "rkecontrolplanes"), resource("rke.cattle.io", "v1", "rkebootstraps"),
	resource("rke.cattle.io", "v1", "rkebootstraptemplates"), resource("rke.cattle.io", "v1", "custommachines"), resource("rke.cattle.io", "v1", "etcdsnapshots"),
	resource("cluster.x-k8s.io", "v1beta2", "clusters"), resource("cluster.x-k8s.io", "v1beta2", "machinedeployments"), resource("cluster.x-k8s.io", "v1beta2", "machinesets"),
	resource("cluster.x-k8s.io", "v1beta2", "machines"), resource("cluster.x-k8s.io", "v1beta2", "machinehealthchecks"),
	resource("batch", "v1", "jobs"), resource("", "v1", "pods"), resource("", "v1", "secrets"), resource("", "v1", "configmaps"), resource("", "v1", "serviceaccounts"),
}

func (c *collector) clusters(names []string) {
	var all []*unstructured.Unstructured
	for _, kind := range slices.Concat(kindsOfClusters, c.driverKinds()) {
		all = append(all, c.list(kind, c.namespace, "")...)
	}
	mine := related(all, names)
	for _, object := range mine {
		c.add(object)
		switch {
		case object.GetKind() == "Pod" && object.GetLabels()[batchv1.JobNameLabel] != "":
			c.logs(object)
		case object.GetKind() == "Cluster" && object.GroupVersionKind().Group == "provisioning.cattle.io":
			c.management(object)
		}
	}
	c.referred(mine)
	for _, event := range c.list(resource("", "v1", "events"), c.namespace, "") {
		kind, _, _ := unstructured.NestedString(event.Object, "involvedObject", "kind") // may be empty
		name, _, _ := unstructured.NestedString(event.Object, "involvedObject", "name")
		if slices.ContainsFunc(mine, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name }) {
			c.add(event)
		}
	}
}

// management reads the management Cluster of a Cluster, and its registration tokens.
func (c *collector) management(cluster *unstructured.Unstructured) {
	name, _, _ := unstructured.NestedString(cluster.Object, "status", "clusterName") // may be empty
	if name == "" {
		return
	}
	object, err := c.live.Resource(resource("management.cattle.io", "v3", "clusters")).Get(c.ctx, name, metav1.GetOptions{})
	c.note("management cluster "+name, err)
	if err == nil {
		c.add(object)
	}
	c.add(c.list(resource("management.cattle.io", "v3", "clusterregistrationtokens"), name, "")...)
	// Secrets hold the values of tokens. Collect reads them so that the bundle can mask these values everywhere.
	c.add(c.list(resource("", "v1", "secrets"), name, "")...)
}

// driverKinds returns the served kinds of node drivers.
func (c *collector) driverKinds() []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for _, group := range []string{driverschema.ConfigGroup, driverschema.MachineGroup} {
		list, err := c.clients.Kubernetes.Discovery().ServerResourcesForGroupVersion(group + "/v1")
		if err != nil {
			c.note("kinds of "+group, err)
			continue
		}
		for i := range list.APIResources {
			if name := list.APIResources[i].Name; !strings.Contains(name, "/") {
				out = append(out, resource(group, "v1", name))
			}
		}
	}
	return out
}
