package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/operate/edit"
)

const (
	// maxObjects is the size in bytes of the largest answer that is passed on.
	maxObjects = 8 << 20
	// longestAnnotation is the size in bytes of the longest annotation of a Secret that is passed on.
	longestAnnotation = 256
)

const asMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
const asMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// passedSubresources are the subresources that are plain objects or logs. The others open connections.
var passedSubresources = []string{"", "status", "scale", "log"}

// passedParameters are the parameters that a request keeps.
var passedParameters = []string{"limit", "continue", "labelSelector", "fieldSelector", "resourceVersion",
	"resourceVersionMatch", "container", "previous", "tailLines", "sinceSeconds", "timestamps", "limitBytes"}

var resolver = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// getObject passes a request to the API server as the caller.
func (u *ui) getObject(w http.ResponseWriter, r *http.Request, c *caller) error {
	path := "/" + r.PathValue("path")
	info, err := mayPass(path, r.URL.Query())
	if err != nil {
		return err
	}
	done, err := u.limits.pass(c.user)
	if err != nil {
		return err
	}
	defer done()
	answer, err := pass(r, c, path, info)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxObjects+1))
	if err != nil {
		return fmt.Errorf("ask the management cluster: %w", &url.Error{Op: r.Method, URL: path, Err: err})
	}
	if len(data) > maxObjects {
		return failure{http.StatusRequestEntityTooLarge, reasonInvalid,
			"the answer is larger than 8 MiB; use parameter limit", 0}
	}
	if answer.StatusCode != http.StatusOK {
		return refused(answer, data)
	}
	if info.Resource == "secrets" && info.APIGroup == "" {
		if data, err = withoutValues(data); err != nil {
			return err
		}
	}
	header := w.Header()
	header.Set("Content-Type", anyJSON)
	if info.Subresource == "log" {
		header.Set("Content-Type", textPlain)
	}
	header.Set("Cache-Control", "no-store")
	_, err = w.Write(data)
	return err
}

// mayPass refuses what is no plain read of an object or a list.
func mayPass(path string, query url.Values) (*request.RequestInfo, error) {
	if query.Has("watch") || query.Has("follow") {
		return nil, invalid("the UI passes no watches on; use the stream")
	}
	info, err := resolver.NewRequestInfo(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
	if err != nil {
		return nil, invalid("the path is not one of the API server")
	}
	switch {
	case !info.IsResourceRequest && !isDiscovery(path):
		return nil, forbidden("the UI passes on only objects, lists and discovery")
	case info.IsResourceRequest && info.Verb != "get" && info.Verb != "list":
		return nil, invalid("the UI passes no watches on; use the stream")
	case !slices.Contains(passedSubresources, info.Subresource):
		return nil, forbidden("the UI does not pass on subresource " + info.Subresource)
	}
	return info, nil
}

// isDiscovery reports whether a path describes the API: /version, or groups, versions and their resources.
func isDiscovery(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch parts[0] {
	case "version":
		return len(parts) == 1
	case "api":
		return len(parts) <= 2
	case "apis":
		return len(parts) <= 3
	}
	return false
}

// pass sends the request.
func pass(r *http.Request, c *caller, path string, info *request.RequestInfo) (*http.Response, error) {
	config := rest.CopyConfig(c.config)
	config.Timeout = callTime
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	target := *base
	target.Path = strings.TrimSuffix(base.Path, "/") + path
	query := url.Values{}
	for _, name := range passedParameters {
		if values := r.URL.Query()[name]; len(values) > 0 {
			query[name] = values
		}
	}
	target.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accepted(info))
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the management cluster: %w", err)
	}
	return answer, nil
}

func accepted(info *request.RequestInfo) string {
	switch {
	case info.Subresource == "log":
		return "*/*"
	case info.Resource != "secrets" || info.APIGroup != "":
		return anyJSON
	case info.Verb == "list":
		return asMetadataList
	}
	return asMetadata
}

// refused converts an answer that is no object.
func refused(answer *http.Response, data []byte) error {
	var status metav1.Status
	message := "the management cluster answered " + answer.Status
	if json.Unmarshal(data, &status) == nil && status.Kind == "Status" && status.Message != "" {
		message = status.Message
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		return unauthorized("the management cluster no longer accepts the token; sign in again")
	case http.StatusForbidden:
		return forbidden(message)
	case http.StatusNotFound:
		return notFound(message)
	case http.StatusTooManyRequests:
		return tooMany(message, time.Second)
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusGone, http.StatusNotAcceptable:
		return invalid(message)
	}
	return failure{http.StatusBadGateway, reasonInternal, message, 0}
}

// withoutValues returns the metadata of Secrets alone. Annotations can repeat values, as kubectl apply does.
func withoutValues(data []byte) ([]byte, error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(data, &kind); err != nil {
		return nil, fmt.Errorf("read the metadata of Secrets: %w", err)
	}
	switch kind.Kind {
	case "PartialObjectMetadata":
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(data, &object); err != nil {
			return nil, fmt.Errorf("read the metadata of a Secret: %w", err)
		}
		trim(&object)
		return json.Marshal(object)
	case "PartialObjectMetadataList":
		var all metav1.PartialObjectMetadataList
		if err := json.Unmarshal(data, &all); err != nil {
			return nil, fmt.Errorf("read the metadata of Secrets: %w", err)
		}
		for i := range all.Items {
			trim(&all.Items[i])
		}
		return json.Marshal(all)
	}
	return nil, failure{http.StatusBadGateway, reasonInternal,
		"the management cluster did not return the metadata alone of a Secret", 0}
}

func trim(object *metav1.PartialObjectMetadata) {
	object.ManagedFields = nil
	for name, value := range object.Annotations {
		if edit.IsCopy(name) || len(value) > longestAnnotation {
			delete(object.Annotations, name)
		}
	}
}
