package ui

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/rival"
	"github.com/drover-io/drover/pkg/operate/credential"
)

// administrationBody has parts that fail for themselves: most users may read only some of them.
type administrationBody struct {
	Drivers            part[driverBody]     `json:"drivers"`
	Credentials        part[credentialBody] `json:"credentials"`
	RegistrationTokens part[tokenBody]      `json:"registrationTokens"`
	Leader             leaderBody           `json:"leader"`
	Versions           versionsBody         `json:"versions"`
}

// part is a list, or why it cannot be read.
type part[T any] struct {
	Items  []T    `json:"items,omitzero"`
	Error  string `json:"error,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// driverBody is a NodeDriver.
type driverBody struct {
	Name        string                   `json:"name"`
	DisplayName string                   `json:"displayName"`
	Active      bool                     `json:"active"`
	Builtin     bool                     `json:"builtin"`
	URL         string                   `json:"url"`
	Conditions  []rkev1.GenericCondition `json:"conditions"`
}

// credentialBody is a cloud credential without its values.
type credentialBody struct {
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	// Driver is empty if the Secret has no values.
	Driver string `json:"driver"`
	// UsedBy are Clusters that the caller may list, as NAMESPACE/NAME.
	UsedBy []string `json:"usedBy"`
}

// tokenBody is a ClusterRegistrationToken without the token.
type tokenBody struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Cluster   string    `json:"cluster"`
	Created   time.Time `json:"created"`
	// Expires is null for a token that is not replaced.
	Expires *time.Time `json:"expires"`
	Roles   []string   `json:"roles"`
	// Uses are the hosts that a token with a limit has admitted.
	Uses int `json:"uses"`
}

// leaderBody is the replica that leads.
type leaderBody struct {
	Holder  string     `json:"holder,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	Renewed *time.Time `json:"renewed,omitempty"`
	Error   string     `json:"error,omitempty"`
	Reason  string     `json:"reason,omitempty"`
}

// versionsBody has the versions of what runs.
type versionsBody struct {
	Drover     string        `json:"drover"`
	Kubernetes string        `json:"kubernetes,omitempty"`
	Replicas   []replicaBody `json:"replicas"`
	Error      string        `json:"error,omitempty"`
	Reason     string        `json:"reason,omitempty"`
}

// replicaBody is a replica of Drover.
type replicaBody struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// partOf returns a list, or why it cannot be read.
func partOf[T any](items []T, err error) part[T] {
	if err != nil {
		known := failureOf(err)
		return part[T]{Error: known.message, Reason: known.reason}
	}
	if items == nil {
		items = []T{}
	}
	return part[T]{Items: items}
}

