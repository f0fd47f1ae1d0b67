package inspect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
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

// Clusters lists all clusters, limited to one namespace if it is not empty.
func (r *Reader) Clusters(namespace string) ([]supportbundle.Cluster, error) {
	list, err := r.clients.Provisioning.Cluster().List(namespace, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	out := make([]supportbundle.Cluster, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, supportbundle.Cluster{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name})
	}
	return out, nil
}

// collector gathers objects for a bundle.
type collector struct {
	*Reader
	ctx context.Context // valid for one call
	out *supportbundle.Input
}

// Collect adds the objects of the named clusters of the namespace to a bundle, and the objects of Drover itself. Failed
// reads are listed in the bundle.
func (r *Reader) Collect(ctx context.Context, names []string, out *supportbundle.Input) {
	c := &collector{Reader: r, ctx: ctx, out: out}
	if _, done := out.Texts[definitionsFile]; !done {
		c.system()
		c.clusterScoped()
	}
	c.clusters(names)
	slices.Sort(out.Unread)
	out.Unread = slices.Compact(out.Unread)
	slices.SortFunc(out.Objects, byIdentity)
	isSame := func(a, b *unstructured.Unstructured) bool { return byIdentity(a, b) == 0 }
	out.Objects = slices.CompactFunc(out.Objects, isSame)
}

func byIdentity(a, b *unstructured.Unstructured) int {
	return cmp.Or(
		strings.Compare(a.GroupVersionKind().GroupKind().String(), b.GroupVersionKind().GroupKind().String()),
		strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()),
	)
}

// note records a failed read.
func (c *collector) note(what string, err error) {
	if err != nil && !apierrors.IsNotFound(err) {
		c.out.Unread = append(c.out.Unread, what+": "+err.Error())
	}
}

func (c *collector) add(objects ...*unstructured.Unstructured) {
	c.out.Objects = append(c.out.Objects, objects...)
}

// list reads the objects of a kind in a namespace, or all objects of a cluster-scoped kind.
func (c *collector) list(resource schema.GroupVersionResource, namespace,
	selector string) []*unstructured.Unstructured {
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
	others, err := c.Clusters("")
	if err != nil {
		c.note("logs and metrics of Drover, because they also contain lines about other clusters", err)
		return
	}
	isChosen := func(one supportbundle.Cluster) bool { return slices.Contains(c.out.Clusters, one) }
	others = slices.DeleteFunc(others, isChosen)
	texts := map[string]string{}
	for _, pod := range pods {
		c.logs(texts, pod)
		c.metrics(texts, pod)
	}
	for path, text := range texts {
		c.out.Texts[path] = supportbundle.About(text, c.out.Clusters, others)
	}
}

// containers returns the containers of a pod, none if it has another form.
func containers(pod *unstructured.Unstructured) []corev1.Container {
	var typed corev1.Pod
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(pod.Object, &typed)
	return typed.Spec.Containers
}

// logs reads the logs of a pod's current and previous containers.
func (c *collector) logs(texts map[string]string, pod *unstructured.Unstructured) {
	name := pod.GetNamespace() + "/" + pod.GetName()
	for _, container := range containers(pod) {
		for suffix, previous := range map[string]bool{".log": false, ".previous.log": true} {
			text, err := c.log(pod.GetNamespace(), pod.GetName(), container.Name, previous)
			if !previous {
				c.note("logs of pod "+name, err)
			}
			if err == nil && text != "" {
				texts["logs/"+name+"/"+container.Name+suffix] = text
			}
		}
	}
}

func (c *collector) log(namespace, pod, container string, previous bool) (string, error) {
	stream, err := c.clients.Kubernetes.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: new(int64(logLines)), LimitBytes: new(int64(logBytes)),
		Timestamps: true,
	}).Stream(c.ctx)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	data, err := io.ReadAll(io.LimitReader(stream, logBytes))
	return string(data), err
}

// metrics reads the metrics of a server's pod through the API server, from the port named health.
func (c *collector) metrics(texts map[string]string, pod *unstructured.Unstructured) {
	for _, container := range containers(pod) {
		for _, port := range container.Ports {
			if port.Name != "health" {
				continue
			}
			data, err := c.clients.Kubernetes.CoreV1().Pods(pod.GetNamespace()).
				ProxyGet("http", pod.GetName(), strconv.Itoa(int(port.ContainerPort)), "metrics", nil).DoRaw(c.ctx)
			c.note("metrics of pod "+pod.GetNamespace()+"/"+pod.GetName(), err)
			if err == nil {
				texts["metrics/"+pod.GetName()+".txt"] = string(data)
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
		lines = append(lines, fmt.Sprintf("%s generation %d, stored %s, %s",
			crd.GetName(), crd.GetGeneration(), strings.Join(stored, ","), labels.Set(crd.GetLabels())))
	}
	c.out.Texts[definitionsFile] = strings.Join(lines, "\n") + "\n"
}

// kindsOfClusters are the kinds in a cluster's namespace that can belong to it. The kinds of node drivers are not
// included.
var kindsOfClusters = []schema.GroupVersionResource{
	resource("provisioning.cattle.io", "v1", "clusters"),
	resource("rke.cattle.io", "v1", "rkeclusters"), resource("rke.cattle.io", "v1", "rkecontrolplanes"),
	resource("rke.cattle.io", "v1", "rkebootstraps"),
	resource("rke.cattle.io", "v1", "rkebootstraptemplates"), resource("rke.cattle.io", "v1", "custommachines"),
	resource("rke.cattle.io", "v1", "etcdsnapshots"),
	resource("cluster.x-k8s.io", "v1beta2", "clusters"), resource("cluster.x-k8s.io", "v1beta2", "machinedeployments"),
	resource("cluster.x-k8s.io", "v1beta2", "machinesets"),
	resource("cluster.x-k8s.io", "v1beta2", "machines"), resource("cluster.x-k8s.io", "v1beta2", "machinehealthchecks"),
	resource("batch", "v1", "jobs"), resource("", "v1", "pods"), resource("", "v1", "secrets"),
	resource("", "v1", "configmaps"), resource("", "v1", "serviceaccounts"),
}

func (c *collector) clusters(names []string) {
	var all []*unstructured.Unstructured
	for _, kind := range slices.Concat(kindsOfClusters, c.driverKinds()) {
		all = append(all, c.list(kind, c.namespace, "")...)
	}
	mine := related(all, names)
	c.add(mine...)
	for _, object := range mine {
		switch {
		case object.GetKind() == "Pod" && object.GetLabels()[batchv1.JobNameLabel] != "":
			c.logs(c.out.Texts, object)
		case object.GetKind() == "Cluster" && object.GroupVersionKind().Group == "provisioning.cattle.io":
			c.management(object)
		}
	}
	c.referred(names)
	for _, event := range c.list(resource("", "v1", "events"), c.namespace, "") {
		kind, _, _ := unstructured.NestedString(event.Object, "involvedObject", "kind") // may be empty
		name, _, _ := unstructured.NestedString(event.Object, "involvedObject", "name")
		if slices.ContainsFunc(mine, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == kind && o.GetName() == name
		}) {
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
	object, err := c.live.Resource(resource("management.cattle.io", "v3", "clusters")).Get(c.ctx, name,
		metav1.GetOptions{})
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
