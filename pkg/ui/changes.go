package ui

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/operate/apply"
	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/preview"
)

const (
	// maxManifest is the size in bytes of the largest manifest.
	maxManifest = 1 << 20
	// maxPools and maxMachines limit what a manifest requests. A preview lists every new machine.
	maxPools, maxMachines = 200, 10_000
	// lookAttempts is how often a preview begins again because the cluster changes meanwhile.
	lookAttempts = 3
	// fieldPools is the path of the pools of a Cluster.
	fieldPools = "spec.rkeConfig.machinePools"
)

// changeEndpoints are the endpoints that create, change and delete clusters.
func changeEndpoints() []endpoint {
	of := "v1/" + strings.TrimSuffix(clusterPath, "/")
	match := parameter{"If-Match", "the digest that the preview, or removal, calls seen"}
	attempt := parameter{attemptHeader, "a random name of this attempt, so that a repeated request writes nothing"}
	return []endpoint{
		{method: "PUT", path: of, summary: "Write a manifest whose preview was shown", body: textYAML,
			headers: []parameter{match, {"If-None-Match", "* for a new cluster, without If-Match"}, attempt},
			isHeavy: true, answer: writtenBody{}, handle: putCluster},
		{method: "GET", path: "v1/" + clusterPath + "removal", summary: "What the deletion of a cluster does",
			answer: removalBody{}, handle: getRemoval},
		{method: "DELETE", path: of, summary: "Delete a cluster whose removal was shown",
			headers: []parameter{match, attempt}, handle: deleteCluster},
		{method: "POST", path: "v1/manifests", summary: "The manifest of a new cluster from the values of a form",
			body: edit.NewCluster{}, answer: manifestBody{}, handle: postManifest},
		{method: "GET", path: "v1/schemas/cluster", summary: "The OpenAPI schema of a Cluster", answer: anyJSON,
			handle: getClusterSchema},
		{method: "GET", path: "v1/releases", summary: "Kubernetes versions and networks of new clusters",
			answer: releasesBody{}, handle: getReleases},
	}
}

// previewBody is what a text would do. With problems, it cannot be written.
type previewBody struct {
	// Seen is the digest of the live objects, for If-Match. It is empty for a cluster that does not exist.
	Seen     string          `json:"seen"`
	Report   *preview.Report `json:"report,omitempty"`
	Problems []edit.Problem  `json:"problems,omitempty"`
	Notes    []string        `json:"notes,omitempty"`
}

// writtenBody names the objects that were written.
type writtenBody struct {
	Written []string `json:"written"`
}

// removalBody is what a deletion would do.
type removalBody struct {
	edit.Removal
	// Seen is the digest of the Cluster, for If-Match.
	Seen string `json:"seen"`
}

// writer returns a Writer with the caller's rights.
func (u *ui) writer(c *caller) (*apply.Writer, error) {
	config := rest.CopyConfig(c.config)
	config.Timeout = callTime
	return apply.New(config, u.opts.Version)
}

// getManifest writes the Cluster and its machine configs as a user would write them.
func (u *ui) getManifest(w http.ResponseWriter, r *http.Request, c *caller) error {
	writer, err := u.writer(c)
	if err != nil {
		return err
	}
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	live, err := writer.Live(r.Context(), namespace, name, edit.Text{})
	if err == nil && live.Cluster == nil {
		err = notFound(fmt.Sprintf("there is no Cluster %s in namespace %s", name, namespace))
	}
	if err != nil {
		return err
	}
	objects := []*unstructured.Unstructured{edit.Written(live.Cluster)}
	for _, config := range live.Configs {
		objects = append(objects, edit.Written(config))
	}
	data, err := edit.Manifest(objects)
	if err != nil {
		return err
	}
	seen, err := live.Seen()
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", textYAML)
	header.Set("Cache-Control", "no-store")
	header.Set("ETag", `"`+seen+`"`)
	_, err = w.Write(data)
	return err
}

// readText reads the manifest of a request. The problems are those that no server is needed for.
func readText(w http.ResponseWriter, r *http.Request) (edit.Text, []edit.Problem, error) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxManifest))
	if err != nil {
		return edit.Text{}, nil, failure{http.StatusRequestEntityTooLarge, reasonInvalid,
			"the manifest is larger than 1 MiB", 0}
	}
	text, problems := edit.ParseText(data)
	if len(problems) == 0 {
		problems = text.CheckNames(r.PathValue("namespace"), r.PathValue("name"))
	}
	if len(problems) > 0 {
		return text, problems, nil
	}
	if pools := edit.CountPools(text.Cluster()); pools > maxPools {
		return text, text.Locate(text.Cluster(), []edit.Problem{{Field: fieldPools, Message: fmt.Sprintf(
			"the manifest has %d pools; the UI accepts at most %d, and the commands have no limit", pools,
			maxPools)}}), nil
	}
	// The API server tells where a value has a wrong type.
	if typed, err := edit.Typed(text.Cluster()); err == nil {
		problems = text.Locate(text.Cluster(), checkSize(typed))
	}
	return text, problems, nil
}