func (u *ui) getAdministration(w http.ResponseWriter, r *http.Request, c *caller) error {
	ctx := r.Context()
	body := administrationBody{
		Drivers:            partOf(u.drivers(ctx, c)),
		Credentials:        partOf(u.credentials(ctx, c)),
		RegistrationTokens: partOf(u.registrationTokens(ctx, c)),
		Leader:             u.leader(ctx, c),
		Versions:           u.versions(ctx, c),
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

func (u *ui) drivers(ctx context.Context, c *caller) ([]driverBody, error) {
	client, err := u.kinds.Client(c.config, mgmtv3.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	found := &mgmtv3.NodeDriverList{}
	if err := list(ctx, client, "", "nodedrivers", metav1.ListOptions{}, found); err != nil {
		return nil, err
	}
	var out []driverBody
	for i := range found.Items {
		driver := &found.Items[i]
		out = append(out, driverBody{driver.Name, driver.Spec.DisplayName, driver.Spec.Active, driver.Spec.Builtin,
			redact.Address(driver.Spec.URL), append([]rkev1.GenericCondition{}, driver.Status.Conditions...)})
	}
	return out, nil
}

// credentials lists cloud credentials. The values of the Secrets stay here, except that the name of a key tells the
// driver.
func (u *ui) credentials(ctx context.Context, c *caller) ([]credentialBody, error) {
	client, err := u.kinds.Client(c.config, corev1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	ofType := fields.OneTermEqualSelector("type", provv1.SecretTypeCloudCredential).String()
	found := &corev1.SecretList{}
	if err := list(ctx, client, "", "secrets", metav1.ListOptions{FieldSelector: ofType}, found); err != nil {
		// Most users may read the Secrets of the namespace for credentials only.
		if list(ctx, client, provv1.GlobalDataNamespace, "secrets", metav1.ListOptions{FieldSelector: ofType},
			found) != nil {
			return nil, err
		}
	}
	used := u.usesOfCredentials(ctx, c)
	var out []credentialBody
	for i := range found.Items {
		secret := &found.Items[i]
		users := used[types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}]
		out = append(out, credentialBody{secret.Namespace, secret.Name,
			secret.Annotations[credential.DisplayNameAnnotation], credential.DriverOf(secret),
			append([]string{}, users...)})
	}
	return out, nil
}

// usesOfCredentials returns the Clusters that use each credential. A caller who may not list all Clusters sees none.
func (u *ui) usesOfCredentials(ctx context.Context, c *caller) map[types.NamespacedName][]string {
	client, err := u.kinds.Client(c.config, provv1.SchemeGroupVersion)
	if err != nil {
		return nil
	}
	clusters := &provv1.ClusterList{}
	if list(ctx, client, "", "clusters", metav1.ListOptions{}, clusters) != nil {
		return nil
	}
	out := map[types.NamespacedName][]string{}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		for _, reference := range topology.Credentials(cluster) {
			namespace, name := topology.CredentialSecret(cluster.Namespace, reference)
			secret := types.NamespacedName{Namespace: namespace, Name: name}
			out[secret] = append(out[secret], cluster.Namespace+"/"+cluster.Name)
		}
	}
	return out
}

func (u *ui) registrationTokens(ctx context.Context, c *caller) ([]tokenBody, error) {
	client, err := u.kinds.Client(c.config, mgmtv3.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	found := &mgmtv3.ClusterRegistrationTokenList{}
	if err := list(ctx, client, "", "clusterregistrationtokens", metav1.ListOptions{}, found); err != nil {
		return nil, err
	}
	var out []tokenBody
	for i := range found.Items {
		token := &found.Items[i]
		out = append(out, tokenBody{token.Namespace, token.Name, token.Spec.ClusterName, token.CreationTimestamp.UTC(),
			parseTime(time.RFC3339, token.Status.ExpiresAt), append([]string{}, token.Spec.Roles...),
			len(token.Status.Hosts)})
	}
	return out, nil
}

func (u *ui) leader(ctx context.Context, c *caller) leaderBody {
	client, err := c.kubernetes()
	if err != nil {
		return leaderBody{Error: err.Error(), Reason: reasonInternal}
	}
	lease, err := client.CoordinationV1().Leases(rival.DroverNamespace).Get(ctx, rival.DroverLease, metav1.GetOptions{})
	if err != nil {
		known := failureOf(err)
		return leaderBody{Error: known.message, Reason: known.reason}
	}
	var out leaderBody
	if lease.Spec.HolderIdentity != nil {
		out.Holder = *lease.Spec.HolderIdentity
	}
	if at := lease.Spec.AcquireTime; at != nil {
		out.Since = &at.Time
	}
	if at := lease.Spec.RenewTime; at != nil {
		out.Renewed = &at.Time
	}
	return out
}

func (u *ui) versions(ctx context.Context, c *caller) versionsBody {
	out := versionsBody{Drover: cmp.Or(u.opts.Version, "dev"), Replicas: []replicaBody{}}
	client, err := c.kubernetes()
	if err != nil {
		out.Error, out.Reason = err.Error(), reasonInternal
		return out
	}
	if version, err := client.Discovery().ServerVersion(); err == nil {
		out.Kubernetes = version.GitVersion
	}
	leases, err := client.CoordinationV1().Leases(rival.DroverNamespace).List(ctx,
		metav1.ListOptions{LabelSelector: rival.ReplicaLabel})
	if err != nil {
		known := failureOf(err)
		out.Error, out.Reason = known.message, known.reason
		return out
	}
	for i := range leases.Items {
		out.Replicas = append(out.Replicas, replicaBody{Name: leases.Items[i].Name})
	}
	slices.SortFunc(out.Replicas, func(a, b replicaBody) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
