package ui

import (
	"errors"
	"net/http"

	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/operate/operation"
)

// operationsBody has each kind of operation.
type operationsBody struct {
	Items []operationBody `json:"items"`
}

// operationBody is a kind of operation, and what a request for it would be.
type operationBody struct {
	// Field of spec.rkeConfig that requests the operation.
	Field string `json:"field"`
	Title string `json:"title"`
	// Generation is one that no earlier request had. Refused says why no request makes sense now; then it is 0.
	Generation int64    `json:"generation,omitempty"`
	Refused    string   `json:"refused,omitempty"`
	Notes      []string `json:"notes,omitempty"`
	// State, Step and Message are those of the last operation. They are empty if it never ran.
	State   string `json:"state,omitempty"`
	Step    string `json:"step,omitempty"`
	Message string `json:"message,omitempty"`
}

func (u *ui) getOperations(w http.ResponseWriter, r *http.Request, c *caller) error {
	reader, err := u.reader(r, c)
	if err != nil {
		return err
	}
	defer reader.Close()
	scene, err := reader.Scene(r.PathValue("name"))
	if err != nil {
		return err
	}
	body := operationsBody{Items: []operationBody{}}
	for _, kind := range planner.OperationKinds() {
		body.Items = append(body.Items, operationOf(scene, kind))
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

func operationOf(s operation.Scene, kind planner.OperationKind) operationBody {
	out := operationBody{Field: kind.Field, Title: kind.Title}
	if s.ControlPlane != nil {
		record := s.Record(kind)
		out.State, out.Step, out.Message = string(record.State), record.Step, record.Message
	}
	asked, notes, err := s.Place(operation.Order{Kind: kind, ReplacesRunning: kind == planner.RestoreOperation})
	if refusal, ok := errors.AsType[*operation.Refusal](err); ok {
		out.Refused = refusal.Why
		return out
	}
	out.Generation, out.Notes = asked.Generation, notes
	return out
}
