package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/operate/inspect"
)

// manifestBody is the manifest of a new cluster. With problems, the manifest lacks values.
type manifestBody struct {
	Manifest string         `json:"manifest"`
	Problems []edit.Problem `json:"problems,omitempty"`
}

// releasesBody lists the known minors of each distribution, from the oldest to the newest.
type releasesBody struct {
	K3s  []string `json:"k3s"`
	RKE2 []string `json:"rke2"`
	// Networks are the networks that RKE2 offers.
	Networks []string `json:"networks"`
}

// adviceOfCreate is advice in errors of package edit that helps only on a command line.
const adviceOfCreate = "; --release-data names newer data"

// postManifest makes the manifest of a new cluster from the values of a form. It writes nothing.
func postManifest(u *ui, w http.ResponseWriter, r *http.Request, c *caller) error {
	var wanted edit.NewCluster
	if err := readJSON(w, r, &wanted); err != nil {
		return err
	}
	if len(wanted.Pools) > maxPools {
		return invalid(fmt.Sprintf("the cluster has more than %d pools", maxPools))
	}
	schema, problems, err := configSchema(u, r, c, wanted)
	if err != nil {
		return err
	}
	objects, wrong := wanted.Objects(schema, u.opts.Releases)
	for _, one := range edit.ProblemsOf(wrong) {
		one.Message = strings.TrimSuffix(one.Message, adviceOfCreate)
		problems = append(problems, one)
	}
	data, err := edit.Manifest(objects)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, manifestBody{string(data), edit.Distinct(problems)})
	return nil
}

// configSchema reads the schema of the driver's machine configs. It is nil for a driver that the caller may not read:
// then the API server checks the fields.
func configSchema(u *ui, r *http.Request, c *caller, wanted edit.NewCluster) (*apiextv1.JSONSchemaProps,
	[]edit.Problem, error) {
	var problems []edit.Problem
	if len(validation.IsDNS1123Label(wanted.Namespace)) > 0 {
		problems = append(problems, edit.Problem{Field: "namespace", Message: "must be the name of a namespace"})
	}
	if wanted.Driver == "" || driverschema.ValidName(wanted.Driver) != nil {
		return nil, problems, nil
	}
	reader, err := inspect.New(r.Context(), u.forReader(c), wanted.Namespace)
	if err != nil {
		return nil, nil, err
	}
	defer reader.Close()
	spec, err := reader.DriverSchema(wanted.Driver)
	switch {
	case apierrors.IsForbidden(err):
		return nil, problems, nil
	case err != nil:
		return nil, nil, err
	case spec == nil:
		problems = append(problems, edit.Problem{Field: "driver",
			Message: "there is no driver " + wanted.Driver + ", or it is not installed yet"})
	}
	return edit.Schema(wanted.Driver, spec), problems, nil
}

// getReleases lists what a new cluster can have.
func getReleases(u *ui, w http.ResponseWriter, _ *http.Request, _ *caller) error {
	minors := func(runtime distro.Runtime) []string { return append([]string{}, u.opts.Releases.Minors(runtime)...) }
	writeJSON(w, http.StatusOK, releasesBody{minors(distro.K3s), minors(distro.RKE2), edit.Networks()})
	return nil
}

// schemaOfCluster is the schema of a Cluster in the definitions of the program, and its digest.
var schemaOfCluster = sync.OnceValues(func() ([]byte, error) {
	definitions, err := crds.All()
	if err != nil {
		return nil, err
	}
	for _, each := range definitions {
		if each.Spec.Group != provv1.SchemeGroupVersion.Group || each.Spec.Names.Kind != "Cluster" {
			continue
		}
		for _, version := range each.Spec.Versions {
			if version.Name == provv1.SchemeGroupVersion.Version && version.Schema != nil {
				return json.Marshal(version.Schema.OpenAPIV3Schema)
			}
		}
	}
	return nil, errors.New("the program has no schema of a Cluster")
})

// getClusterSchema writes the schema of a Cluster, for completion.
func getClusterSchema(_ *ui, w http.ResponseWriter, r *http.Request, _ *caller) error {
	data, err := schemaOfCluster()
	if err != nil {
		return err
	}
	header, tag := w.Header(), `"`+naming.SHA256(string(data))+`"`
	header.Set("Cache-Control", "private, no-cache")
	header.Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	header.Set("Content-Type", anyJSON)
	_, err = w.Write(data)
	return err
}
