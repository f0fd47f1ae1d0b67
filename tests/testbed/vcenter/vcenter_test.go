package vcenter

import (
	"net/url"
	"testing"

	"github.com/vmware/govmomi"
)

func TestVCenter(t *testing.T) {
	v, err := Start(t.Context(), "first")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	logIn := func(password string) error {
		address := *v.server.URL
		address.User = nil
		client, err := govmomi.NewClient(t.Context(), &address, true)
		if err != nil {
			return err
		}
		address.User = url.UserPassword("svc", password)
		return client.Login(t.Context(), address.User)
	}
	if err := logIn("first"); err != nil {
		t.Errorf("the password: %v", err)
	}
	v.SetPassword("second")
	if err := logIn("first"); err == nil || v.Refused() != 1 {
		t.Errorf("the replaced password: %v, %d refused logins", err, v.Refused())
	}
	if machines, err := v.Machines(t.Context()); err != nil || len(machines) != 0 {
		t.Errorf("machines besides the template: %v, %v", machines, err)
	}
	if err := v.GiveAddress(t.Context(), Template, "192.0.2.9"); err != nil {
		t.Error(err)
	}
	if there, err := v.Exists(t.Context(), "["+Datastore+"] none/user-data.iso"); err != nil || there {
		t.Errorf("a missing file: %v, %v", there, err)
	}
	if err := v.Destroy(t.Context(), Template); err != nil {
		t.Error(err)
	}
}