// checkSize refuses a manifest whose preview would need much memory. A few bytes can request millions of machines.
func checkSize(cluster *provv1.Cluster) []edit.Problem {
	if cluster.Spec.RKEConfig == nil {
		return nil
	}
	pools, sum := cluster.Spec.RKEConfig.MachinePools, int64(0)
	for i := range pools {
		sum += int64(max(topology.Wanted(&pools[i]), 0))
	}
	if sum <= maxMachines {
		return nil
	}
	return []edit.Problem{{Field: fieldPools, Message: fmt.Sprintf("the manifest requests %d machines; the UI accepts "+
		"at most %d, and the commands have no limit", sum, maxMachines)}}
}

// postPreview tells what a text would do, and whether the API server would accept it.
func postPreview(u *ui, w http.ResponseWriter, r *http.Request, c *caller) error {
	text, problems, err := readText(w, r)
	if err != nil {
		return err
	}
	body := previewBody{Problems: problems}
	for range lookAttempts {
		if len(problems) > 0 {
			break
		}
		if body, err = (looker{u, r, c, text}).look(); !errors.Is(err, edit.ErrChanged) {
			break
		}
	}
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

// looker previews a text as the caller.
type looker struct {
	u    *ui
	r    *http.Request
	c    *caller
	text edit.Text
}

// look returns edit.ErrChanged if the cluster changes meanwhile.
func (l looker) look() (previewBody, error) {
	out, text, r := previewBody{}, l.text, l.r
	writer, err := l.u.writer(l.c)
	if err != nil {
		return out, err
	}
	namespace := r.PathValue("namespace")
	live, err := writer.Live(r.Context(), namespace, r.PathValue("name"), text)
	if err != nil {
		return out, err
	}
	if out.Seen, err = live.Seen(); err != nil {
		return out, err
	}
	for _, ref := range live.Unread {
		out.Notes = append(out.Notes, "you may not read "+ref.Kind+" "+ref.Name)
	}
	out.Notes = append(out.Notes, text.Notes()...)
	trial, err := writer.Try(r.Context(), live, text, namespace)
	if err != nil {
		return out, err
	}
	out.Problems = trial.Problems
	cluster, err := edit.Typed(edit.Desired(live.Cluster, text.Cluster(), namespace))
	if err != nil {
		return l.untyped(out, err), nil
	}
	report, problems, err := l.report(cluster, live)
	if err != nil {
		return out, err
	}
	out.Report = report
	out.Problems = edit.Distinct(append(out.Problems, text.Locate(text.Cluster(), problems)...))
	if report == nil && len(out.Problems) == 0 {
		out.Notes = append(out.Notes, "Drover does not provision the cluster, so no machine changes")
	}
	return out, nil
}

// untyped adds the problem of a value that has a wrong type, unless the API server has named its field.
func (l looker) untyped(body previewBody, err error) previewBody {
	if len(body.Problems) == 0 {
		body.Problems = l.text.Locate(l.text.Cluster(), edit.WrongType(err))
	}
	return body
}

// report previews the objects that would be stored.
func (l looker) report(cluster *provv1.Cluster, live edit.Live) (*preview.Report, []edit.Problem, error) {
	text, namespace := l.text, l.r.PathValue("namespace")
	file := inspect.File{Cluster: cluster, IsWhole: true, Ignored: text.Ignored,
		MachineConfigs: map[string]*unstructured.Unstructured{}}
	for _, config := range text.Configs() {
		file.MachineConfigs[config.GetKind()+"/"+config.GetName()] = edit.Desired(live.Of(config), config, namespace)
	}
	reader, err := l.u.reader(l.r, l.c)
	if err != nil {
		return nil, nil, err
	}
	defer reader.Close()
	report, err := reader.Preview(file)
	if changed := sawSame(reader, live, cluster.Name); errors.Is(changed, edit.ErrChanged) {
		return nil, nil, changed
	}
	if err != nil {
		problems, err := whyNoPreview(err, live)
		return nil, problems, err
	}
	var problems []edit.Problem
	if n := report.Problems(); n > 0 {
		problems = append(problems, edit.Problem{Message: fmt.Sprintf("Drover cannot make plans for %d machines; see "+
			"their problems", n)})
	}
	return &report, problems, nil
}

// whyNoPreview converts an error of a preview. It returns the error if that says nothing about the text.
func whyNoPreview(err error, live edit.Live) ([]edit.Problem, error) {
	if invalid, ok := errors.AsType[*inspect.InvalidError](err); ok {
		return edit.ProblemsOf(invalid.Problems), nil
	}
	if errors.Is(err, inspect.ErrNotProvisioned) {
		if !edit.IsProvisioned(live.Cluster) {
			return nil, nil
		}
		return []edit.Problem{{Field: "spec.rkeConfig", Message: "must stay, because Drover has provisioned the " +
			"cluster"}}, nil
	}
	switch {
	case apierrors.IsForbidden(err): // a user must not apply what no preview has shown
		return []edit.Problem{{Message: "the effect on machines is unknown, because you may not read all of the " +
			"cluster: " + sentence(err)}}, nil
	case isStatement(err):
		return []edit.Problem{{Message: sentence(err)}}, nil
	}
	return nil, err
}

// sawSame returns edit.ErrChanged if a preview has read another Cluster than the write would replace. If it has read
// none, its own error says so.
func sawSame(reader *inspect.Reader, live edit.Live, name string) error {
	found, err := reader.Cluster(name)
	if apierrors.IsNotFound(err) {
		found, err = nil, nil
	}
	if err == nil && !isSameCluster(found, live.Cluster) {
		err = edit.ErrChanged
	}
	return err
}

// isSameCluster compares what a user sees of Clusters. Both can be nil.
func isSameCluster(found *provv1.Cluster, now *unstructured.Unstructured) bool {
	if found == nil || now == nil {
		return found == nil && now == nil
	}
	return found.UID == now.GetUID() && found.Generation == now.GetGeneration() &&
		equality.Semantic.DeepEqual(found.Labels, now.GetLabels()) &&
		equality.Semantic.DeepEqual(found.Annotations, now.GetAnnotations())
}

// asSeen returns the digest in If-Match, empty for If-None-Match: *.
func asSeen(r *http.Request) (string, error) {
	match, isNew := r.Header.Get("If-Match"), strings.TrimSpace(r.Header.Get("If-None-Match")) == "*"
	seen := strings.Trim(strings.TrimPrefix(strings.TrimSpace(match), "W/"), `"`)
	if (seen == "") == isNew {
		return seen, nil
	}
	return "", failure{http.StatusPreconditionRequired, reasonInvalid, "header If-Match must have the digest of the " +
		"preview; for a new cluster, header If-None-Match must be *", 0}
}

// putCluster writes a text that was previewed.
func putCluster(u *ui, w http.ResponseWriter, r *http.Request, c *caller) error {
	seen, err := asSeen(r)
	if err != nil {
		return err
	}
	text, problems, err := readText(w, r)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return refusal{problems}
	}
	writer, err := u.writer(c)
	if err != nil {
		return err
	}
	if err := u.attempts.begin(c.user, r); err != nil {
		return err
	}
	written, err := writer.Put(r.Context(), r.PathValue("namespace"), r.PathValue("name"), text, seen)
	partial, isPartial := errors.AsType[*apply.PartialError](err)
	if isPartial {
		written = partial.Written
	}
	if len(written) > 0 {
		u.opts.Log.WithField("user", c.user).WithField("objects", written).Info("A user of the UI has written")
	}
	if invalid, ok := errors.AsType[*apply.InvalidError](err); ok && !isPartial {
		return refusal{invalid.Problems}
	}
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, writtenBody{written})
	return nil
}

