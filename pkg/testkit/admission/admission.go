// Package admission validates custom resources in process the way an API server does. It prunes fields, drops nulls
// that may not be stored, fills in defaults, and validates the schema, list keys and CEL rules. It uses the API
// server's own packages, so tests with and without an API server get the same result.
package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// Validator validates objects of one version of one definition.
type Validator struct {
	structural *schema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// New returns the validator of the version that the definition stores.
func New(crd *apiextv1.CustomResourceDefinition) (*Validator, error) {
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			return newValidator(version.Schema.OpenAPIV3Schema)
		}
	}
	return nil, fmt.Errorf("definition %s stores no version", crd.Name)
}

func newValidator(props *apiextv1.JSONSchemaProps) (*Validator, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil); err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	structural, err := schema.NewStructural(internal)
	if err != nil {
		return nil, fmt.Errorf("make structural schema: %w", err)
	}
	if errs := schema.ValidateStructural(nil, structural); len(errs) > 0 {
		return nil, fmt.Errorf("validate structural schema: %w", errs.ToAggregate())
	}
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		return nil, fmt.Errorf("make validator: %w", err)
	}
	return &Validator{
		structural: structural,
		schema:     validator,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// Result is what an API server would do with an object.
type Result struct {
	// Stored is the object as it would be stored.
	Stored map[string]any
	// Unknown are the paths of fields outside the schema, sorted. The API server rejects them for strict clients and
	// drops them for others.
	Unknown []string
	// Errors are the reasons to refuse the object.
	Errors field.ErrorList
}

// Create validates the creation of an object. It does not change the object.
func (v *Validator) Create(ctx context.Context, object map[string]any) Result {
	stored, err := decoded(object)
	if err != nil {
		return Result{Errors: field.ErrorList{field.InternalError(nil, err)}}
	}
	opts := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	unknown := pruning.PruneWithOptions(stored, v.structural, true, opts)
	slices.Sort(unknown)
	defaulting.PruneNonNullableNullsWithoutDefaults(stored, v.structural)
	defaulting.Default(stored, v.structural)

	errs := validation.ValidateCustomResource(nil, stored, v.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.structural, stored)...)
	if v.rules != nil && !blocking(errs) {
		found, _ := v.rules.Validate(ctx, nil, v.structural, stored, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, found...)
	}
	return Result{Stored: stored, Unknown: slices.Compact(unknown), Errors: errs}
}

// Update validates a change of a stored object, as an API server of 1.33 or later does. Errors in fields that the
// change does not touch are ignored. It changes neither object.
func (v *Validator) Update(ctx context.Context, old, object map[string]any) Result {
	result := Result{}
	before, err := decoded(old)
	if err == nil {
		result.Stored, err = decoded(object)
	}
	if err != nil {
		return Result{Errors: field.ErrorList{field.InternalError(nil, err)}}
	}
	correlation := common.NewCorrelatedObject(result.Stored, before, &model.Structural{Structural: v.structural})
	result.Errors = validation.ValidateCustomResourceUpdate(nil, result.Stored, before, v.schema,
		validation.WithRatcheting(correlation))
	// If the old object has duplicate keys in any list, the new object may keep duplicates. The API server compares
	// whole objects.
	if len(listtype.ValidateListSetsAndMaps(nil, v.structural, before)) == 0 {
		result.Errors = append(result.Errors, listtype.ValidateListSetsAndMaps(nil, v.structural, result.Stored)...)
	}
	if v.rules != nil && !blocking(result.Errors) {
		found, _ := v.rules.Validate(ctx, nil, v.structural, result.Stored, before, celconfig.RuntimeCELCostBudget,
			cel.WithRatcheting(correlation))
		result.Errors = append(result.Errors, found...)
	}
	return result
}

// blocking reports whether the errors are so severe that an API server evaluates no CEL rules.
func blocking(errs field.ErrorList) bool {
	return slices.ContainsFunc(errs, func(err *field.Error) bool {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
			field.ErrorTypeTypeInvalid:
			return true
		default:
			return false
		}
	})
}

// decoded copies an object into the types that an API server decodes JSON to. Whole numbers become int64.
func decoded(object map[string]any) (map[string]any, error) {
	data, err := utiljson.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	out := map[string]any{}
	err = utiljson.Unmarshal(data, &out)
	return out, err
}

// Messages returns the details of the errors, sorted and without duplicates.
func (r Result) Messages() []string {
	found := map[string]bool{}
	for _, err := range r.Errors {
		found[err.ErrorBody()] = true
	}
	return slices.Sorted(maps.Keys(found))
}
