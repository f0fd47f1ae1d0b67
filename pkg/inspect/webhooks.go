package inspect

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/diagnose"
	"github.com/drover-io/drover/pkg/driverschema"
)

// groups are those whose objects have to be written for a cluster.
var groups = []string{
	provv1.SchemeGroupVersion.Group, rkev1.SchemeGroupVersion.Group, mgmtv3.SchemeGroupVersion.Group, driverschema.ConfigGroup, driverschema.MachineGroup,
	clusterv1.GroupVersion.Group,
}

// webhook is one of either kind, as far as it matters here.
type webhook struct {
	name    string
	failure *admissionv1.FailurePolicyType
	service *admissionv1.ServiceReference
	rules   []admissionv1.RuleWithOperations
}

// webhooks reads which webhooks the API server has to ask and that cannot answer, because their Service has no pods.
func (g *gatherer) webhooks() error {
	var all []webhook
	validating, err := g.clients.Kubernetes.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(g.ctx, metav1.ListOptions{})
	if err != nil {
		return g.may("webhooks", err)
	}
	for i := range validating.Items {
		for _, hook := range validating.Items[i].Webhooks {
			all = append(all, webhook{"ValidatingWebhookConfiguration " + validating.Items[i].Name + ", " + hook.Name, hook.FailurePolicy, hook.ClientConfig.Service, hook.Rules})
		}
	}
	mutating, err := g.clients.Kubernetes.AdmissionregistrationV1().MutatingWebhookConfigurations().List(g.ctx, metav1.ListOptions{})
	if err != nil {
		return g.may("webhooks", err)
	}
	for i := range mutating.Items {
		for _, hook := range mutating.Items[i].Webhooks {
			all = append(all, webhook{"MutatingWebhookConfiguration " + mutating.Items[i].Name + ", " + hook.Name, hook.FailurePolicy, hook.ClientConfig.Service, hook.Rules})
		}
	}
	for _, hook := range all {
		ready, err := g.answers(hook)
		if err != nil {
			return err
		}
		if !ready {
			g.w.Webhooks = append(g.w.Webhooks, diagnose.Webhook{
				Name: hook.name, Problem: "Service " + hook.service.Namespace + "/" + hook.service.Name + " has no ready endpoint",
			})
		}
	}
	return nil
}

// answers reports that a webhook does not stand in the way of objects of ours, as far as can be seen.
func (g *gatherer) answers(hook webhook) (bool, error) {
	ignored := hook.failure != nil && *hook.failure == admissionv1.Ignore
	if ignored || hook.service == nil || !slices.ContainsFunc(hook.rules, concerns) {
		return true, nil
	}
	endpoints, err := g.clients.Kubernetes.DiscoveryV1().EndpointSlices(hook.service.Namespace).List(g.ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + hook.service.Name})
	if err != nil {
		return true, g.may("endpointslices", err)
	}
	return hasReady(endpoints.Items), nil
}

func concerns(rule admissionv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rule.APIGroups, func(group string) bool { return group == "*" || slices.Contains(groups, group) })
}

func hasReady(list []discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(list, func(slice discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready })
	})
}
