package memkube

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// filter selects objects by namespace, labels and fields. It can select any field by its path.
type filter struct {
	namespace string
	labels    labels.Selector
	fields    fields.Requirements
}

func newFilter(r *Request) (filter, error) {
	selector, err := labels.Parse(r.query.Get("labelSelector"))
	if err != nil {
		return filter{}, apierrors.NewBadRequest("labelSelector: " + err.Error())
	}
	field, err := fields.ParseSelector(r.query.Get("fieldSelector"))
	if err != nil {
		return filter{}, apierrors.NewBadRequest("fieldSelector: " + err.Error())
	}
	return filter{namespace: r.Namespace, labels: selector, fields: field.Requirements()}, nil
}

func (f filter) matches(obj *unstructured.Unstructured) bool {
	if f.namespace != "" && f.namespace != obj.GetNamespace() {
		return false
	}
	if !f.labels.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	for _, requirement := range f.fields {
		value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, strings.Split(requirement.Field, ".")...)
		text := ""
		if value != nil {
			text = fmt.Sprint(value)
		}
		if (text == requirement.Value) == (requirement.Operator == "!=") {
			return false
		}
	}
	return true
}
