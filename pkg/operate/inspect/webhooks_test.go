package inspect

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// A webhook blocks a cluster only if the API server calls it for objects of the cluster.
func TestWebhook_ConcernsObjectsOfClusters(t *testing.T) {
	selector := func(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator,
			Values: values}}}
	}
	for name, tc := range map[string]struct {
		group, resource     string
		namespaces, objects *metav1.LabelSelector
		want                bool
	}{
		"everything":                       {group: "*", resource: "*", want: true},
		"all kinds and their subresources": {group: "*", resource: "*/*", want: true},
		"a group of Drover":                {group: "rke.cattle.io", resource: "*", want: true},
		"a kind of Drover":                 {group: "cluster.x-k8s.io", resource: "machines", want: true},
		"the status of that kind":          {group: "cluster.x-k8s.io", resource: "machines/status", want: true},
		"the scale of that kind":           {group: "cluster.x-k8s.io", resource: "machinedeployments/scale"},
		"clusters of any group":            {group: "*", resource: "clusters", want: true},
		"machines of a driver":             {group: "*", resource: "simmachines", want: true},
		"pods of any group":                {group: "*", resource: "pods"},
		"another group":                    {group: "apps", resource: "*"},
		"namespaces of others": {group: "*", resource: "*",
			namespaces: selector("team", metav1.LabelSelectorOpIn, "b")},
		"this namespace": {group: "*", resource: "*",
			namespaces: selector("team", metav1.LabelSelectorOpIn, "a"), want: true},
		"all namespaces but the system": {group: "*", resource: "*",
			namespaces: selector("system", metav1.LabelSelectorOpDoesNotExist), want: true},
		"objects that opt in": {group: "*", resource: "*",
			objects: selector("inject", metav1.LabelSelectorOpExists)},
		"objects that do not opt out": {group: "*", resource: "*",
			objects: selector("inject", metav1.LabelSelectorOpDoesNotExist), want: true},
	} {
		hook := webhook{namespaces: tc.namespaces, objects: tc.objects, rules: []admissionv1.RuleWithOperations{{
			Rule: admissionv1.Rule{APIGroups: []string{tc.group}, Resources: []string{tc.resource}},
		}}}
		if got := hook.concerns(labels.Set{"team": "a"}); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	unknown := webhook{namespaces: selector("team", metav1.LabelSelectorOpIn, "b"),
		rules: []admissionv1.RuleWithOperations{{
			Rule: admissionv1.Rule{APIGroups: []string{"*"}, Resources: []string{"*"}},
		}}}
	if !unknown.concerns(nil) {
		t.Error("without permission to read the namespace, the webhook is ignored")
	}
}
