package ui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/pkg/operate/credential"
	"github.com/drover-io/drover/pkg/operate/diagnose"
	"github.com/drover-io/drover/pkg/operate/inspect"
)

const (
	clusterPath = "namespaces/{namespace}/clusters/{name}/"
	machinePath = "namespaces/{namespace}/machines/{name}/"

	textPlain = "text/plain; charset=utf-8"
	textYAML  = "text/yaml; charset=utf-8"
	anyBytes  = "application/octet-stream"
	gzipTar   = "application/gzip"
	events    = "text/event-stream"
	anyJSON   = "application/json"
)

// requestTime limits requests. A stream has no limit.
const requestTime = time.Minute

// endpoint is a line of the table that routes requests, and from which the OpenAPI document is made.
type endpoint struct {
	method, path, summary string
	// handle answers. Its error becomes the answer, so it writes nothing before an error.
	handle func(u *ui, w http.ResponseWriter, r *http.Request, c *caller) error
	// body is the type of the request's JSON, or a media type as a string; nil for none.
	body any
	// answer is the type of the answer's JSON, or a media type as a string; nil for no content.
	answer any
	query  []parameter
	// headers are what a request needs in addition to a credential.
	headers []parameter
	// isCreated answers with code 201 instead of 200.
	isCreated bool
	// isHeavy applies the limits of heavy requests.
	isHeavy bool
	// isPublic needs no caller.
	isPublic bool
	// isEndless has no limit of time.
	isEndless bool
}

// parameter is one of the query, or a header.
type parameter struct{ name, description string }

// endpoints returns the table.
func endpoints() []endpoint {
	return append(changeEndpoints(), []endpoint{
		{method: "GET", path: "openapi.json", summary: "This document", isPublic: true, answer: anyJSON,
			handle: (*ui).getDocument},
		{method: "GET", path: "v1/session", summary: "Who is signed in", answer: sessionBody{},
			handle: (*ui).getSession},
		{method: "POST", path: "v1/session", summary: "Sign in with a token", isPublic: true, body: signInBody{},
			answer: sessionBody{}, handle: (*ui).postSession},
		{method: "DELETE", path: "v1/session", summary: "Sign out", handle: (*ui).deleteSession},
		{method: "GET", path: "v1/namespaces", summary: "The namespaces to show",
			answer: namespacesBody{}, handle: (*ui).getNamespaces},
		{method: "GET", path: "v1/namespaces/{namespace}/access", summary: "What the caller may do with clusters",
			answer: accessBody{}, handle: (*ui).getAccess},
		{method: "GET", path: "v1/stream", summary: "Rows of clusters and machines, as server-sent events",
			query:  []parameter{{"namespaces", "names with commas between them, or * for all namespaces"}},
			answer: events, isEndless: true, handle: (*ui).getStream},
		{method: "GET", path: "v1/" + clusterPath + "diagnose", summary: "The broken links of a cluster", isHeavy: true,
			answer: diagnose.Report{}, handle: (*ui).getDiagnose},
		{method: "GET", path: "v1/" + clusterPath + "explain", summary: "What the planner does and waits for",
			isHeavy: true, answer: inspect.Explanation{}, handle: (*ui).getExplain},
		{method: "POST", path: "v1/" + clusterPath + "preview", summary: "What an edited manifest would do to machines",
			isHeavy: true, body: textYAML, answer: previewBody{}, handle: postPreview},
		{method: "GET", path: "v1/" + clusterPath + "logs", summary: "The provisioning log", answer: textPlain,
			handle: (*ui).getClusterLog},
		{method: "GET", path: "v1/" + clusterPath + "events", summary: "Events of a cluster and its machines",
			answer: eventsBody{}, handle: (*ui).getEvents},
		{method: "GET", path: "v1/" + clusterPath + "kubeconfig", summary: "A kubeconfig without a credential",
			answer: anyBytes, handle: (*ui).getKubeconfig},
		{method: "GET", path: "v1/" + clusterPath + "supportbundle", summary: "A support bundle without secrets",
			isHeavy: true, answer: gzipTar, handle: (*ui).getSupportBundle},
		{method: "GET", path: "v1/" + clusterPath + "manifest", summary: "The Cluster and its machine configs",
			answer: textYAML, handle: (*ui).getManifest},
		{method: "GET", path: "v1/" + clusterPath + "snapshots", summary: "The etcd snapshots of a cluster",
			answer: snapshotsBody{}, handle: (*ui).getSnapshots},
		{method: "GET", path: "v1/" + clusterPath + "snapshots/{snapshot}/briefing",
			summary: "What a restore of a snapshot would do, and why it is impossible", isHeavy: true,
			query:  []parameter{{"config", "the part of the spec that goes back: none, kubernetesVersion or all"}},
			answer: briefingBody{}, handle: (*ui).getBriefing},
		{method: "GET", path: "v1/" + clusterPath + "operations",
			summary: "The kinds of operations, and the generation of the next request", answer: operationsBody{},
			handle: (*ui).getOperations},
		{method: "GET", path: "v1/" + clusterPath + "registration", summary: "The commands that register a host",
			query: []parameter{{"roles", "etcd, controlplane and worker, with commas between them"},
				{"labels", "KEY=VALUE; can be repeated"}, {"taints", "KEY=VALUE:EFFECT; can be repeated"},
				{"address", "public addresses of the host"}, {"internalAddress", "private addresses of the host"},
				{"nodeName", "name of the node; the default is the host name"}},
			answer: registrationBody{}, handle: (*ui).getRegistration},
		{method: "GET", path: "v1/" + machinePath + "plan", summary: "A summary of a machine's plan",
			answer: planBody{}, handle: (*ui).getPlan},
		{method: "GET", path: "v1/" + machinePath + "logs", summary: "The output of a machine's Job", answer: textPlain,
			handle: (*ui).getMachineLog},
		{method: "GET", path: "v1/administration", summary: "Drivers, credentials, tokens and replicas",
			answer: administrationBody{}, handle: (*ui).getAdministration},
		{method: "GET", path: "v1/drivers", summary: "The active node drivers with their schemas",
			answer: part[activeDriverBody]{}, handle: (*ui).getDrivers},
		{method: "POST", path: "v1/namespaces/{namespace}/credentials", summary: "Create a cloud credential",
			body: credential.Request{}, answer: objectBody{}, isCreated: true, handle: (*ui).postCredential},
		{method: "PUT", path: "v1/namespaces/{namespace}/credentials/{name}",
			summary: "Replace all values of a cloud credential", body: valuesBody{}, answer: objectBody{},
			handle: (*ui).putCredential},
		{method: "GET", path: "v1/k8s/{path...}", summary: "An object or a list of the management cluster",
			answer: anyJSON, handle: (*ui).getObject},
	}...)
}

