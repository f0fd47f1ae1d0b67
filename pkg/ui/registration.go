package ui

import (
	"net/http"
	"time"

	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/operate/edit"
)

// registrationBody has the commands that register a host. They contain the registration token, because that is their
// purpose. The answer is neither stored nor logged.
type registrationBody struct {
	Command string `json:"command"`
	// InsecureCommand is for hosts that do not trust the server's certificate. It compares the install script.
	InsecureCommand string `json:"insecureCommand,omitempty"`
	// Expires is when the token is replaced. It is absent for a token that is not replaced.
	Expires *time.Time `json:"expires,omitempty"`
}

func (u *ui) getRegistration(w http.ResponseWriter, r *http.Request, c *caller) error {
	query := r.URL.Query()
	options := registration.Options{
		Roles: registration.Pieces(query["roles"]), Labels: registration.Pieces(query["labels"]),
		Taints: registration.Pieces(query["taints"]), Address: query.Get("address"),
		InternalAddress: query.Get("internalAddress"), NodeName: query.Get("nodeName"),
	}
	var problems []edit.Problem
	for _, mistake := range options.Mistakes() {
		problems = append(problems, edit.Problem{Field: mistake.Field, Message: mistake.Message})
	}
	if len(problems) > 0 {
		return refusal{problems}
	}
	reader, err := u.reader(r, c)
	if err != nil {
		return err
	}
	defer reader.Close()
	name := r.PathValue("name")
	cluster, err := reader.Cluster(name)
	if err != nil {
		return err
	}
	if cluster.Spec.RKEConfig == nil {
		return notFound("cluster " + name + " has no spec.rkeConfig: Drover does not provision it, and no host joins " +
			"it")
	}
	found, err := reader.Registration(name)
	if err != nil {
		return err
	}
	if found.Command == "" {
		return notFound("cluster " + name + " has no registration command yet; Drover makes it within seconds after " +
			"the cluster, if the server knows its own URL")
	}
	body := registrationBody{Command: found.Command + " " + options.Arguments()}
	if found.Insecure != "" {
		body.InsecureCommand = found.Insecure + " " + options.Arguments()
	}
	if !found.ExpiresAt.IsZero() {
		body.Expires = &found.ExpiresAt
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}
