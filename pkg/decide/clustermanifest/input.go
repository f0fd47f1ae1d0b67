package clustermanifest

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// Input is everything a manifest depends on. Two equal inputs give byte-identical manifests.
type Input struct {
	// ServerURL is the https URL of the server, without a path.
	ServerURL string
	// CAChecksum is the SHA-256 by which the agent recognizes the server's authorities, in hexadecimal. Empty when the
	// system trusts them.
	CAChecksum string
	// Token is the registration token. Only one Secret contains it.
	Token string
	// Namespace is the name of the management cluster, or empty in a manifest that a user applies. It is part of the
	// credential's name.
	Namespace string
	// Image is the agent's image: Drover's own.
	Image string
	// Registry is the private registry of the cluster, for the agent's information; empty for none. Image already
	// contains it.
	Registry string
	// PullSecrets pull Image, in addition to the credentials of the nodes.
	PullSecrets []PullSecret
	// Environment is added to the agent's environment. It cannot set the variables that the agent depends on.
	Environment []corev1.EnvVar
	// Customization is the user's customization of the Deployment; nil for none.
	Customization *provv1.AgentDeploymentCustomization
	// HostNetwork lets the agent run before the cluster has its own network, and before nodes are ready.
	HostNetwork bool
}

// PullSecret is a credential for pulling images. It prints as a mask.
type PullSecret struct {
	// Name is the name of the source Secret.
	Name string
	// DockerConfigJSON is the content of a Secret of type kubernetes.io/dockerconfigjson.
	DockerConfigJSON []byte
}

// pullSecretOf reads a Secret. The problem says why the Secret is unusable.
func pullSecretOf(secret *corev1.Secret) (found PullSecret, problem string) {
	if secret.Type != corev1.SecretTypeDockerConfigJson || len(secret.Data[corev1.DockerConfigJsonKey]) == 0 {
		return PullSecret{}, "A pull secret of the default registry must have type " +
			string(corev1.SecretTypeDockerConfigJson)
	}
	return PullSecret{Name: secret.Name, DockerConfigJSON: secret.Data[corev1.DockerConfigJsonKey]}, ""
}

// String hides the content.
func (p PullSecret) String() string { return "PullSecret{" + p.Name + "}" }

// GoString hides the content.
func (p PullSecret) GoString() string { return p.String() }

// String hides the token.
func (in Input) String() string { return "Input{" + in.ServerURL + " " + in.Namespace + "}" }

// GoString hides the token.
func (in Input) GoString() string { return in.String() }

// For returns the agent's input as the management cluster describes it. image is without a registry, and registry
// applies to clusters that name none. The caller adds the URL, the checksum and the token.
func For(cluster *mgmtv3.Cluster, image, registry string) Input {
	registry = cmp.Or(cluster.Spec.ClusterSecrets.PrivateRegistryURL, registry)
	return Input{
		Image: naming.ImageIn(registry, image), Registry: registry,
		Environment: cluster.Spec.AgentEnvVars, Customization: cluster.Spec.ClusterAgentDeploymentCustomization,
	}
}

var checksum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// check returns what is wrong with an input, and what would be right. The error never contains the token.
func (in Input) check() error {
	var problems []error
	if server, err := url.Parse(in.ServerURL); err != nil || server.Scheme != "https" || server.Host == "" ||
		strings.Trim(server.Path, "/") != "" {
		problems = append(problems,
			fmt.Errorf("server-url must be an https URL without a path, such as https://drover.example.com, not %q",
				redact.Address(in.ServerURL)))
	}
	if in.CAChecksum != "" && !checksum.MatchString(in.CAChecksum) {
		problems = append(problems,
			fmt.Errorf("the checksum of the authorities must be a SHA-256 in lower case, not %q", in.CAChecksum))
	}
	if in.Token == "" || strings.ContainsAny(in.Token, " \t\r\n") {
		problems = append(problems, errors.New("the registration token must be one word"))
	}
	if problem := in.checkImage(); problem != nil {
		problems = append(problems, problem)
	}
	for i, variable := range in.Environment {
		if wrong := validation.IsEnvVarName(variable.Name); len(wrong) > 0 {
			problems = append(problems, fmt.Errorf("spec.agentEnvVars[%d].name: %q must be the name of a variable: %s",
				i, redact.Variable(variable.Name), strings.Join(wrong, "; ")))
		}
	}
	return errors.Join(append(problems, in.checkBudget())...)
}

func (in Input) checkImage() error {
	_, err := name.ParseReference(in.Image, name.WeakValidation)
	registry := strings.TrimRight(in.Registry, "/")
	switch {
	// The registry matters only when the image is in it.
	case registry != "" && strings.HasPrefix(in.Image, registry+"/") && !naming.IsRegistry(registry):
		return fmt.Errorf("system-default-registry %s, not %q", naming.RegistryForm, redact.Address(in.Registry))
	case err == nil:
		return nil
	default:
		return fmt.Errorf("the agent's image must be a reference such as drover-io/drover:v1.0.0, not %q",
			redact.Address(in.Image))
	}
}

func (in Input) checkBudget() error {
	const field = "spec.clusterAgentDeploymentCustomization.schedulingCustomization.podDisruptionBudget"
	budget := in.scheduling().PodDisruptionBudget
	if budget == nil {
		return nil
	}
	if set(budget.MinAvailable) && set(budget.MaxUnavailable) {
		return fmt.Errorf("%s: set minAvailable or maxUnavailable, not both", field)
	}
	for child, value := range map[string]string{"minAvailable": budget.MinAvailable,
		"maxUnavailable": budget.MaxUnavailable} {
		if value != "" && !amount.MatchString(value) {
			return fmt.Errorf("%s.%s: %q must be a number or a percentage", field, child, value)
		}
	}
	return nil
}

var amount = regexp.MustCompile(`^[0-9]{1,5}%?$`)

// set reports whether the user gave an amount of a budget. User interfaces write 0 for an unused amount.
func set(amount string) bool { return amount != "" && amount != "0" && amount != "0%" }

func (in Input) customization() provv1.AgentDeploymentCustomization {
	if in.Customization == nil {
		return provv1.AgentDeploymentCustomization{}
	}
	return *in.Customization
}

func (in Input) scheduling() provv1.AgentSchedulingCustomization {
	if custom := in.customization().SchedulingCustomization; custom != nil {
		return *custom
	}
	return provv1.AgentSchedulingCustomization{}
}