// route builds the handler of the API.
func (u *ui) route() http.Handler {
	mux := http.NewServeMux()
	protection := http.NewCrossOriginProtection()
	for _, each := range endpoints() {
		mux.Handle(each.method+" "+apiPrefix+each.path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			u.serve(each, w, r)
		}))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := protection.Check(r); err != nil {
			writeFailure(w, forbidden("the UI answers only its own pages"))
			return
		}
		if hasOddPath(r) {
			writeFailure(w, invalid("the path is not valid"))
			return
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			writeFailure(w, notFound("there is no such endpoint, or not with method "+r.Method))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// hasOddPath reports whether a path means different things to different programs.
func hasOddPath(r *http.Request) bool {
	escaped := r.URL.EscapedPath()
	if strings.Contains(escaped, "%") || strings.ContainsAny(escaped, ";\\") {
		return true
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(strings.TrimSuffix(escaped, "/"), "/"), "/") {
		if segment == "" || segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// serve answers a request of one endpoint.
func (u *ui) serve(e endpoint, w http.ResponseWriter, r *http.Request) {
	if err := u.try(e, w, r); err != nil {
		f := failureOf(err)
		if f.reason == reasonInternal && r.Context().Err() == nil { // a browser that leaves is no problem
			u.opts.Log.WithError(err).WithField("endpoint", e.path).Warn("Cannot answer a request of the UI")
		}
		refused, _ := errors.AsType[refusal](err)
		writeFailure(w, f, refused.problems...)
	}
}

func (u *ui) try(e endpoint, w http.ResponseWriter, r *http.Request) error {
	if !e.isEndless {
		ctx, cancel := context.WithTimeout(r.Context(), requestTime)
		defer cancel()
		r = r.WithContext(ctx)
	}
	if e.isPublic {
		return e.handle(u, w, r, nil)
	}
	c, err := u.callerOf(r)
	if err != nil {
		return err
	}
	if err := u.checkCSRF(r, c); err != nil {
		return err
	}
	if err := checkNames(r); err != nil {
		return err
	}
	if err := u.attempts.repeated(c.user, r); err != nil {
		return err
	}
	done, err := u.limits.enter(c.user, e.isHeavy)
	if err != nil {
		return err
	}
	defer done()
	err = e.handle(u, w, r, c)
	if err != nil && (failureOf(err).reason == reasonUnauthorized || apierrors.IsUnauthorized(err)) {
		u.callers.forget(c.id)
	}
	return err
}

// checkCSRF requires the proof of a page for unsafe requests with a session.
func (u *ui) checkCSRF(r *http.Request, c *caller) error {
	if c.session == nil || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	want, err := u.sessions.csrf(r.Context(), *c.session)
	if err != nil {
		return err
	}
	if !equal(r.Header.Get(csrfHeader), want) {
		return forbidden("header " + csrfHeader + " does not belong to the session; reload the page")
	}
	return nil
}

// checkNames refuses names that no object can have.
func checkNames(r *http.Request) error {
	if namespace := r.PathValue("namespace"); namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
		return invalid("the path must contain a valid name of a namespace")
	}
	for _, wildcard := range []string{"name", "snapshot"} {
		if name := r.PathValue(wildcard); name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
			return invalid("the path must contain a valid name of an object")
		}
	}
	return nil
}

// readJSON reads a small body.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	if mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(mediaType) != anyJSON {
		return failure{http.StatusUnsupportedMediaType, reasonInvalid, "the body must be application/json", 0}
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	if err := decoder.Decode(into); err != nil {
		return invalid("the body is not valid JSON, or is longer than 64 KiB")
	}
	return nil
}

func (u *ui) getDocument(w http.ResponseWriter, _ *http.Request, _ *caller) error {
	w.Header().Set("Content-Type", anyJSON)
	_, err := w.Write(u.document)
	return err
}
