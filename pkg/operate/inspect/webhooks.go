package inspect

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/admission/registration"
	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/operate/diagnose"
)

// groups are the API groups of the objects that a cluster needs.
var groups = []string{
	provv1.SchemeGroupVersion.Group, rkev1.SchemeGroupVersion.Group, mgmtv3.SchemeGroupVersion.Group,
	driverschema.ConfigGroup, driverschema.MachineGroup,
	clusterv1.GroupVersion.Group,
}

// webhook has the relevant fields of a validating or mutating webhook.
type webhook struct {
	configuration, name string
	failure             *admissionv1.FailurePolicyType
	client              admissionv1.WebhookClientConfig
	rules               []admissionv1.RuleWithOperations
	namespaces, objects *metav1.LabelSelector
}

// webhooks finds the webhooks that the API server must call and that cannot answer because their Service has no pods.
// It also finds the webhooks of Drover that the API server skips.
func (g *gatherer) webhooks() error {
	var all []webhook
	validating, err := g.clients.Kubernetes.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(g.ctx,
		metav1.ListOptions{})
	if err != nil {
		return g.may("webhooks", err)
	}
	for i := range validating.Items {
		for _, hook := range validating.Items[i].Webhooks {
			all = append(all, webhook{
				validating.Items[i].Name, "ValidatingWebhookConfiguration " + validating.Items[i].Name + ", " +
					hook.Name, hook.FailurePolicy, hook.ClientConfig, hook.Rules,
				hook.NamespaceSelector, hook.ObjectSelector,
			})
		}
	}
	mutating, err := g.clients.Kubernetes.AdmissionregistrationV1().MutatingWebhookConfigurations().List(g.ctx,
		metav1.ListOptions{})
	if err != nil {
		return g.may("webhooks", err)
	}
	for i := range mutating.Items {
		for _, hook := range mutating.Items[i].Webhooks {
			all = append(all, webhook{
				mutating.Items[i].Name, "MutatingWebhookConfiguration " + mutating.Items[i].Name + ", " + hook.Name,
				hook.FailurePolicy, hook.ClientConfig, hook.Rules,
				hook.NamespaceSelector, hook.ObjectSelector,
			})
		}
	}
	namespace := g.namespaceLabels()
	for _, hook := range all {
		if err := g.webhook(hook, namespace); err != nil {
			return err
		}
	}
	return nil
}

func (g *gatherer) webhook(hook webhook, namespace labels.Set) error {
	ignored := hook.failure != nil && *hook.failure == admissionv1.Ignore
	ours := hook.configuration == registration.Name
	if ours && len(hook.client.CABundle) == 0 {
		g.w.Unasked = append(g.w.Unasked,
			diagnose.Webhook{Name: hook.name,
				Problem: "its configuration has no caBundle, which the leading server sets"})
		return nil
	}
	if ignored && !ours || hook.client.Service == nil || !hook.concerns(namespace) {
		return nil
	}
	endpoints, err := g.clients.Kubernetes.DiscoveryV1().EndpointSlices(hook.client.Service.Namespace).List(g.ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + hook.client.Service.Name})
	if err != nil {
		return g.may("endpointslices", err)
	}
	if hasReady(endpoints.Items) {
		return nil
	}
	problem := diagnose.Webhook{Name: hook.name, Problem: "Service " + hook.client.Service.Namespace + "/" +
		hook.client.Service.Name + " has no ready endpoint"}
	if ignored {
		g.w.Unasked = append(g.w.Unasked, problem)
	} else {
		g.w.Webhooks = append(g.w.Webhooks, problem)
	}
	return nil
}

// namespaceLabels returns the labels of the cluster's namespace. It returns nil if they cannot be read, and then every
// selector can match.
func (g *gatherer) namespaceLabels() labels.Set {
	namespace, err := g.clients.Kubernetes.CoreV1().Namespaces().Get(g.ctx, g.namespace, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return labels.Merge(namespace.Labels, labels.Set{corev1.LabelMetadataName: namespace.Name})
}

// concerns reports whether the API server calls the webhook for objects of a cluster in a namespace with these labels.
// It assumes that no foreign selector matches the labels of Drover's objects.
func (w webhook) concerns(namespace labels.Set) bool {
	return (namespace == nil || selects(w.namespaces, namespace)) && selects(w.objects, labels.Set{}) &&
		slices.ContainsFunc(w.rules, concerns)
}

// selects reports whether a selector matches. A nil selector matches everything.
func selects(selector *metav1.LabelSelector, set labels.Set) bool {
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err != nil || parsed.Matches(set)
}

// endings are the endings of the node drivers' resources, whose full names vary.
var endings = []string{"machines", "machinetemplates", "configs"}

// concerns reports whether a rule covers Drover's objects. A rule for all groups must also name one of their resources,
// or all resources.
func concerns(rule admissionv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rule.APIGroups, func(group string) bool {
		return (group == "*" || slices.Contains(groups, group)) &&
			slices.ContainsFunc(rule.Resources, func(resource string) bool {
				name, part, parted := strings.Cut(resource, "/")
				if parted && part != "*" && part != "status" && part != "" {
					return false
				}
				return name == "*" || group != "*" || isOurs(name)
			})
	})
}

func isOurs(name string) bool {
	return slices.ContainsFunc(kindsOfClusters, func(kind schema.GroupVersionResource) bool {
		return kind.Resource == name && slices.Contains(groups, kind.Group)
	}) ||
		slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(name, ending) })
}

func hasReady(list []discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(list, func(slice discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
			return e.Conditions.Ready == nil || *e.Conditions.Ready
		})
	})
}
