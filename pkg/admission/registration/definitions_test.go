package registration

import (
	"context"
	"encoding/json"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	webhookplugin "k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/cel/environment"

	decisions "github.com/drover-io/drover/pkg/admission"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// The API server calls the webhook only for definitions that it might refuse to delete.
func TestObjects_AskAboutDefinitionsOfClusters(t *testing.T) {
	validating, _ := installed(t)
	compiler := cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	cluster := build.Cluster("demo", build.Pool("all", "ecw", 1))
	cluster.Annotations = map[string]string{protect: "true"}
	for _, group := range []string{
		"provisioning.cattle.io", "rke.cattle.io", "rke-machine.cattle.io", "rke-machine-config.cattle.io",
		"cluster.x-k8s.io", "management.cattle.io",
		"addons.cluster.x-k8s.io", "ipam.cluster.x-k8s.io", "cert-manager.io",
	} {
		kind := "SimMachine"
		if group == "management.cattle.io" {
			kind = "NodeDriver"
		}
		definition := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "sims."+group,
			map[string]any{"group": group, "names": map[string]any{"kind": kind}})
		old, err := json.Marshal(definition)
		check(t, err)
		attributes := admission.NewAttributesRecord(nil, definition, definition.GroupVersionKind(), "",
			definition.GetName(), resourceOf(definition), "", admission.Delete, nil, false, alice)
		answer, err := decisions.Decide(decisions.Request{
			Operation: decisions.Delete, Resource: resourceOf(definition).GroupResource(), Name: definition.GetName(),
			Old:   old,
			Facts: decisions.Facts{Known: true, Clusters: []*provv1.Cluster{cluster}},
		})
		check(t, err)
		asked := false
		for i := range validating.Webhooks {
			if hook := &validating.Webhooks[i]; hook.Name == "definition.admission.drover.io" {
				matcher := webhookplugin.NewValidatingWebhookAccessor("", Name, hook).GetCompiledMatcher(compiler)
				result := matcher.Match(context.Background(), &admission.VersionedAttributes{Attributes: attributes,
					VersionedKind: definition.GroupVersionKind(), VersionedOldObject: definition}, nil, nil)
				check(t, result.Error)
				asked = result.Matches
			}
		}
		if asked == answer.Allowed() {
			t.Errorf("%s: called %t, and the answer is %+v", group, asked, answer)
		}
	}
}
