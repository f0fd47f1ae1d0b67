package admission

import (
	"encoding/json"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/cloudcredential"
	"github.com/drover-io/drover/pkg/releases"
)

// Operation is the operation on an object, as in an AdmissionReview.
type Operation string

// The operations that are reviewed.
const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
	Delete Operation = "DELETE"
)

// Request is one review.
type Request struct {
	Operation Operation
	// Resource is the resource of the request. Subresource is empty for the object itself.
	Resource        schema.GroupResource
	Subresource     string
	Namespace, Name string
	// Old and New are the object before and after, as JSON in the version that the webhook was registered for. Old is
	// empty for Create, New for Delete.
	Old, New []byte
	User     authenticationv1.UserInfo
	// DryRun is true when nothing is stored. Then nothing else may be changed either.
	DryRun bool
	Facts  Facts
}

// Facts are what a rule needs to know in addition to the object. The zero value means that nothing is known.
type Facts struct {
	// InstanceID marks the clusters of this Drover.
	InstanceID string
	// Releases describe Kubernetes versions.
	Releases releases.Table
	// Known means that Clusters and Machines are complete, for all namespaces.
	Known    bool
	Clusters []*provv1.Cluster
	Machines []*clusterv1.Machine
	// Snapshot is the snapshot that NamedBy names, nil if it does not exist. CredentialMissing means that the named
	// Secret does not exist.
	Snapshot          *rkev1.ETCDSnapshot
	CredentialMissing bool
	// CredentialSchema describes the credential that NamedBy names, nil if it is unknown.
	CredentialSchema *cloudcredential.Schema
	// Trust is that of the user, where TrustMatters.
	Trust Trust
}

// Answer is the result of a review. The zero value allows the request.
type Answer struct {
	// Errors are the mistakes in the object: 422 Invalid.
	Errors field.ErrorList
	// Forbidden is why this user may not do this, or not now: 403 Forbidden.
	Forbidden string
	// Warnings are shown to the user, whatever the result is.
	Warnings []string
	// Patches are applied to the object before it is stored, in order. Only Complete returns any.
	Patches []Patch
}

// Patch is one operation of a JSON patch (RFC 6902).
type Patch struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Allowed reports whether the request may pass.
func (a Answer) Allowed() bool { return len(a.Errors) == 0 && a.Forbidden == "" }

func (a *Answer) refuse(errs ...*field.Error) { a.Errors = append(a.Errors, errs...) }

func (a *Answer) forbid(reason string) {
	if a.Forbidden == "" {
		a.Forbidden = reason
	}
}

func (a *Answer) warn(text string) { a.Warnings = append(a.Warnings, text) }

// rule is one check or completion, with the requests that it applies to.
type rule struct {
	resource    schema.GroupResource
	subresource string
	operations  []Operation
	decide      func(r Request, a *Answer) error
}

func (r rule) matches(request Request) bool {
	return r.resource == request.Resource && r.subresource == request.Subresource &&
		slices.Contains(r.operations, request.Operation)
}

// Resources that the rules are for.
var (
	clusters    = schema.GroupResource{Group: "provisioning.cattle.io", Resource: "clusters"}
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	deployments = schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machinedeployments"}
	drivers     = schema.GroupResource{Group: "management.cattle.io", Resource: "nodedrivers"}
	namespaces  = schema.GroupResource{Resource: "namespaces"}
	secrets     = schema.GroupResource{Resource: "secrets"}
)

// rules are the checks of Decide. All that match apply.
var rules = []rule{
	{resource: clusters, operations: []Operation{Create, Update}, decide: checkCluster},
	{resource: clusters, operations: []Operation{Create, Update}, decide: warnAboutKeys},
	{resource: clusters, operations: []Operation{Update}, decide: checkRestore},
	{resource: clusters, operations: []Operation{Create, Update}, decide: checkSnapshotCredential},
	{resource: namespaces, operations: []Operation{Delete}, decide: protectNamespace},
	{resource: definitions, operations: []Operation{Delete}, decide: protectDefinition},
	{resource: drivers, operations: []Operation{Update, Delete}, decide: protectUsedDriver},
	{resource: secrets, operations: []Operation{Create, Update}, decide: checkPlan},
	{resource: secrets, operations: []Operation{Create, Update}, decide: checkCredentialKeys},
	{resource: deployments, subresource: "scale", operations: []Operation{Update}, decide: warnAboutScaling},
}

// completions are the changes of Complete. All that match apply, in order.
var completions = []rule{
	{resource: clusters, operations: []Operation{Update}, decide: restoreSchemas},
	{resource: clusters, operations: []Operation{Create}, decide: created},
	{resource: secrets, operations: []Operation{Create}, decide: createdCredential},
}

// Decide returns whether a request may pass, and the warnings for its user. It fails if it cannot read the objects.
func Decide(r Request) (Answer, error) { return apply(rules, r) }

// Complete returns the patches of an object. It refuses nothing.
func Complete(r Request) (Answer, error) { return apply(completions, r) }

func apply(list []rule, r Request) (Answer, error) {
	var a Answer
	for _, rule := range list {
		if !rule.matches(r) {
			continue
		}
		if err := rule.decide(r, &a); err != nil {
			return Answer{}, err
		}
	}
	return a, nil
}

// decode reads an object. It returns nil for empty data.
func decode[T any](data []byte) (*T, error) {
	if len(data) == 0 {
		return nil, nil
	}
	object := new(T)
	if err := json.Unmarshal(data, object); err != nil {
		return nil, fmt.Errorf("read the reviewed object: %w", err)
	}
	return object, nil
}

// decodeBoth reads the object before and after.
func decodeBoth[T any](r Request) (before, after *T, err error) {
	if before, err = decode[T](r.Old); err != nil {
		return nil, nil, err
	}
	after, err = decode[T](r.New)
	return before, after, err
}