// getRemoval tells what the deletion of a cluster would do.
func getRemoval(u *ui, w http.ResponseWriter, r *http.Request, c *caller) error {
	writer, err := u.writer(c)
	if err != nil {
		return err
	}
	cluster, seen, err := deletable(r, writer)
	if err != nil {
		return err
	}
	reader, err := u.reader(r, c)
	if err != nil {
		return err
	}
	defer reader.Close()
	belongings, err := reader.Belongings(r.Context(), cluster.Name)
	if err != nil {
		return err
	}
	belongings.Cluster = cluster
	writeJSON(w, http.StatusOK, removalBody{edit.RemovalOf(belongings), seen})
	return nil
}

// deletable reads the Cluster of the path, and its digest.
func deletable(r *http.Request, writer *apply.Writer) (*provv1.Cluster, string, error) {
	cluster, err := writer.Cluster(r.Context(), r.PathValue("namespace"), r.PathValue("name"))
	if err != nil {
		return nil, "", err
	}
	seen, err := edit.SeenOf(cluster)
	return cluster, seen, err
}

// deleteCluster deletes the Cluster whose removal was shown.
func deleteCluster(u *ui, w http.ResponseWriter, r *http.Request, c *caller) error {
	seen, err := asSeen(r)
	if err != nil {
		return err
	}
	writer, err := u.writer(c)
	if err == nil {
		err = u.attempts.begin(c.user, r)
	}
	if err != nil {
		return err
	}
	cluster, now, err := deletable(r, writer)
	switch {
	case err != nil:
		return err
	case now != seen:
		return edit.ErrChanged
	}
	if refused := edit.RemovalOf(edit.Belongings{Cluster: cluster}).Refused; refused != "" {
		return refusal{[]edit.Problem{{Message: refused}}}
	}
	if err := writer.Delete(r.Context(), cluster); err != nil {
		return err
	}
	u.opts.Log.WithField("user", c.user).WithField("cluster", cluster.Namespace+"/"+cluster.Name).Info(
		"A user of the UI deletes a cluster")
	w.WriteHeader(http.StatusNoContent)
	return nil
}
